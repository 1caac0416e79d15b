"""The form of a prompt that carries more than the new message: parts, each under a line of its own.

    --- codex ---
    what Codex said

    --- user ---
    what the user said

A part ends where the next one begins, so a prompt grows at its end only: the next prompt of the same kind
begins with this one, byte for byte, and a prompt cache can serve it. No text can forge such a line: where one
of its lines reads like one, a backslash is put before the dashes (one more, where some stand there already).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

NEW = "user"
"""What the new message stands under, as every message of the user to this voice does: it is the last part."""

_LIKE_A_HEADING = re.compile(r"(\s*)\\*---\s.*---\s*", re.DOTALL)
_SHIELDED = re.compile(r"\A(\s*)\\(?=\\*---\s.*---\s*\Z)", re.DOTALL)
_CARRIES = re.compile(r"--- (?:prior context|instructions(?: from now on)?|role|note) ---\s")
_EXPANDED = re.compile(r"@(?= *[^ \t\n\r])")


class Part(msgspec.Struct, frozen=True):
    """One part. ``literal``: nothing but its lines' beginnings may be touched."""

    heading: str
    text: str = ""
    literal: bool = False


def render(parts: Iterable[Part], quiet_at: bool = False) -> str:
    return "\n\n".join(_rendered(part, quiet_at and not part.literal) for part in parts)


def size(parts: Iterable[Part], quiet_at: bool = False) -> int:
    """How many bytes the parts take among others."""
    return len(render(parts, quiet_at).encode()) + len("\n\n")


def shield(text: str) -> str:
    """The text with no line that could be taken for one of ours, wherever somebody may see a line's end."""
    if "---" not in text:
        return text
    return "".join(map(_shielded, text.splitlines(keepends=True)))


def quiet(text: str) -> str:
    """The text without an ``@`` that a CLI would take for a file to read: a space is put behind it.

    Claude, Gemini and Vibe read ``@`` by three rules, and a backslash before it stops only two of them. None
    looks past a space, and a model reads ``@ name`` as what it is. Taking one space away gives the text back.
    """
    return _EXPANDED.sub("@ ", text) if "@" in text else text


def own(prompt: str) -> str | None:
    """The user's own words in a prompt; None where it carries more than them, and they are cut off."""
    if _CARRIES.match(prompt) is None:
        return prompt
    _, heading, words = prompt.rpartition(f"\n--- {NEW} ---\n")
    if not heading:
        return None
    return "".join(_SHIELDED.sub(r"\1", line) for line in words.splitlines(keepends=True))


def one_line(text: str, limit: int) -> str:
    """Words from elsewhere, made fit for a sentence of ours."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def _shielded(line: str) -> str:
    like = _LIKE_A_HEADING.fullmatch(line) if "---" in line else None
    return f"{like[1]}\\{line[like.end(1) :]}" if like else line


def _rendered(part: Part, quiet_at: bool) -> str:
    heading, text = (quiet(part.heading), quiet(part.text)) if quiet_at else (part.heading, part.text)
    return f"--- {heading} ---\n{shield(text)}"
