"""The lines of a rollout as types, and those of the other files in which Codex names threads and its user.

A line has a type and a payload, which is decoded by that type and only when needed. Unused values have no
field here. The token counters are those of the stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from segue.agents.codex.stream import Tokens
from segue.agents.decoding import DAMAGE
from segue.core.json_values import decode
from segue.core.usage import Limit, window_name

PROJECT = "# AGENTS.md instructions"
INSERTED = (
    *("<environment_context>", "<user_instructions>", PROJECT, "<turn_aborted>"),
    *("<user_shell_command>", "<subagent_notification>", "<skill>", "<hook_prompt>", "<goal_context>"),
    *("<codex_internal_context>", "<recommended_plugins>"),
)
"""How messages begin that Codex inserts in the user's name; new versions also mark them beside the text."""


class Line(msgspec.Struct, frozen=True):
    timestamp: str | None = None
    type: str = ""
    ordinal: Any = None
    payload: msgspec.Raw = msgspec.Raw()
    metadata: msgspec.Raw = msgspec.Raw()

    @property
    def is_summary(self) -> bool:
        """The model's summary of a history that was compacted."""
        return b'"compaction_output":true' in bytes(self.metadata)


class Content(msgspec.Struct, frozen=True):
    """A part of a message, or of a tool's output."""

    text: str | None = None
    image_url: msgspec.Raw = msgspec.Raw()

    @property
    def image_size(self) -> int:
        """The bytes of an image's URL, which contains the image itself; 0: there is none."""
        return max(memoryview(self.image_url).nbytes - 2, 0)


class _Kinds(msgspec.Struct, frozen=True):
    content_item_kinds: list[str] | None = None


class Item(msgspec.Struct, frozen=True):
    """``response_item``: what the model was sent, and is sent again on a resume."""

    type: str = ""
    id: str | None = None
    role: str | None = None
    content: list[Content] | None = None
    summary: list[Content] | None = None
    name: str | None = None
    arguments: Any = None
    input: Any = None
    action: Any = None
    call_id: str | None = None
    output: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    internal_chat_message_metadata_passthrough: _Kinds | None = None

    @property
    def text(self) -> str:
        return joined_text(self.content)

    @property
    def is_inserted(self) -> bool:
        """Whether Codex inserted the message in the user's name."""
        about = self.internal_chat_message_metadata_passthrough
        kinds = [kind for kind in (about and about.content_item_kinds) or () if kind != "unknown"]
        if kinds:
            return not any(kind.startswith("user") for kind in kinds)
        return self.text.startswith(INSERTED)


class Failure(msgspec.Struct, frozen=True):
    message: str = ""
    codex_error_info: Any = None
    """Codex's own name for it, in versions that have one."""


class _Goal(msgspec.Struct, frozen=True):
    objective: str = ""


class _ItemId(msgspec.Struct, frozen=True):
    id: str | None = None


class TokenInfo(msgspec.Struct, frozen=True):
    total_token_usage: Tokens | None = None
    last_token_usage: Tokens | None = None
    model_context_window: int | None = None

    @property
    def context(self) -> int | None:
        """The input of the last request."""
        last = self.last_token_usage
        return last.input_tokens or last.total_tokens if last is not None else None


class _RateWindow(msgspec.Struct, frozen=True):
    used_percent: float | None = None
    window_minutes: int | None = None
    resets_at: float | None = None


class RateLimits(msgspec.Struct, frozen=True):
    """What the account has used of its limits, beside the tokens of a request."""

    limit_id: str | None = None
    primary: _RateWindow | None = None
    secondary: _RateWindow | None = None
    plan_type: str | None = None

    def limits(self) -> Iterator[Limit]:
        own = "" if self.limit_id in (None, "codex") else f"_{self.limit_id}"
        for each in filter(None, (self.primary, self.secondary)):
            name = "unknown" if each.window_minutes is None else window_name(each.window_minutes)
            used = None if each.used_percent is None else each.used_percent / 100
            resets_at = None if each.resets_at is None else int(each.resets_at * 1000)
            yield Limit(name + own, used, resets_at, "session")


