"""What a Vibe run leaves only on disk: 3.x writes an export, 2.x a session directory.

An interrupted turn of 3.x has no export, but a journal. A tool appears in the stream only when it is done, so
the stream of a killed turn may show nothing although tools ran.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from segue.agents.decoding import DAMAGE, moment_ms
from segue.agents.vibe import folder, store
from segue.agents.vibe.meta import META, Export, Meta
from segue.core.json_values import decode
from segue.core.request import Request, RunPlace
from segue.core.usage import Usage

EXPORT = "export"
"""The directory inside the run's directory that 3.x writes its export to."""
T = TypeVar("T")


class Trace(msgspec.Struct, frozen=True):
    """The tools that were started, the requests that were answered, and the last of them."""

    tools: int = 0
    requests: int = 0
    usage: Usage = Usage()
    last: Usage | None = None


def trace(home: Path, session: str) -> Trace:
    """From the newest journal: what happened since the last completed turn."""
    journals = sorted(store.store_path(home, session).glob("journal/*.jsonl"))
    tools, requests, usage, last = 0, 0, Usage(), None
    try:
        for _, record in store.journal_records(str(journals[-1]) if journals else None):
            if record.type == "action_intent" and record.payload.kind == "tool":
                tools += 1
            reply = record.payload.result.result if record.payload.result is not None else None
            if record.type == "action_result" and reply is not None and reply.usage is not None:
                last = reply.usage.plain()
                requests, usage = requests + 1, usage + last
    except OSError:
        pass
    return Trace(tools, requests, usage, last)


def export(run_dir: Path) -> Export | None:
    return _read(run_dir / EXPORT / "export.json", Export)


def exists(home: Path, session: str | None) -> bool:
    """Whether a session exists, in either form."""
    if session is None:
        return False
    old = any(folder.root_of(home).glob(f"session_*_{session[:8]}"))
    return old or store.store_path(home, session).is_dir()


def context(home: Path, session: str | None) -> int | None:
    """3.x: the tokens of the last request, from the newest state of the session."""
    try:
        usage = _opened(home, session).session().context_usage
    except store.ERRORS:
        return None
    return usage.input_tokens if usage is not None else None


def imported(home: Path, session: str | None, requested: str | None) -> bool:
    """Whether 3.x imported the requested 2.x session: it gets a new id, and its origin is recorded."""
    try:
        return requested is not None and _opened(home, session).runtime().imported_from == requested
    except store.ERRORS:
        return False


def _opened(home: Path, session: str | None) -> store.Store:
    if session is None:
        raise FileNotFoundError
    return store.opened(store.store_path(home, session))


def written(home: Path, request: Request, place: RunPlace) -> list[Meta]:
    """2.x: the sessions that this run may have written. If there are several, it is unknown which one."""
    new = [meta for meta in _sessions(home) if _fits(meta, request.cwd, place.started_ms)]
    parents = {meta.parent_session_id for meta in new}
    return [meta for meta in new if meta.session_id not in parents]


def _sessions(home: Path) -> Iterator[Meta]:
    for path in folder.root_of(home).glob(f"session_*/{META}"):
        meta = _read(path, Meta)
        if meta is not None and meta.session_id is not None:
            yield meta


def _fits(meta: Meta, cwd: Path, started_ms: int) -> bool:
    began = moment_ms(meta.start_time)
    return (
        began is not None
        and began >= started_ms
        and meta.directory is not None
        and _same(Path(meta.directory), cwd)
    )


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one == other


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return decode(path.read_bytes(), kind)
    except (OSError, *DAMAGE):
        return None
