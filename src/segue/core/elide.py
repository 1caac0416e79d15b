"""Shortens a text to a number of bytes, says how much is missing, and never cuts inside a character."""

from __future__ import annotations

MARK = "\n[... {:,} bytes left out ...]\n"


def elide(text: str, limit: int, *, ending: bool = True) -> str:
    """At most ``limit`` bytes: the beginning and, unless ``ending`` is false, a third of them the end."""
    data = text.encode()
    if len(data) <= limit:
        return text
    room = limit - len(MARK.format(len(data)))
    if room <= 0:
        return data[: max(limit, 0)].decode(errors="ignore")
    behind = room // 3 if ending else 0
    first = data[: room - behind].decode(errors="ignore")
    last = data[len(data) - behind :].decode(errors="ignore")
    mark = MARK.format(len(data) - len(first.encode()) - len(last.encode()))
    return first + mark + last if last else first + mark.rstrip("\n")