class Event(msgspec.Struct, frozen=True):
    """``event_msg``: for display. Most events repeat an item."""

    type: str = ""
    message: Any = None
    thread_name: str | None = None
    reason: Any = None
    num_turns: int = 0
    last_agent_message: str | None = None
    error: Failure | None = None
    goal: _Goal | None = None
    info: TokenInfo | None = None
    item: _ItemId | None = None
    rate_limits: RateLimits | None = None


class TurnMark(msgspec.Struct, frozen=True):
    """Part of an event: its turn and, if Codex itself started that turn, the turn that it came from."""

    type: str = ""
    turn_id: str = ""
    root_turn_id: str = ""


class _Git(msgspec.Struct, frozen=True):
    branch: str | None = None
    commit_hash: str | None = None


class Meta(msgspec.Struct, frozen=True):
    """``session_meta``: the first line."""

    id: str = ""
    cwd: str | None = None
    timestamp: str | None = None
    cli_version: str | None = None
    source: Any = None
    thread_source: Any = None
    agent_nickname: str | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None
    git: _Git | None = None

    @property
    def is_subagent(self) -> bool:
        return self.thread_source == "subagent" or (
            isinstance(self.source, dict) and "subagent" in self.source
        )


class HistoryBase(msgspec.Struct, frozen=True):
    """Where a rollout begins: after this many bytes of another one."""

    thread_id: str
    end_byte_offset: int


class ForkMeta(msgspec.Struct, frozen=True):
    """Part of the first line: the rollout that this one continues."""

    history_base: HistoryBase | None = None


class TurnContext(msgspec.Struct, frozen=True):
    cwd: str | None = None
    model: str | None = None


class TokenUsageRecord(msgspec.Struct, frozen=True):
    turn_token_usage: Tokens | None = None
    thread_token_usage: Tokens | None = None


class Compacted(msgspec.Struct, frozen=True):
    message: str = ""


Payload = Item | Event | Meta | TurnContext | TokenUsageRecord | Compacted
_PAYLOADS: Mapping[str, type[Payload]] = {
    "response_item": Item,
    "event_msg": Event,
    "session_meta": Meta,
    "turn_context": TurnContext,
    "token_usage_record": TokenUsageRecord,
    "compacted": Compacted,
}


class ThreadName(msgspec.Struct, frozen=True):
    """A line of ``session_index.jsonl``: a user named a thread."""

    id: str = ""
    thread_name: str = ""


class _AuthTokens(msgspec.Struct, frozen=True):
    account_id: str | None = None


class Auth(msgspec.Struct, frozen=True):
    """``auth.json``: only the account's id and the kind of login, which are not secret."""

    tokens: _AuthTokens | None = None
    auth_mode: str | None = None


_line = msgspec.json.Decoder(Line)


def line_of(text: bytes) -> Line | None:
    """One line; None if it is damaged. Undecoded parts must be UTF-8 as well: Codex reads them."""
    try:
        if not text.isascii():
            text.decode()
        return _line.decode(text)
    except DAMAGE:
        return None


def payload_of(line: Line) -> Payload | None:
    """The payload of a line; None if its type is unknown, or its values have unexpected types."""
    kind = _PAYLOADS.get(line.type)
    try:
        return decode(line.payload, kind) if kind is not None else None
    except DAMAGE:
        return None


def item_of(line: Line) -> Item | None:
    """The item of a line; None if it is not an item."""
    payload = payload_of(line) if line.type == "response_item" else None
    return payload if isinstance(payload, Item) else None


def joined_text(parts: list[Content] | None) -> str:
    if not parts:
        return ""
    if len(parts) == 1:
        return parts[0].text or ""
    return "\n".join(part.text for part in parts if part.text)
