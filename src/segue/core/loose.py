"""Values out of JSON that somebody else wrote: of the wanted type, or nothing. Formats drift."""

from __future__ import annotations

from typing import Any


def whole(value: Any) -> int | None:
    """A whole number; a fraction is cut."""
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
