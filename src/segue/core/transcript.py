"""What stands in an agent's own session, in one form for all agents: frozen values, no behaviour.

There may be millions of them, and none can be part of a cycle: the garbage collector need not look at them.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

Kind = Literal["user", "assistant", "thinking", "call", "result", "boundary", "state", "damaged", "unknown"]
"""``boundary``: here the CLI replaced what came before by a summary (its text). ``state``: what the CLI noted
for itself, such as a title or a snapshot. ``damaged``: what cannot be read, with the reason as its text."""

TitleBy = Literal["user", "agent", "prompt"]

IMAGE_BYTES = 5 * 1024 * 1024
"""The providers refuse an image that is larger, and with it every later request of the session. Of base64 it
is the text that counts."""


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One thing in a session. A record of the session's file may hold several."""

    id: str
    """Its place, ``<where its record starts>.<which in the record>``; good while the session only grows."""
    kind: Kind
    text: str = ""
    """What was said; the output of a tool; the words of a title. Never an image's data."""
    at_ms: int | None = None
    native: str = ""
    """The CLI's own id of the record, where it has one."""
    parent: str | None = None
    """The ``native`` of what it follows, in a format that is a chain."""
    tool: str = ""
    """The name of the tool that a call asks for."""
    input: Any = None
    call: str = ""
    """What ties a result to its call."""
    failed: bool = False
    side: bool = False
    """It belongs to a subagent's side chain, not to the dialogue."""
    inserted: bool = False
    """Put in by the CLI, said by nobody: context, reminders, the answer to an interruption."""
    label: str = ""
    """Of a state: what it is, e.g. ``title``, ``git snapshot``, ``file history``, ``task``, ``worktree``."""
    restored: bool = True
    """Whether a resume brings it back."""
    images: tuple[int, ...] = ()
    """The size of each image in it, in bytes of the file: of base64 text, where it stands there as such."""
    model: str | None = None
    tokens: int | None = None
    """The input of the request that it answers: what filled the window then."""
    again: bool = False
    """The record says again what an earlier one of this session said (a rewritten history)."""


class Brief(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A session at a glance, from the beginning and the end of its file. What is not known is None."""

    cwd: str | None = None
    """As it was recorded first; never guessed from a folder's name."""
    title: str | None = None
    title_by: TitleBy | None = None
    first_prompt: str | None = None
    last_prompt: str | None = None
    messages: int | None = None
    """What was said by the user or the agent: prompts and answers with words, no tools, no side chains."""
    messages_estimated: bool = False
    """Counted in a part of the file and carried over to the rest."""
    tokens: int | None = None
    """All that its requests took in and gave out, where the file keeps a running total."""
    cost_usd: float | None = None
    branch: str | None = None
    created_ms: int | None = None
    last_used_ms: int | None = None
    version: str | None = None
    """Of the CLI that wrote it last."""
    model: str | None = None
    context: int | None = None
    """The last request's input."""
    after: int = 0
    """About how many tokens came behind that, the answer among them."""
    window: int | None = None
    tags: tuple[str, ...] = ()
    agent_name: str | None = None
    parent: str | None = None
    """The session it was forked from, where the file says so."""
    side: bool = False
    """A subagent's, not a dialogue of its own."""
    empty: bool = False
    """Nobody said anything in it."""
    trouble: str | None = None
    """What could not be read, in words."""


def is_message(entry: Entry) -> bool:
    """Said by the user or the agent, in words, in the dialogue itself."""
    said = entry.kind in ("user", "assistant") and not (entry.side or entry.inserted or entry.again)
    return said and bool(entry.text) and not entry.text.isspace()
