"""``meta.json`` of either version: what Vibe notes of a session beside its messages."""

from __future__ import annotations

import os
from datetime import datetime

import msgspec

from segue.agents.vibe.folder import META
from segue.agents.vibe.store import ERRORS, content
from segue.core.errors import Misuse
from segue.core.ids import native_id

_BULK, _MODEL, _PROFILE = b'"tools_available": [', b'"active_model": "', b'"agent_profile": {'
META_MOST = 4 * 1024 * 1024


class Stats(msgspec.Struct, frozen=True):
    session_prompt_tokens: int | None = None
    session_completion_tokens: int | None = None
    last_turn_prompt_tokens: int | None = None
    last_turn_completion_tokens: int | None = None
    session_cost: float | None = None


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
    """``meta.json`` of either version; most of it is the system prompt, which is passed over."""

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
    def tags(self) -> tuple[str, ...]:
        marks = (("pinned", self.pinned_at), ("archived", self.archived_at))
        return tuple(name for name, at in marks if at)


_meta = msgspec.json.Decoder(Meta)


def read_meta(path: str) -> Meta:
    """Raises one of ``ERRORS``. The tools and the system prompt, most of a file of 2.x, are not decoded."""
    body = content(path, META_MOST)
    at = body.find(_BULK)
    if at < 0:
        return _meta.decode(body)
    known = _meta.decode(body[:at].rstrip().removesuffix(b",") + b"}")
    config = Config(active_model=_named(body, body.find(_MODEL, at)))
    profile = body.rfind(_PROFILE)
    name = _named(body, body.find(b'"name"', profile)) if profile > at else None
    return msgspec.structs.replace(known, config=config, agent_profile=_Profile(name))


def _named(body: bytes, at: int) -> str | None:
    """The string behind the key at this place."""
    begin = body.find(b'"', body.find(b":", at)) if at >= 0 else -1
    end = body.find(b'"', begin + 1)
    return body[begin + 1 : end].decode("utf-8", "replace") if 0 <= begin < end else None


def session_id(folder: str, short: str) -> str:
    """The whole id: it stands at the very beginning of the meta. Eight characters of it do for Vibe."""
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
    whole = found.decode("ascii", "replace") if closed and found else known(folder)[0].session_id or ""
    try:
        return native_id(whole) if whole[:8] == short else short
    except Misuse:
        return short


def moment(text: str | None) -> int | None:
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000) if text else None
    except (ValueError, OverflowError, OSError):
        return None


def known(folder: str) -> tuple[Meta, str | None]:
    try:
        return read_meta(f"{folder}/{META}"), None
    except ERRORS as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return Meta(), f"its {META} cannot be read: {why}"
