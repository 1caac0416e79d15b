"""Values as the databases can hold them: texts that are UTF-8 without NUL, everything nested as JSON."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from segue.core.decoder import decode

T = TypeVar("T")


def storable(value: Any) -> Any:
    """A parameter that both databases take; what no text may contain becomes U+FFFD."""
    if not isinstance(value, str):
        return value
    if "\0" in value:
        value = value.replace("\0", "\ufffd")
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in value)
    return value


def pack(value: Any) -> str:
    """The value as JSON."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(_cleaned(msgspec.to_builtins(value))).decode()


def unpack(text: str | None, kind: type[T]) -> T | None:
    """What ``pack`` wrote; None for what cannot be understood (any more)."""
    if text is None:
        return None
    try:
        return decode(text, kind)
    except (msgspec.DecodeError, UnicodeError):
        return None


def _cleaned(value: Any) -> Any:
    if isinstance(value, dict):
        return {storable(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    return storable(value)
