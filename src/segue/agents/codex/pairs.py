"""Calls and their results in a rollout: which belong together, and what stands alone."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from segue.agents.codex.items import Item, Line, item_of

INTERRUPTED = "The tool was interrupted; whether it did its work is not known."
_RESULT_OF = {
    "function_call": "function_call_output",
    "local_shell_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}
_RESULTS = frozenset(_RESULT_OF.values())


class Pairs:
    """Learns in one pass over the session which calls were answered; tells in a second one what to do."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[int]] = {}
        self._answered: set[int] = set()
        self._asked: Counter[str] = Counter()

    def learn(self, start: int, line: Line) -> None:
        item = item_of(line.payload) if line.type == "response_item" else None
        if item is None:
            return
        if item.type in _RESULT_OF:
            self._waiting.setdefault(key(item), []).append(start)
        elif self.is_result(item) and (calls := self._waiting.get(item.call_id or "")):
            self._answered.add(calls.pop(0))

    def is_call(self, item: Item) -> bool:
        return item.type in _RESULT_OF

    def is_result(self, item: Item) -> bool:
        return item.type in _RESULTS

    def ask(self, start: int, item: Item) -> bool:
        """A call: whether it is ever answered."""
        answered = start in self._answered or _by_provider(item)
        self._asked[key(item)] += answered
        return answered

    def take(self, item: Item) -> bool:
        """A result: whether its call has come before; only once for each call."""
        if _by_provider(item):
            return True
        waiting = self._asked[item.call_id or ""] > 0
        self._asked[item.call_id or ""] -= waiting
        return waiting


def key(item: Item) -> str:
    """What ties a result to a call; empty: nothing does."""
    return item.call_id or (item.id if item.type == "local_shell_call" else "") or ""


def _by_provider(item: Item) -> bool:
    """The provider searched for tools by itself; such pairs have no id."""
    return item.type in ("tool_search_call", "tool_search_output") and not item.call_id


def closing(item: Item, stamp: str) -> bytes:
    """The result of a call that never got one."""
    payload: dict[str, Any] = {"type": _RESULT_OF[item.type], "call_id": key(item)}
    if item.type == "tool_search_call":
        payload |= {"status": "completed", "execution": "client", "tools": []}
    else:
        payload["output"] = INTERRUPTED
    return msgspec.json.encode({"timestamp": stamp, "type": "response_item", "payload": payload})
