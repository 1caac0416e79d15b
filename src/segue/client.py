"""The daemon's client: what the command line needs to let it run a turn or change something.

It uses the standard library alone and loads almost nothing: a turn through the daemon is quicker than one
that the command line runs itself only if the command line starts quickly. It speaks HTTP over the daemon's
Unix socket, which only this user can have made.
"""

from __future__ import annotations

import _socket as socket  # the module around it takes longer to load than all the rest
import os
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress

from segue import __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROTOCOL = 1
TURNS, CHANGES = "/api/v1/local/turns", "/api/v1/local/changes"
OFF = ("off", "0", "false", "no")
AUTO = "auto"
CONNECT_S = 5.0
TICK_S = 0.2
BOOT_ID = "/proc/sys/kernel/random/boot_id"
MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")
MOST = 2  # how often a run can be cancelled: the second time kills it
ACCEPTED = (200, 410)  # it is cancelled, or over
LONGEST = 103  # bytes of a path in a socket's address, on every system


class DaemonLost(Exception):  # noqa: N818 - it is an answer, not an error
    """The daemon went away before the answer was complete. ``begun``: it had accepted the call."""

    def __init__(self, begun: bool) -> None:
        super().__init__("the daemon went away")
        self.begun = begun


class Request:
    """A request that was sent, and of which only the status matters."""

    def __init__(self, connected: socket.socket) -> None:
        self._connected = connected

    def status(self, wait_s: float) -> int | None:
        """The status; None: it is not there yet. Raises ``OSError`` or ``ValueError`` if it will not come."""
        self._connected.settimeout(wait_s)
        try:
            head = self._connected.recv(64)
        except (TimeoutError, BlockingIOError):
            return None
        return int(head.partition(b" ")[2][:3])

    def close(self) -> None:
        self._connected.close()


class Daemon:
    """A daemon that this process may use."""

    def __init__(self, path: str, told: Mapping[str, Any]) -> None:
        self._path, self.told = path, told

    def call(self, path: str, body: Mapping[str, Any], tick: Callable[[], None]) -> Iterator[bytes]:
        """The lines of the answer, as they come. ``tick`` is called while nothing comes.

        Raises ``DaemonLost`` if the last line is missing.
        """
        begun = False
        try:
            with closing(self._send("POST", path, _json().dumps(body).encode())) as connected:
                connected.settimeout(TICK_S)
                lines = _lines(connected, tick)
                _check_head(lines)
                for line in lines:
                    begun = True
                    yield line
        except (OSError, ValueError) as error:
            raise DaemonLost(begun) from error

    @property
    def outdated(self) -> str | None:
        """What to tell the user if it is another version than this command; None: it is the same."""
        version = self.told.get("version")
        if version == __version__:
            return None
        update = "segue stop && segue serve --background updates it"
        return f"the daemon is version {version}, this command is {__version__}; {update}"

    def answers(self) -> bool:
        """Whether it is there: a process that has ended may still be listed."""
        return self._status("GET", "/api/v1/health", b"") == 200

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> int | None:
        """A request of which only the status matters. Returns it; None: the daemon does not answer."""
        return self._status("POST", path, b"" if body is None else _json().dumps(body).encode())

    def start(self, path: str) -> Request:
        """Send a POST request, without waiting for its answer. Raises ``OSError``."""
        return Request(self._send("POST", path, b""))

    def _status(self, method: str, path: str, body: bytes) -> int | None:
        try:
            with closing(Request(self._send(method, path, body))) as sent:
                return sent.status(CONNECT_S)
        except (OSError, ValueError):
            return None

    def get(self, path: str) -> bytes | None:
        """The body of an answer; None: there is none."""
        try:
            with closing(self._send("GET", path, b"")) as connected:
                connected.settimeout(CONNECT_S)
                told = b"".join(iter(lambda: connected.recv(65_536), b""))
        except OSError:
            return None
        head, _, body = told.partition(b"\r\n\r\n")
        return body if b" 200 " in head[:16] else None

    def _send(self, method: str, path: str, body: bytes) -> socket.socket:
        """Send a request. With HTTP/1.0 the end of the answer is the end of the connection."""
        connected = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connected.settimeout(CONNECT_S)
            _connect(connected, self._path)
            if _peer(connected) != os.getuid():
                raise PermissionError("another user listens at the daemon's socket")
            head = (
                f"{method} {path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n"
            )
            connected.sendall(head.encode() + body)
        except BaseException:
            connected.close()
            raise
        return connected


class RemoteCancel:
    """Tells the daemon that the run is cancelled, until it has accepted that: it may not have stored the run
    yet. Each request is answered before the next is sent, because a second one kills the run."""

    def __init__(self, daemon: Daemon, run: str) -> None:
        self._daemon, self._path = daemon, f"/api/v1/runs/{run}/cancel"
        self.asked = self.accepted = 0
        self._sent: Request | None = None
        self._busy = False

    def pass_on(self, wait_s: float = 0) -> None:
        """Send what was not accepted yet. A signal may come meanwhile, and call this again."""
        if self._busy:
            return
        self._busy = True
        try:
            while self.accepted < min(self.asked, MOST):
                if self._status(wait_s) not in ACCEPTED:
                    return  # it is tried again
                self.accepted += 1
        finally:
            self._busy = False

    def _status(self, wait_s: float) -> int | None:
        """The answer; None: there is none yet, or nobody answers."""
        try:
            self._sent = self._sent or self._daemon.start(self._path)
            if (status := self._sent.status(wait_s)) is None:
                return None
        except (OSError, ValueError):
            status = None
        if self._sent is not None:
            self._sent.close()
            self._sent = None
        return status


