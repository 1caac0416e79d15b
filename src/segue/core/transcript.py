"""The contents of an agent's own session, in one form for all agents: frozen values, no behaviour.

There may be millions of them, and none can be part of a cycle, so the garbage collector skips them.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from segue.core.turn import Clause

Kind = Literal["user", "assistant", "thinking", "call", "result", "boundary", "state", "damaged", "unknown"]
"""``boundary``: here the CLI replaced what came before with a summary (its text). ``state``: what the CLI
recorded for itself, such as a title or a snapshot. ``damaged``: unreadable, with the reason as its text."""

TitleBy = Literal["user", "agent", "prompt"]

IMAGE_BYTES = 5 * 1024 * 1024
"""The providers refuse a larger image, and then every later request of the session. The size of a base64
image is that of its text."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One entry of a session. A record of the session's file may hold several."""

    id: str
    """Its position, ``<offset of its record>.<index in the record>``; valid while the session only grows."""
    kind: Kind
    text: str = ""
    """What was said; the output of a tool; the words of a title. Never an image's data."""
    at_ms: int | None = None
    native: str = ""
    """The CLI's own id of the record, if it has one."""
    parent: str | None = None
    """The ``native`` id of the entry before it, in formats that link their records."""
    tool: str = ""
    """The name of the tool that is called."""
    input: Any = None
    call: str = ""
    """The id that links a result to its call."""
    failed: bool = False
    side: bool = False
    """It belongs to a subagent's side chain, not to the dialogue."""
    inserted: bool = False
    """Inserted by the CLI, not said by anyone: context, reminders, the answer to an interruption."""
    label: str = ""
    """The kind of a state, e.g. ``title``, ``git snapshot``, ``file history``, ``task``, ``worktree``."""
    restored: bool = True
    """Whether a resume restores it."""
    images: tuple[int, ...] = ()
    """The size of each image in it, in bytes of the file: of the base64 text, if it is stored that way."""
    model: str | None = None
    tokens: int | None = None
    """The input tokens of the request that it answers: how full the window was then."""
    again: bool = False
    """The record repeats an earlier one of this session (a rewritten history)."""


class Brief(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A session at a glance, from the beginning and the end of its file. What is not known is None."""

    cwd: str | None = None
    """The first one recorded; never guessed from a folder's name."""
    title: str | None = None
    title_by: TitleBy | None = None
    first_prompt: str | None = None
    last_prompt: str | None = None
    messages: int | None = None
    """The number of prompts and answers with text, without tools and side chains."""
    messages_estimated: bool = False
    """Counted in a part of the file and extrapolated."""
    tokens: int | None = None
    """All input and output of its requests, if the file keeps a running total."""
    cost_usd: float | None = None
    branch: str | None = None
    created_ms: int | None = None
    last_used_ms: int | None = None
    version: str | None = None
    """The version of the CLI that wrote it last."""
    model: str | None = None
    context: int | None = None
    """The last request's input."""
    after: int = 0
    """About how many tokens followed that, including the answer."""
    window: int | None = None
    tags: tuple[str, ...] = ()
    agent_name: str | None = None
    parent: str | None = None
    """The session it was forked from, if the file says so."""
    side: bool = False
    """A subagent's session, not a separate dialogue."""
    empty: bool = False
    """It contains no messages."""
    trouble: str | None = None
    """What could not be read, in words."""
    trouble_clauses: tuple[Clause, ...] = ()
    """The same as data; empty if an adapter does not say it."""


def is_message(entry: Entry) -> bool:
    """Whether the user or the agent said it, as text, in the dialogue itself."""
    said = entry.kind in ("user", "assistant") and not (entry.side or entry.inserted or entry.again)
    return said and bool(entry.text) and not entry.text.isspace()
