"""What the model "knows": only what the request itself carries."""

import re
from collections.abc import Iterable

from segue.rehearsal.talk import Item
from segue.rehearsal.turn import Turn

REMEMBER = re.compile(r"\bremember\s+(?:(?:the|this|my)\s+)?number:?\s+(?:is\s+)?(\d+)", re.I)
_QUESTION = re.compile(r"\bwhat(?:'s|\s+is|\s+was|\s+were|\s+are)?\s+(?:the\s+|my\s+)?number(s?)\b", re.I)


def answer(turn: Turn) -> str | None:
    """`Noted: N.` to a number, the last number to a question, nothing to anything else."""
    asked = _last(_QUESTION, turn.text)
    told = _last(REMEMBER, turn.text)
    if asked and (told is None or told.start() < asked.start()):
        known = numbers((*turn.before, Item("text", "user", turn.text[: asked.start()])))
        if not known:
            return "I do not know any number."
        return ", ".join(known) if asked[1] else known[-1]
    return f"Noted: {told[1]}." if told else None


def numbers(items: Iterable[Item]) -> list[str]:
    """Every number a user asked to remember, in order."""
    said = (item.text for item in items if item.kind == "text" and item.role == "user")
    return [number for text in said for number in REMEMBER.findall(text)]


def latest(items: Iterable[Item], pattern: str) -> str:
    """The last match of a pattern in any text, call or tool result."""
    found = [match for item in items if (match := _last(re.compile(pattern), item.text))]
    return found[-1][0] if found else "Nothing found."


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    matches = list(pattern.finditer(text))
    return matches[-1] if matches else None
