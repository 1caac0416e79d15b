"""What the model accounted for the requests it was sent: the truth that an agent's usage must equal."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from segue.core.usage import Usage
from tests.live.harness import Ran


def accounted(ran: Ran, *, side: bool = False) -> Usage:
    """The model's own sum over the requests of one attempt; side requests only where asked for."""
    total = Usage(0, 0, 0, 0)
    for request in ran.requests:
        if request.status == 200 and (side or not request.side):
            spent = request.usage
            total = total + Usage(spent.input, spent.cache_read, spent.cache_write, spent.output)
    return total


def last_prompt(ran: Ran) -> int:
    """How large the last request of the conversation itself was."""
    spent = [request for request in ran.requests if not request.side][-1].usage
    return spent.input + spent.cache_read + spent.cache_write


def carried(ran: Ran, text: str) -> int:
    """How often a text stands in the last request of the conversation itself; a number: as a word of its own,
    because the ids and times in a request hold any three digits now and then."""
    body = msgspec.json.encode(_last_body(ran)).decode()
    return len(re.findall(rf"(?<![\w.:-]){text}(?![\w-])", body)) if text.isdigit() else body.count(text)


def said(ran: Ran, text: str) -> int:
    """In how many messages of the assistant's the text stands, as the last request carries them."""
    body = _last_body(ran)
    turns = body.get("messages") or body.get("input") or body.get("contents") or []
    own = [turn for turn in turns if turn.get("role") in ("assistant", "model")]
    return sum(text in msgspec.json.encode(turn).decode() for turn in own)


def _last_body(ran: Ran) -> dict[str, Any]:
    body = [request for request in ran.requests if not request.side][-1].body
    assert body is not None
    return body
