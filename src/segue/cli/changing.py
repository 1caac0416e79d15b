"""Changes of a conversation from the command line, by the library's own door."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from segue.library import Segue

T = TypeVar("T")


def change(work: Callable[[Segue], Awaitable[T]]) -> T:
    async def go() -> T:
        async with Segue() as segue:
            return await work(segue)

    return anyio.run(go)


def dropped(count: int) -> str:
    return "1 message is dropped" if count == 1 else f"{count:,} messages are dropped"


def undo_hint(key: str) -> str:
    return f"Take it back: segue undo {key}. What the next turn makes of it: segue why {key}"
