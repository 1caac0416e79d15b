"""The loopback model: an HTTP server on 127.0.0.1 that speaks four wire protocols and remembers nothing.

    with LoopbackModel() as model:
        ...  # point a CLI at model.url, with model.key (see `segue.rehearsal.setup`)
        model.requests

or `python -m segue.rehearsal.model --port 0 --log FILE`; once it is ready it prints `{"url": …, "key": …}`.
"""

import argparse
import json
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn

from segue.rehearsal import scenario as scenarios
from segue.rehearsal.app import Stage, build
from segue.rehearsal.cache import Cache
from segue.rehearsal.gate import Gate
from segue.rehearsal.log import Log, Request


class LoopbackModel:
    """The model in a background thread. `scenario` and `log` are files; `port` 0 takes a free one.

    Only who has `key` is answered; it is drawn for this run. `kept` bounds what stays in memory: so many
    requests, without bodies. `heard` is called with each request. `clock` is what the prompt cache ages by.
    Raises `ValueError` for a bad scenario and `OSError` for a port that cannot be had.
    """

    def __init__(
        self,
        port: int = 0,
        scenario: Path | str | None = None,
        log: Path | str | None = None,
        *,
        log_bodies: bool = True,
        kept: int | None = None,
        heard: Callable[[Request], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        rules = scenarios.load(Path(scenario)) if scenario is not None else None
        self._log = Log(Path(log) if log is not None else None, bodies=log_bodies, kept=kept, heard=heard)
        self.key = f"rehearsal-{secrets.token_hex(16)}"
        self._stage = Stage(self._log, rules, Cache(clock))
        self._socket = _listen(port)
        self._server = uvicorn.Server(_config(Gate(build(self._stage), self.key)))
        self._thread = threading.Thread(target=self._run, name="loopback-model", daemon=True)
        self.port: int = self._socket.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def requests(self) -> list[Request]:
        """Every request so far, in order."""
        return self._log.requests

    def reset(self) -> None:
        """Forget the log, the cache and the script's counters."""
        self._stage.reset()

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop at once, also while clients hang."""
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(5)
        self._socket.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])


def _listen(port: int) -> socket.socket:
    """Bound and listening from the start: a client that is early waits instead of being refused."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def _config(app: Gate) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        log_level="critical",
        access_log=False,
        timeout_keep_alive=300,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m segue.rehearsal.model", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--scenario", type=Path)
    parser.add_argument("--no-bodies", action="store_true", help="leave the requests' bodies out of the log")
    given = parser.parse_args()
    ended = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda *_: ended.set())
    with LoopbackModel(given.port, given.scenario, given.log, log_bodies=not given.no_bodies) as model:
        print(json.dumps({"url": model.url, "key": model.key}), flush=True)
        ended.wait()


if __name__ == "__main__":
    main()
