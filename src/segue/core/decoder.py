"""JSON as a type of ours. Each decoder is made once, by one thread at a time.

The first use of a struct makes msgspec look into it; two threads that do so at the same moment end the whole
process (signal 11). So whatever a thread may decode is decoded here, or by a decoder that was made when
its module was imported.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
Hook = Callable[[type, Any], Any]

_MAKING = Lock()
_made: dict[tuple[Any, Hook | None], msgspec.json.Decoder[Any]] = {}


def decode(data: bytes | str | msgspec.Raw, kind: type[T], dec_hook: Hook | None = None) -> T:
    """Raises ``msgspec.MsgspecError``, as msgspec does."""
    known = _made.get((kind, dec_hook))
    if known is None:
        with _MAKING:
            known = _made.setdefault((kind, dec_hook), msgspec.json.Decoder(kind, dec_hook=dec_hook))
    decoded: T = known.decode(data)
    return decoded