def find_daemon(env: Mapping[str, str]) -> Daemon | str | None:
    """The daemon of this home, if it may be used; a text says why it may not; None: there is none."""
    if env.get("SEGUE_DAEMON", "").lower() in OFF:
        return None
    root = home_root(env)
    try:
        with open(f"{root}/daemon.json", "rb") as file:
            told = _json().loads(file.read())
        home = os.stat(root)
    except (OSError, ValueError):
        return None
    if not isinstance(told, dict):
        return None
    if not _is_here(told, f"{home.st_dev}:{home.st_ino}"):
        who = "runs elsewhere: as another user, in another container or on another machine"
        return f"the daemon {who}; running this without it" if _is_locked(root) else None
    if not _lives(told):
        return None
    if told.get("protocol") != PROTOCOL:
        return f"the daemon ({told.get('version')}) speaks another protocol; running this without it"
    return Daemon(f"{root}/daemon.sock", told)


def inherited() -> dict[str, Any]:
    """What a process that this one starts gets besides directory and environment: umask and limits."""
    import resource

    os.umask(mask := os.umask(0o077))
    limits = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    return {"umask": mask, "limits": {name: resource.getrlimit(getattr(resource, name)) for name in limits}}


def may_start(env: Mapping[str, str]) -> bool:
    """Whether a daemon may be wanted, if none runs: this is cheap, and the configuration decides."""
    word = env.get("SEGUE_DAEMON", "").lower()
    if word in OFF:
        return False
    if word == AUTO or "SEGUE_DAEMON_START" in env:
        return True
    try:
        with open(config_file(env), "rb") as file:
            return b"daemon" in file.read()
    except OSError:
        return False


def config_file(env: Mapping[str, str]) -> str:
    """The user's configuration, as ``config/home.py`` finds it."""
    if env.get("SEGUE_HOME") or sys.platform == "darwin":
        return f"{home_root(env)}/config.toml"
    named = env.get("XDG_CONFIG_HOME", "")
    return f"{named if named.startswith('/') else env.get('HOME', '') + '/.config'}/segue/config.toml"


def home_root(env: Mapping[str, str]) -> str:
    """Segue's home, as ``config/home.py`` finds it."""
    home = env.get("HOME", "")
    if named := env.get("SEGUE_HOME"):
        return home + named[1:] if named == "~" or named.startswith("~/") else named
    if sys.platform == "darwin":
        return f"{home}/Library/Application Support/segue"
    data = env.get("XDG_DATA_HOME", "")
    return f"{data if data.startswith('/') else f'{home}/.local/share'}/segue"


def _json() -> Any:
    import json  # only if there is a daemon

    return json


def _is_here(told: Mapping[str, Any], home: str) -> bool:
    """Whether the daemon is of this machine, container and user, and serves this home."""
    mine = {"uid": os.getuid(), "pid_ns": _link("pid"), "mnt_ns": _link("mnt"), "home": home}
    known = {"boot_id": _line_of(BOOT_ID), "machine_id": _machine_id()}  # if the system tells
    mine |= {name: value for name, value in known.items() if value is not None and name in told}
    return all(told.get(name) == value for name, value in mine.items())


def _machine_id() -> str | None:
    """As ``system/processes.py`` has it."""
    if (found := next(filter(None, map(_line_of, MACHINE_IDS)), None)) is None:
        return None
    try:  # the module around it takes longer to load
        hashes = __import__("_sha2" if sys.version_info >= (3, 12) else "_sha256")
    except ImportError:
        hashes = __import__("hashlib")
    return str(hashes.sha256(f"segue {found}".encode()).hexdigest()[:32])


def _lives(told: Mapping[str, Any]) -> bool:
    try:
        os.kill(int(told["pid"]), 0)
    except (OSError, KeyError, TypeError, ValueError):
        return False
    return True


def _is_locked(root: str) -> bool:
    """Whether a daemon holds its lock: one that cannot be seen from here may still live."""
    import fcntl

    try:
        with open(f"{root}/daemon.lock", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    return False


def _connect(connected: socket.socket, path: str) -> None:
    """Connect, also if the path is too long for an address: then through its open directory or a link."""
    if len(os.fsencode(path)) <= LONGEST:
        connected.connect(path)
        return
    folder, name = os.path.split(path)
    if os.path.isdir("/proc/self/fd"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            connected.connect(f"/proc/self/fd/{handle}/{name}")
        finally:
            os.close(handle)
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="segue-", dir="/tmp") as made:
        os.symlink(os.path.abspath(folder), f"{made}/d", target_is_directory=True)
        connected.connect(f"{made}/d/{name}")


def _line_of(path: str) -> str | None:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read().strip()
    except OSError:
        return None
    return None if text in ("", "uninitialized") else text


def _link(kind: str) -> str | None:
    with suppress(OSError):
        return os.readlink(f"/proc/self/ns/{kind}")
    return None


def _peer(connected: socket.socket) -> int | None:
    """The user at the other end, as ``system/sockets.py`` finds it; None: the system does not tell."""
    try:
        if sys.platform == "darwin":
            return int(struct.unpack_from("=II", connected.getsockopt(0, 1, 76))[1])
        told = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        return int(struct.unpack("3i", told)[1])
    except (OSError, AttributeError, struct.error):
        return None


def _lines(connected: socket.socket, tick: Callable[[], None]) -> Iterator[bytes]:
    rest = b""
    while True:
        try:
            chunk = connected.recv(1 << 16)
        except TimeoutError:
            tick()
            continue
        if not chunk:
            if rest:
                raise ValueError("the answer ends in the middle of a line")
            return
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines


def _check_head(lines: Iterator[bytes]) -> None:
    """Read the head of the answer."""
    status = next(lines, b"")
    if status.split(b" ")[1:2] != [b"200"]:
        raise ValueError(status.decode("latin-1"))
    for line in lines:
        if not line.strip():
            return
