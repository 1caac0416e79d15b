"""Finding the turn in a request: what the user said last, and what has happened since.

The CLIs wrap and surround a prompt: reminders, environments and project documents come as blocks of their own
or behind the prompt, older messages may ride in front of it as a transcript. The rules:

1. The turn's text is the last user text that is not *injected*. Injected: wholly made of tagged elements
   (`<system-reminder>…</system-reminder>`), a notice in brackets (`[Your previous response had …]`), or
   one of a few known openings (`# AGENTS.md instructions …`).
2. Tagged elements at the end of that text are taken off.
3. If it is a row of parts as Segue composes it, only the last one under `--- user ---` counts. Otherwise, if
   a line of it reads `--- new message ---` (or a heading `# New message`), or is a lone closing tag
   (`</conversation>`), only what follows the last such line does. The part before it is history.
"""

import re

from msgspec import Struct

from segue.core.carried import NEW
from segue.rehearsal.talk import Ask, Item

_TRAILING_ELEMENT = re.compile(r"<([A-Za-z][\w:-]*)\b[^<>]*>(?:(?!<\1\b).)*</\1>\s*\Z", re.DOTALL)
_BOUNDARY = re.compile(r"^[ \t]*(?:[-=#*]+ *new message *[-=#*:]*|</[A-Za-z][\w:-]*>)[ \t]*$", re.I | re.M)
_PART = re.compile(rf"^--- {NEW} ---$", re.M)
_NOTICE = re.compile(r"\[(?!\[)[^\[\]]*\]")
_OPENINGS = ("# AGENTS.md instructions", "System: ")


class Turn(Struct, frozen=True):
    """The current turn: its text, the whole text that stood in, what came before, its tool calls so far."""

    text: str
    whole: str = ""
    before: tuple[Item, ...] = ()
    calls: int = 0
    results: tuple[Item, ...] = ()

    @property
    def tools_done(self) -> int:
        """Calls count as well as results, so that a client that loses results cannot make the model loop."""
        return max(self.calls, len(self.results))


def find(ask: Ask) -> Turn:
    for index in range(len(ask.items) - 1, -1, -1):
        item = ask.items[index]
        if item.kind == "text" and item.role == "user":
            text = _own(item.text)
            if text is not None:
                return _turn(ask.items, index, text)
    return Turn("", before=ask.items)


def _turn(items: tuple[Item, ...], index: int, text: str) -> Turn:
    carried, own = _split(text)
    since = items[index + 1 :]
    before = (*items[:index], Item("text", "user", carried)) if carried else items[:index]
    results = {item.call_id or str(at): item for at, item in enumerate(since) if item.kind == "result"}
    calls = {item.call_id or str(at) for at, item in enumerate(since) if item.kind == "call"}
    return Turn(own, text, before, len(calls), tuple(results.values()))


def _own(text: str) -> str | None:
    """The text without what was appended to it, or none if nothing of it is the user's."""
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
    """What the text carries from before, and the new message."""
    ends = [match.end() for match in _PART.finditer(text)]
    ends = ends or [match.end() for match in _BOUNDARY.finditer(text)]
    return (text[: ends[-1]], text[ends[-1] :].strip()) if ends else ("", text)
