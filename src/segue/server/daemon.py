"""The daemon of one home: its lock, its sockets, its file, and its orderly end.

It listens on 127.0.0.1 for browsers and programs, and on a Unix socket for the command line. It never binds
another address. The first signal ends it when running turns have finished or a time limit is over, the
second at once; what runs then goes on, and is recovered by the next turn.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from segue.app.daemon_file import DaemonFile, file_of, lock_of
from segue.app.workspace import open_workspace
from segue.config.home import PRIVATE, Home, home_of, settled_environment
from segue.core.errors import InUse, Misuse
from segue.server import presence
from segue.server.log import LOG, log_failure, start_log
from segue.system import clock, sockets
from segue.system.files import write_whole

if TYPE_CHECKING:
    from segue.server.access import Access
    from segue.server.parts import Part

DRAIN_S = 30.0
"""How long running turns may take to finish."""
CLOSE_S = 2
"""How long answers may take to be sent after that."""
SAME_S = 0.3
"""Signals within this time are one: two commands may stop a daemon at the same moment."""
LOCK_S = 1.0
"""How long is waited for a daemon that is just ending."""
Announce = Callable[[str, str], None]


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How a daemon is started."""

    port: int = 0
    log_json: bool = False
    log_file: bool = False
    """Log to ``daemon.log`` instead of stderr."""
    idle_exit_s: float | None = None
    """End after this long without a request and without an unfinished run."""


def serve(env: Mapping[str, str], cwd: Path, options: Options, announce: Announce) -> None:
    """Serve the home that the environment names, until a signal comes.

    ``announce`` is called with the address and a one-time link when the daemon listens. Raises ``InUse`` if
    there is a daemon already.
    """
    settled = settled_environment(env, cwd)
    home = home_of(settled, cwd)
    _make_private(home)
    with _alone(home):
        start_log(as_json=options.log_json, path=presence.log_of(home) if options.log_file else None)
        open_workspace(settled, cwd, serving=True).close()  # upgrades the store, if that is needed
        listening = _listen(home, options.port)
        try:
            asyncio.run(_serve(home, settled, cwd, options, listening, announce))
        finally:
            for each in listening:
                each.close()
            _clean_up(home)


async def _serve(
    home: Home,
    env: Mapping[str, str],
    cwd: Path,
    options: Options,
    listening: list[socket.socket],
    announce: Announce,
) -> None:
    from segue.app.segue import Segue
    from segue.server.api import ANSWERED, ENDING, make_app
    from segue.server.http import Server
    from segue.server.parts import parts_of

    access, started = _access(home, listening[0].getsockname()[1]), clock.now_ms()
    async with Segue(env=env, cwd=cwd) as segue:
        segue.workspace.transport = "daemon"
        events = {ENDING: asyncio.Event(), ANSWERED: asyncio.Event()}
        parts = parts_of(segue, events[ANSWERED])
        state: dict[str, Any] = {**parts, **events, "started": started, "tasks": set()}
        for part in parts.values():
            await part.start()
        told = presence.this_daemon(home, access.url, segue.workspace.config.store.url, started, os.getpid())

        def listens() -> None:
            presence.tell(home, told)
            LOG.info("listening on %s (pid %d)", access.url, told.pid)
            announce(access.url, access.make_link())

        async def ends() -> None:
            presence.tell(home, msgspec.structs.replace(told, stopping=True))
            await drain(parts, DRAIN_S)
            events[ENDING].set()

        server = Server(make_app(segue, access, state), listens, ends, CLOSE_S)
        with signals(server.stop, home), _idle_exit(server, parts, options.idle_exit_s):
            await server.serve(listening)
        if any(part.runs().get("running") for part in parts.values()):
            _leave(home)
    LOG.info("stopped")


def _access(home: Home, port: int) -> Access:
    """Who may ask: who has the token, and who was logged in before."""
    from segue.server.access import Access, read_token

    return Access(read_token(presence.token_of(home)), port, presence.logins_of(home))


def _leave(home: Home) -> NoReturn:
    """End at once: the agents of unfinished turns go on, and the next daemon follows them to their end. An
    orderly end of the event loop would cancel them."""
    LOG.info("stopped; unfinished turns go on without a daemon")
    _clean_up(home)
    os._exit(0)


