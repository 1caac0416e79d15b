"""Takes question forms out of earlier answers: they were answered, and must not be answered again.

A form is an element of its own, or a fenced block of JSON that puts questions to the user. What stands in
other fenced blocks is code that somebody wrote, and stays.
"""

from __future__ import annotations

import re

ASKED = "(asked the user a question; it was answered below)"

_OPENING = re.compile(
    r"^[ \t]*(?P<fence>`{3,}+|~{3,}+)[^\n`]*$"
    r"|<(?P<element>question-form)(?=[\s>])[^<>]*>"
    r"|^[ \t]*<(?P<page>form)(?=[\s>])[^<>]*>",
    re.MULTILINE | re.IGNORECASE,
)
"""``<form>`` is also what web pages are made of: it counts only where a line begins with it."""
_CLOSING = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in ("question-form", "form")}
_HINTS = ("question-form", "<form", "askuserquestion", '"questions"')


def without_forms(text: str) -> str:
    """The text with one line in the place of each form."""
    lowered = text.lower()
    if not any(hint in lowered for hint in _HINTS):
        return text
    kept: list[str] = []
    done = at = 0
    open_ended: set[str] = set()
    while opening := _OPENING.search(text, at):
        end = _end(text, opening, open_ended)
        at = opening.end() if end is None else end
        if end is not None and _is_form(text[opening.start() : end], opening):
            kept += (text[done : opening.start()], ASKED)
            done = end
    return "".join((*kept, text[done:]))


def _end(text: str, opening: re.Match[str], open_ended: set[str]) -> int | None:
    """Where it ends; None when it never does. ``open_ended``: what was looked for in vain."""
    fence = opening["fence"]
    if fence:
        close = re.compile(rf"^[ \t]*{fence[0]}{{{len(fence)},}}[ \t]*$", re.MULTILINE)
        closing = close.search(text, opening.end())
        return closing.end() if closing else len(text)
    name = (opening["element"] or opening["page"]).lower()
    found = None if name in open_ended else _CLOSING[name].search(text, opening.end())
    if found is None:
        open_ended.add(name)
        return None
    return found.end()


def _is_form(block: str, opening: re.Match[str]) -> bool:
    if not opening["fence"]:
        return True
    body = block[opening.end() - opening.start() :].lstrip()
    asks = "AskUserQuestion" in block or ('"questions"' in body and '"options"' in body)
    return asks and body.startswith(("{", "["))
