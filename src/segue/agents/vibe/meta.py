"""What Vibe stores beside the messages, as types: ``meta.json`` of either version, the states in a 3.x store,
and the export of a 3.x run.
"""

from __future__ import annotations

import os

import msgspec

from segue.agents.decoding import DAMAGE
from segue.agents.jsonl import LONGEST
from segue.core.errors import Misuse
from segue.core.ids import native_id
from segue.core.usage import Usage, disjoint
from segue.core.verdicts import Said, say

META = "meta.json"
META_BYTES = 4 * 1024 * 1024
_BULK, _MODEL, _PROFILE = b'"tools_available": [', b'"active_model": "', b'"agent_profile": {'


class Stats(msgspec.Struct, frozen=True):
    """2.x: the counters of a run; each resume is a new session that begins at zero."""

    steps: int | None = None
    session_prompt_tokens: int | None = None
    session_completion_tokens: int | None = None
    last_turn_prompt_tokens: int | None = None
    last_turn_completion_tokens: int | None = None
    session_cost: float | None = None
    tool_calls_agreed: int | None = None
    tool_calls_rejected: int | None = None
    tool_calls_hook_denied: int | None = None


class _Environment(msgspec.Struct, frozen=True):
    working_directory: str | None = None


class _Model(msgspec.Struct, frozen=True):
    alias: str | None = None
    max_context_length: int | None = None


class Config(msgspec.Struct, frozen=True):
    active_model: str | None = None
    models: list[_Model] | dict[str, _Model] | None = None

    @property
    def window(self) -> int | None:
        models = self.models.values() if isinstance(self.models, dict) else self.models or ()
        return next((one.max_context_length for one in models if one.alias == self.active_model), None)


class _Profile(msgspec.Struct, frozen=True):
    name: str | None = None


class Meta(msgspec.Struct, frozen=True):
    """``meta.json`` of either version; most of it is the system prompt, which is skipped."""

    session_id: str | None = None
    parent_session_id: str | None = None
    start_time: str | None = None
    end_time: str | None = None
    git_branch: str | None = None
    environment: _Environment | None = None
    title: str | None = None
    title_source: str | None = None
    pinned_at: str | None = None
    archived_at: str | None = None
    stats: Stats | None = None
    config: Config | None = None
    agent_profile: _Profile | None = None

    @property
    def directory(self) -> str | None:
        return self.environment.working_directory if self.environment is not None else None

    @property
    def tags(self) -> tuple[str, ...]:
        marks = (("pinned", self.pinned_at), ("archived", self.archived_at))
        return tuple(name for name, at in marks if at)


class Tokens(msgspec.Struct, frozen=True):
    """3.x: the usage of one request, or of all."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None

    def plain(self) -> Usage:
        return disjoint(self.input_tokens, self.cached_input_tokens, self.output_tokens)


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
    config: Config = Config()


class _Pins(msgspec.Struct, frozen=True):
    active_model: str | None = None
    agent_name: str | None = None
    cwd: str | None = None


class _Identity(msgspec.Struct, frozen=True):
    depth: int = 0
    parent_session_id: str | None = None


class _Source(msgspec.Struct, frozen=True):
    session_id: str | None = None


class _Import(msgspec.Struct, frozen=True):
    source: _Source = _Source()


class _Plugin(msgspec.Struct, frozen=True):
    content_digest: str = ""


class PluginLock(msgspec.Struct, frozen=True):
    plugins: tuple[_Plugin, ...] = ()
    snapshot_digest: str | None = None


class RuntimeState(msgspec.Struct, frozen=True):
    """The session's settings and its origin."""

    session_metadata: _Pins = _Pins()
    identity: _Identity = _Identity()
    import_provenance: _Import | None = None
    plugin_lock: PluginLock | None = None

    @property
    def imported_from(self) -> str | None:
        return self.import_provenance.source.session_id if self.import_provenance is not None else None


class _PluginFile(msgspec.Struct, frozen=True):
    sha256: str | None = None


class PluginManifest(msgspec.Struct, frozen=True):
    entries: tuple[_PluginFile, ...] = ()


class SessionTokens(msgspec.Struct, frozen=True, rename="camel"):
    input_tokens: int | None = None
    output_tokens: int | None = None


class Session(msgspec.Struct, frozen=True, rename="camel"):
    title: str | None = None
    title_source: str | None = None
    preview: str | None = None
    created_at: int | None = None
    updated_at: int | None = None
    context_usage: SessionTokens | None = None
    token_usage: SessionTokens | None = None


class _Snapshot(msgspec.Struct, frozen=True):
    session: Session = Session()


class ProjectionState(msgspec.Struct, frozen=True):
    snapshot: _Snapshot = _Snapshot()


_meta = msgspec.json.Decoder(Meta)


def read_meta(path: str) -> Meta:
    """The meta without the tools and the system prompt, which are most of a file of 2.x.

    Raises ``OSError``, ``ValueError`` or one of ``DAMAGE``.
    """
    body = content(path, META_BYTES)
    at = body.find(_BULK)
    if at < 0:
        return _meta.decode(body)
    known = _meta.decode(body[:at].rstrip().removesuffix(b",") + b"}")
    config = Config(active_model=_named(body, body.find(_MODEL, at)))
    profile = body.rfind(_PROFILE)
    name = _named(body, body.find(b'"name"', profile)) if profile > at else None
    return msgspec.structs.replace(known, config=config, agent_profile=_Profile(name))


def meta_or_trouble(folder: str) -> tuple[Meta, Said | None]:
    """The meta; if it cannot be read, an empty one and the reason."""
    try:
        return read_meta(f"{folder}/{META}"), None
    except (OSError, ValueError, *DAMAGE) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        text = f"its {META} cannot be read: {why}"
        return Meta(), say(text, "session.file_unreadable", file=META, why=why)


def _named(body: bytes, at: int) -> str | None:
    """The string after the key at this place."""
    begin = body.find(b'"', body.find(b":", at)) if at >= 0 else -1
    end = body.find(b'"', begin + 1)
    return body[begin + 1 : end].decode("utf-8", "replace") if 0 <= begin < end else None


def session_id(folder: str, short: str) -> str:
    """The full id, from the very beginning of the meta; else the short one, which Vibe accepts too."""
    try:
        file = os.open(f"{folder}/{META}", os.O_RDONLY | os.O_CLOEXEC)
        try:
            begin = os.read(file, 128)
        finally:
            os.close(file)
    except OSError:
        return short
    at = begin.find(b'"session_id": "')
    found = begin[at + 15 : at + 51] if 0 <= at < 8 else b""
    closed = begin[at + 51 : at + 52] == b'"'
    whole = found.decode("ascii", "replace") if closed and found else _decoded_id(folder)
    try:
        return native_id(whole) if whole[:8] == short else short
    except Misuse:
        return short


def _decoded_id(folder: str) -> str:
    return meta_or_trouble(folder)[0].session_id or ""


def content(path: str, most: int = LONGEST) -> bytes:
    """The content of a file. Raises ``ValueError`` if it is larger than ``most``."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(file).st_size
        if size > most:
            raise ValueError(f"larger than {most >> 20} MB")
        return os.read(file, size)
    finally:
        os.close(file)
