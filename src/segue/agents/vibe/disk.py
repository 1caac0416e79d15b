"""What only the disk knows of a run of Vibe: 3.x writes an export, 2.x a session directory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from segue.agents.vibe.journal import Tokens
from segue.core.decoder import decode
from segue.core.request import Place, Request

EXPORT = "export"
"""The directory, inside the attempt's own, that 3.x writes its export to."""
T = TypeVar("T")


class Stats(msgspec.Struct, frozen=True):
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


class Meta(msgspec.Struct, frozen=True):
    """2.x ``meta.json``."""

    session_id: str
    parent_session_id: str | None = None
    start_time: str = ""
    environment: _Environment = _Environment()
    stats: Stats = Stats()
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


def written(home: Path, request: Request, place: Place) -> list[Meta]:
    """2.x: the sessions this run may have written. More than one: nobody can say which."""
    new = [meta for meta in _sessions(home) if _fits(meta, request.cwd, place.started_ms)]
    parents = {meta.parent_session_id for meta in new}
    return [meta for meta in new if meta.session_id not in parents]


def _sessions(home: Path) -> Iterator[Meta]:
    for path in home.glob("logs/session/session_*/meta.json"):
        meta = _read(path, Meta)
        if meta is not None:
            yield meta


def _fits(meta: Meta, cwd: Path, started_ms: int) -> bool:
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
