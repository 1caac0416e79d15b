"""Where a repaired session begins, when it shall not begin where the old one did."""

from __future__ import annotations

from collections import Counter

from segue.agents.codex.items import Line, inserted, item_of, said
from segue.agents.codex.whole import Read


class Beginning:
    """Passes lines on from the first prompt at or after a place, with what its turn began with.

    What Codex put in before the first prompt of all stays: it would not put it in again.
    """

    def __init__(self, since: int | None) -> None:
        self.since, self.started, self.prompted = since, since is None, False
        self.held: list[Read] = []

    def passed(self, read: Read, done: Counter[str]) -> list[Read]:
        if self.started:
            return [read]
        prompt, message = _prompt(read.line)
        if prompt and read.start >= (self.since or 0):
            self.started = True
            return [*self.held, read]
        self.prompted = self.prompted or prompt
        done["before"] += message
        context = read.line.type in ("turn_context", "world_state") or _is_context(read.line)
        if not self.prompted:
            return [read] if context else []
        if b'"task_started"' in read.text[:200]:
            self.held = [read]
        elif self.held:
            self.held = [*self.held, read] if context or read.line.type == "event_msg" else []
        return []


def _is_context(line: Line) -> bool:
    item = item_of(line.payload) if line.type == "response_item" else None
    return item is not None and item.type == "message" and not _prompt(line)[1]


def _prompt(line: Line) -> tuple[bool, bool]:
    """Whether a line is a prompt, and whether it is anything that was said."""
    item = item_of(line.payload) if line.type == "response_item" else None
    if item is None or item.type != "message" or item.role not in ("user", "assistant"):
        return False, False
    if item.role == "assistant":
        return False, b'"compaction_output":true' not in bytes(line.metadata)
    put_in = inserted(item, said(item.content))
    return not put_in, not put_in
