"""Figures in words, the same wherever they are told. Pure."""

from __future__ import annotations


def tokens(count: int | None) -> str:
    """``999``, ``1.2k``, ``200k``, ``1M``, ``3.1M``; what is unknown is ``?``."""
    if count is None:
        return "?"
    if count < 1_000:
        return str(count)
    if count < 999_500:
        return _short(count / 1_000, "k")
    return _short(count / 1_000_000, "M")


def counted(number: int, thing: str, things: str | None = None) -> str:
    """``1 message``, ``3 messages``. ``things``: the plural, where it is not made by an s."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {things or f'{thing}s'}"


def _short(number: float, unit: str) -> str:
    shown = f"{number:.1f}" if number < 99.95 else f"{number:.0f}"
    return shown.removesuffix(".0") + unit
