"""The daemon's log: lines that a person can read, or JSON.

Keys and ids are shown as short hashes, so that a log can be passed on. Tokens, bodies and the values of
queries are never written.
"""

from __future__ import annotations

import logging
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from segue.server.endpoint import PARAMETER

if TYPE_CHECKING:
    from io import TextIOWrapper

    from segue.server.endpoint import Found

LOG = logging.getLogger("segue.server")
FOREIGN = ("uvicorn.error", "uvicorn.asgi", "asyncio")
FILE_BYTES, FILES = 5 * 1024 * 1024, 3
QUIET = "/api/v1/health"
NOWHERE = "(no such path)"
STATIC = ("/", "/login", "/api/docs", "/api/openapi.json")


class LogLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of ``--log-json``."""

    time: str
    level: str
    text: str
    method: str | None = None
    path: str | None = None
    status: int | None = None
    ms: int | None = None


def start_log(*, as_json: bool, path: Path | None = None) -> None:
    """Write the log to stderr, or to a file that is rotated."""
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if path is not None:
        handler = _rotated(path)
    handler.setFormatter(_Lines(as_json=as_json))
    for name, level in ((LOG.name, logging.INFO), *((name, logging.WARNING) for name in FOREIGN)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


def _rotated(path: Path) -> logging.Handler:
    """Writes to a file; when it is full, to a new one. All of them are for this user alone."""
    from logging.handlers import RotatingFileHandler

    class Rotated(RotatingFileHandler):
        def _open(self) -> TextIOWrapper:
            Path(self.baseFilename).touch(mode=0o600)
            return super()._open()

    return Rotated(path, maxBytes=FILE_BYTES, backupCount=FILES, encoding="utf-8")


def log_request(method: str, path: str, status: int, ms: int) -> None:
    """``path``: as ``shown_path`` gives it. A healthy answer about the health is not worth a line."""
    if path == QUIET and status == 200:
        return
    asked = {"method": method, "path": path, "status": status, "ms": ms}
    LOG.info("%s %s %d %d ms", method, path, status, ms, extra={"asked": asked})


def log_failure(error: BaseException) -> None:
    """Where something unexpected happened. What it says may contain a message or a key, and is left out."""
    places = []
    step = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        places.append(f"{Path(code.co_filename).name}:{step.tb_lineno} {code.co_name}")
        step = step.tb_next
    LOG.error("%s at %s", type(error).__name__, " > ".join(places[-4:]))


def shown_path(raw_path: str, found: Found | None) -> str:
    """The path of a request, with its parameters as hashes. An unknown path may contain anything."""
    if found is not None:
        return PARAMETER.sub(lambda name: hashed(found.path[name[1]]), found.endpoint.path)
    return (
        raw_path
        if raw_path in STATIC
        else "/api/static/…"
        if raw_path.startswith("/api/static/")
        else NOWHERE
    )


def hashed(value: str) -> str:
    return f"~{sha256(value.encode('utf-8', 'replace')).hexdigest()[:8]}"


class _Lines(logging.Formatter):
    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._json = as_json

    def format(self, record: logging.LogRecord) -> str:
        at = time.localtime(record.created)
        text = record.getMessage()
        if record.exc_info and record.exc_info[0] is not None:
            text = f"{text.splitlines()[0]} ({record.exc_info[0].__name__})"
        text = " ".join(text.split())
        if not self._json:
            mark = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
            return f"{time.strftime('%H:%M:%S', at)} {mark}{text}"
        asked: dict[str, Any] = getattr(record, "asked", {})
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z", at)
        return msgspec.json.encode(
            LogLine(time=stamp, level=record.levelname.lower(), text=text, **asked)
        ).decode()