async def drain(parts: Mapping[str, Part], limit_s: float) -> None:
    """End all parts. One that fails does not keep the others from ending."""
    LOG.info("stopping: unfinished runs have up to %d s", round(limit_s))

    async def one(part: Part) -> None:
        try:
            async with asyncio.timeout(limit_s + 5):
                await part.drain(limit_s)
        except Exception as error:
            log_failure(error)

    await asyncio.gather(*map(one, parts.values()))


def _make_private(home: Home) -> None:
    """Create the home. If it exists, take away what others may do in it. Raises ``Misuse`` if it belongs to
    somebody else."""
    root = home.make(home.root)
    found = root.stat()
    if found.st_uid != os.getuid():
        raise Misuse(f"{root} belongs to another user; a daemon needs a SEGUE_HOME of its own user")
    if found.st_mode & 0o777 != PRIVATE:
        root.chmod(PRIVATE)


@contextmanager
def _alone(home: Home) -> Iterator[None]:
    """Hold the lock of the home. It is released when the process ends, however that happens."""
    handle = os.open(lock_of(home), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        until = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                told, health = presence.look(home)
                if health is not None or time.monotonic() > until:
                    raise InUse(_refusal(told)) from None
                time.sleep(0.05)
        yield
    finally:
        os.close(handle)


def _refusal(told: DaemonFile | None) -> str:
    if told is None:
        return "another daemon of this SEGUE_HOME is starting or ending; try again, or see segue status"
    return f"a daemon already serves this SEGUE_HOME: {told.url} (pid {told.pid}); segue stop ends it"


def _listen(home: Home, port: int) -> list[socket.socket]:
    """The two sockets: loopback, and the one of this user. If no port is named, the last one is used again,
    unless it is taken: pages that are open find the daemon again."""
    tcp = None
    if port == 0 and (last := _last_port(home)):
        with suppress(OSError):  # somebody else has it now
            tcp = sockets.listen_on_loopback(last)
    try:
        tcp = tcp or sockets.listen_on_loopback(port)
    except OSError as error:
        raise Misuse(f"cannot listen on port {port}: {error.strerror}; choose another --port") from None
    try:
        write_whole(presence.port_of(home), b"%d\n" % tcp.getsockname()[1], durable=False)
        return [tcp, sockets.listen(presence.socket_of(home))]
    except BaseException:
        tcp.close()
        raise


def _last_port(home: Home) -> int:
    """The port of the last daemon of this home; 0: it is not known."""
    try:
        port = int(presence.port_of(home).read_bytes())
    except (OSError, ValueError):
        return 0
    return port if 1024 <= port <= 65535 else 0


def _clean_up(home: Home) -> None:
    for path in (file_of(home), presence.socket_of(home)):
        with suppress(OSError):
            path.unlink(missing_ok=True)


@contextmanager
def signals(stop: Callable[[], None], home: Home) -> Iterator[None]:
    """The first SIGTERM, SIGINT or SIGHUP stops the daemon, a later one ends it at once."""
    heard: float | None = None

    def hear(number: int) -> None:
        nonlocal heard
        now = time.monotonic()
        if heard is None:
            heard = now
            stop()
        elif now - heard > SAME_S:
            LOG.warning("ended at once by a second signal; the next turn recovers what was running")
            _clean_up(home)
            os._exit(128 + number)

    loop, numbers = asyncio.get_running_loop(), (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    for number in numbers:
        loop.add_signal_handler(number, hear, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextmanager
def _idle_exit(server: Any, parts: Mapping[str, Part], after_s: float | None) -> Iterator[None]:
    """Stop the server when nobody has asked for anything and nothing has run for a while."""

    async def watch(limit_s: float) -> None:
        asked, since = -1, time.monotonic()
        while time.monotonic() - since < limit_s:
            await asyncio.sleep(min(limit_s / 4, 5.0))
            runs = sum(sum(part.runs().values()) for part in parts.values())
            if server.requests != asked or runs or server.open_connections:
                asked, since = server.requests, time.monotonic()
        LOG.info("idle for %d s", round(limit_s))
        server.stop()

    task = asyncio.ensure_future(watch(after_s)) if after_s is not None else None
    try:
        yield
    finally:
        if task is not None:
            task.cancel()
