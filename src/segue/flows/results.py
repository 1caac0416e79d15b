"""The results of steps: JSON without secrets; a large one becomes an artefact."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec

from segue.core.errors import Broken, Misuse
from segue.core.redact import Redactor

LARGEST = 64 * 1024
"""The largest result that is stored with its step, in bytes."""
T = TypeVar("T")


class Packed(msgspec.Struct, frozen=True):
    """A result as it is stored."""

    json: bytes

    @property
    def text(self) -> str | None:
        """What is stored with the step; None: it is too large."""
        return self.json.decode() if len(self.json) <= LARGEST else None

    @property
    def data(self) -> bytes | None:
        """What is stored as an artefact; None: it is small enough."""
        return self.json if len(self.json) > LARGEST else None


def pack(value: object, redactor: Redactor, what: str) -> Packed:
    """``what``: whose result it is, for the message if it cannot be stored."""
    try:
        return Packed(redactor.bytes(msgspec.json.encode(value)))
    except (TypeError, ValueError, UnicodeEncodeError) as error:
        raise Misuse(f"{what} cannot be recorded as JSON: {error}") from None


def unpack(json: str | bytes, kind: type[T] | None) -> T:
    """The value again; ``kind``: what it is converted to (None: plain JSON values)."""
    try:
        return cast("T", msgspec.json.decode(json, type=kind if kind is not None else Any))
    except msgspec.DecodeError as error:
        raise Broken(f"a recorded result cannot be read: {error}") from None
