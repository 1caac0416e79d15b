"""The journal of a 3.x session: what a turn did that was broken off before Vibe could write its export.

A tool's entry in the stream comes only when the tool is done, so of a killed turn the stream may know
nothing although tools ran. The newest journal file holds what happened since the last turn that ended well.

What only the disk knows of a run of Vibe: 3.x writes an export, 2.x a session directory.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from segue.core.json_values import decode
from segue.core.request import Request, RunPlace
from segue.core.usage import Usage, disjoint


class Tokens(msgspec.Struct, frozen=True):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None

    def plain(self) -> Usage:
        return disjoint(self.input_tokens, self.cached_input_tokens, self.output_tokens)


class _Reply(msgspec.Struct, frozen=True):
    usage: Tokens | None = None


class _Result(msgspec.Struct, frozen=True):
    type: str = ""
    result: _Reply | None = None


class _Payload(msgspec.Struct, frozen=True):
    kind: str | None = None
    result: _Result | None = None


class _Record(msgspec.Struct, frozen=True):
    type: str
    payload: _Payload = _Payload()


class Trace(msgspec.Struct, frozen=True):
    """The tools that were begun, the requests that were answered, and the last of them."""

    tools: int = 0
    requests: int = 0
    usage: Usage = Usage()
    last: Usage | None = None


_record = msgspec.json.Decoder(_Record)


def trace(session_dir: Path) -> Trace:
    tools, requests, usage, last = 0, 0, Usage(), None
    for record in _records(session_dir):
        if record.type == "action_intent" and record.payload.kind == "tool":
            tools += 1
        reply = record.payload.result.result if record.payload.result is not None else None
        if record.type == "action_result" and reply is not None and reply.usage is not None:
            last = reply.usage.plain()
            requests, usage = requests + 1, usage + last
    return Trace(tools, requests, usage, last)


def _records(session_dir: Path) -> Iterator[_Record]:
    files = sorted(session_dir.glob("journal/*.jsonl"))
    if not files:
        return
    try:
        with files[-1].open("rb") as lines:
            for line in lines:
                try:
                    yield _record.decode(line)
                except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                    continue
    except OSError:
        return


EXPORT = "export"
"""The directory, inside the attempt's own, that 3.x writes its export to."""
T = TypeVar("T")


class RunStats(msgspec.Struct, frozen=True):
    """2.x: the figures of this run; each resume is a new session that begins at zero."""

    steps: int | None = None
    session_prompt_tokens: int | None = None
    session_completion_tokens: int | None = None
    last_turn_prompt_tokens: int | None = None
    session_cost: float | None = None
    tool_calls_agreed: int = 0
    tool_calls_rejected: int = 0
    tool_calls_hook_denied: int = 0


class _Environment(msgspec.Struct, frozen=True):
    working_directory: str | None = None


class _Model(msgspec.Struct, frozen=True):
    alias: str | None = None
    max_context_length: int | None = None


class _Config(msgspec.Struct, frozen=True):
    active_model: str | None = None
    models: dict[str, _Model] | list[_Model] = []

    @property
    def window(self) -> int | None:
        models = self.models.values() if isinstance(self.models, dict) else self.models
        return next((m.max_context_length for m in models if m.alias == self.active_model), None)


class RunMeta(msgspec.Struct, frozen=True):
    """2.x ``meta.json``."""

    session_id: str
    parent_session_id: str | None = None
    start_time: str = ""
    environment: _Environment = _Environment()
    stats: RunStats = RunStats()
    config: _Config = _Config()


class Error(msgspec.Struct, frozen=True):
    message: str = ""
    code: str | None = None


class Export(msgspec.Struct, frozen=True):
    """3.x ``export.json``: how the run ended, in the CLI's own words."""

    outcome: str
    error: Error | None = None
    session_id: str | None = None
    usage: Tokens | None = None
    cost_usd: float | None = None
    steps: int | None = None
    config: _Config = _Config()


class _Context(msgspec.Struct, frozen=True, rename="camel"):
    input_tokens: int | None = None


class _Session(msgspec.Struct, frozen=True, rename="camel"):
    context_usage: _Context | None = None


class _Snapshot(msgspec.Struct, frozen=True):
    session: _Session = _Session()


class _Projection(msgspec.Struct, frozen=True):
    snapshot: _Snapshot = _Snapshot()


class _Source(msgspec.Struct, frozen=True):
    session_id: str | None = None


class _Origin(msgspec.Struct, frozen=True):
    source: _Source = _Source()


class _Runtime(msgspec.Struct, frozen=True):
    import_provenance: _Origin | None = None


def export(run_dir: Path) -> Export | None:
    return _read(run_dir / EXPORT / "export.json", Export)


def exists(home: Path, session: str | None) -> bool:
    """Whether a session is there, in either form."""
    if session is None:
        return False
    old = any(home.glob(f"logs/session/session_*_{session[:8]}"))
    return old or folder(home, session).is_dir()


def folder(home: Path, session: str) -> Path:
    """Where a 3.x session lives."""
    return home / "logs/session/unified" / session


def context(home: Path, session: str | None) -> int | None:
    """3.x: the tokens of the last request, from the newest state of the session."""
    state = _newest(home, session, "projection-state.json", _Projection)
    usage = state.snapshot.session.context_usage if state is not None else None
    return usage.input_tokens if usage is not None else None


def imported(home: Path, session: str | None, asked: str | None) -> bool:
    """3.x takes a 2.x session in under a new id, and notes where it came from."""
    state = _newest(home, session, "runtime-state.json", _Runtime)
    origin = state.import_provenance if state is not None else None
    return asked is not None and origin is not None and origin.source.session_id == asked


def _newest(home: Path, session: str | None, name: str, kind: type[T]) -> T | None:
    if session is None:
        return None
    files = sorted(folder(home, session).glob(f"generations/*/{name}"))
    return _read(files[-1], kind) if files else None


def written(home: Path, request: Request, place: RunPlace) -> list[RunMeta]:
    """2.x: the sessions this run may have written. More than one: nobody can say which."""
    new = [meta for meta in _sessions(home) if _fits(meta, request.cwd, place.started_ms)]
    parents = {meta.parent_session_id for meta in new}
    return [meta for meta in new if meta.session_id not in parents]


def _sessions(home: Path) -> Iterator[RunMeta]:
    for path in home.glob("logs/session/session_*/meta.json"):
        meta = _read(path, RunMeta)
        if meta is not None:
            yield meta


def _fits(meta: RunMeta, cwd: Path, started_ms: int) -> bool:
    try:
        began = datetime.fromisoformat(meta.start_time).timestamp() * 1000
    except ValueError:
        return False
    where = meta.environment.working_directory
    return began >= started_ms and where is not None and _same(Path(where), cwd)


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return one == other


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        return decode(path.read_bytes(), kind)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
