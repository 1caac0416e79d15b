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

_ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
"""Whatever may be seen as the end of a line, not only what we write."""
_BLANK = f"[^\\S{_ENDS}]"
_LIKE_A_HEADING = re.compile(
    rf"(?<![^{_ENDS}])({_BLANK}*)(?=\\*---{_BLANK}[^{_ENDS}]*---{_BLANK}*(?![^{_ENDS}]))"
)
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
    """The text with no line that could be taken for one of ours."""
    return _LIKE_A_HEADING.sub(r"\1\\", text) if "---" in text else text


def quiet(text: str) -> str:
    """The text without an ``@`` that a CLI would take for a file to read: a space is put behind it.

    Claude, Gemini and Vibe read ``@`` by three rules, and a backslash before it stops only two of them. None
    looks past a space, and a model reads ``@ name`` as what it is. Taking one space away gives the text back.
    """
    return _EXPANDED.sub("@ ", text) if "@" in text else text


def one_line(text: str, limit: int) -> str:
    """Words from elsewhere, made fit for a sentence of ours."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def _rendered(part: Part, quiet_at: bool) -> str:
    heading, text = (quiet(part.heading), quiet(part.text)) if quiet_at else (part.heading, part.text)
    return f"--- {heading} ---\n{shield(text)}"
