"""Changes of a conversation from the command line, through the library."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from segue.core.figures import counted
from segue.library import Segue

T = TypeVar("T")


def change(work: Callable[[Segue], Awaitable[T]]) -> T:
    async def go() -> T:
        async with Segue() as segue:
            return await work(segue)

    return anyio.run(go)


def dropped(count: int) -> str:
    return f"dropped {counted(count, 'message')}"


def undo_hint(key: str) -> str:
    return f"To undo: segue undo {key}. What the next turn will do: segue why {key}"
