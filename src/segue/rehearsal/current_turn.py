"""Finds the turn in a request: what the user said last, and what has happened since.

The CLIs wrap a prompt: reminders, environments and project documents come as separate blocks or after the
prompt, and older messages may come before it as a transcript. The rules:

1. The turn's text is the last user text that is not *injected*. Injected: only tagged elements
   (`<system-reminder>…</system-reminder>`), a notice in brackets (`[Your previous response had …]`), or
   one of a few known openings (`# AGENTS.md instructions …`).
2. Tagged elements at the end of that text are removed.
3. If it has parts as Segue composes them, only the last one under `--- user ---` counts. Otherwise, if a line
   of it reads `--- new message ---` (or a heading `# New message`), or is a lone closing tag
   (`</conversation>`), only what follows the last such line counts. The part before it is history.

The model "knows" only what the request itself contains.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from segue.core.prompt_parts import NEW_MESSAGE
from segue.rehearsal.types import Ask, Item

_TRAILING_ELEMENT = re.compile(r"<([A-Za-z][\w:-]*)\b[^<>]*>(?:(?!<\1\b).)*</\1>\s*\Z", re.DOTALL)
_BOUNDARY = re.compile(r"^[ \t]*(?:[-=#*]+ *new message *[-=#*:]*|</[A-Za-z][\w:-]*>)[ \t]*$", re.I | re.M)
_PART = re.compile(rf"^--- {NEW_MESSAGE} ---$", re.M)
_NOTICE = re.compile(r"\[(?!\[)[^\[\]]*\]")
_OPENINGS = ("# AGENTS.md instructions", "System: ")


class CurrentTurn(Struct, frozen=True):
    """The current turn: its text, the whole text around it, what came before, its tool calls so far."""

    text: str
    whole: str = ""
    before: tuple[Item, ...] = ()
    calls: int = 0
    results: tuple[Item, ...] = ()

    @property
    def tools_done(self) -> int:
        """Calls count, too, so that a client that loses results cannot make the model loop."""
        return max(self.calls, len(self.results))


def find_turn(ask: Ask) -> CurrentTurn:
    for index in range(len(ask.items) - 1, -1, -1):
        item = ask.items[index]
        if item.kind == "text" and item.role == "user":
            text = _own(item.text)
            if text is not None:
                return _turn(ask.items, index, text)
    return CurrentTurn("", before=ask.items)


def _turn(items: tuple[Item, ...], index: int, text: str) -> CurrentTurn:
    carried, own = _split(text)
    since = items[index + 1 :]
    before = (*items[:index], Item("text", "user", carried)) if carried else items[:index]
    results = {item.call_id or str(at): item for at, item in enumerate(since) if item.kind == "result"}
    calls = {item.call_id or str(at) for at, item in enumerate(since) if item.kind == "call"}
    return CurrentTurn(own, text, before, len(calls), tuple(results.values()))


def _own(text: str) -> str | None:
    """The text without what was appended to it; None if nothing in it is the user's."""
    text = text.strip()
    while text and (match := _last_element(text)):
        text = text[: match.start()].rstrip()
    if not text or text.startswith(_OPENINGS) or _NOTICE.fullmatch(text):
        return None
    return text


def _last_element(text: str) -> re.Match[str] | None:
    if not text.endswith(">"):
        return None
    name = re.search(r"</([A-Za-z][\w:-]*)>\Z", text)
    start = text.rfind(f"<{name[1]}") if name else -1
    if start < 0 or _PART.search(text, start):
        return None
    return _TRAILING_ELEMENT.match(text, start)


def _split(text: str) -> tuple[str, str]:
    """The earlier messages in the text, and the new message."""
    ends = [match.end() for match in _PART.finditer(text)]
    ends = ends or [match.end() for match in _BOUNDARY.finditer(text)]
    return (text[: ends[-1]], text[ends[-1] :].strip()) if ends else ("", text)


REMEMBER = re.compile(r"\bremember\s+(?:(?:the|this|my)\s+)?number:?\s+(?:is\s+)?(\d+)", re.I)
_QUESTION = re.compile(r"\bwhat(?:'s|\s+is|\s+was|\s+were|\s+are)?\s+(?:the\s+|my\s+)?number(s?)\b", re.I)


def recalled_answer(turn: CurrentTurn) -> str | None:
    """`Noted: N.` to a number, the last number to a question, nothing to anything else."""
    asked = _last(_QUESTION, turn.text)
    told = _last(REMEMBER, turn.text)
    if asked and (told is None or told.start() < asked.start()):
        known = numbers_in((*turn.before, Item("text", "user", turn.text[: asked.start()])))
        if not known:
            return "I do not know any number."
        return ", ".join(known) if asked[1] else known[-1]
    return f"Noted: {told[1]}." if told else None


def numbers_in(items: Iterable[Item]) -> list[str]:
    """Every number a user asked to remember, in order."""
    said = (item.text for item in items if item.kind == "text" and item.role == "user")
    return [number for text in said for number in REMEMBER.findall(text)]


def latest_number(items: Iterable[Item], pattern: str) -> str:
    """The last match of a pattern in any text, call or tool result."""
    found = [match for item in items if (match := _last(re.compile(pattern), item.text))]
    return found[-1][0] if found else "Nothing found."


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    matches = list(pattern.finditer(text))
    return matches[-1] if matches else None
