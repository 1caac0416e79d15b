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
