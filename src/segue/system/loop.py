"""An event loop that starts late.

Until its agent runs, a turn does nothing that takes long: it reads and writes a few files and the store.
Loading asyncio and anyio takes longer than all of that. So the program runs a turn without an event loop
until it first has to wait, and starts the loop then, when the agent is starting up, too.

    begun = begin(turn)             # runs to the first ``await in_loop()``, or to its end
    result = begun.result if begun.ended else anyio.run(begun.rest)

A coroutine that may be run this way calls ``in_loop`` before it waits for anything, and uses ``run_sync`` and
``shield`` of this module. Inside a running event loop, ``in_loop`` does nothing and the others are anyio's.
Modules that such a coroutine needs from its start import ``anyio`` from here, which loads it when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Generic, TypeVar, TypeVarTuple, cast

if TYPE_CHECKING:
    import anyio as anyio
else:

    class _Late:
        """Loaded when it is first used, for modules that are needed before the loop runs."""

        def __getattr__(self, name: str) -> object:
            import anyio

            return getattr(anyio, name)

    anyio = _Late()

T = TypeVar("T")
Args = TypeVarTuple("Args")

_without_loop = ContextVar("segue_without_loop", default=False)


class _LoopNeeded:
    """Awaited, it suspends the coroutine until ``rest`` continues it inside the loop."""

    def __await__(self) -> Generator[_LoopNeeded, None, None]:
        yield self


class _Rest(Generic[T]):
    """A coroutine that was started before cannot be awaited itself, but what it awaits can be passed on."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, None, T]:
        return (yield from self._coroutine.__await__())


@contextmanager
def _no_loop() -> Iterator[None]:
    token = _without_loop.set(True)
    try:
        yield
    finally:
        _without_loop.reset(token)


class Begun(Generic[T]):
    """A coroutine that was run without an event loop as far as possible."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self.ended = False
        self._result: T | None = None

    @property
    def result(self) -> T:
        """What it returned, if it has ended."""
        if not self.ended:
            raise RuntimeError("it has not ended yet")
        return cast("T", self._result)

    async def rest(self) -> T:
        """Run it to its end, in the event loop and in the task that calls this."""
        return self.result if self.ended else await _Rest(self._coroutine)

    def close(self) -> None:
        """Let it clean up, if it is not run to its end."""
        with _no_loop():
            self._coroutine.close()

    def _begin(self) -> None:
        try:
            with _no_loop():
                self._coroutine.send(None)
        except StopIteration as stopped:
            self.ended, self._result = True, stopped.value


def begin(coroutine: Coroutine[Any, Any, T]) -> Begun[T]:
    """Run the coroutine until it needs an event loop. Raises what it raises until then."""
    begun = Begun(coroutine)
    begun._begin()
    return begun


async def in_loop() -> None:
    """Make sure that an event loop runs: call this before waiting for anything."""
    if _without_loop.get():
        await _LoopNeeded()


async def run_sync(function: Callable[[*Args], T], *args: *Args, abandon_on_cancel: bool = False) -> T:
    """Call the function in a worker thread; without an event loop, call it directly."""
    if _without_loop.get():
        return function(*args)
    from anyio.to_thread import run_sync as in_thread

    return await in_thread(function, *args, abandon_on_cancel=abandon_on_cancel)


def shield() -> AbstractContextManager[object]:
    """What is awaited in it is not cancelled from outside."""
    if _without_loop.get():
        return nullcontext()
    return anyio.CancelScope(shield=True)


def failures() -> tuple[type[BaseException], ...]:
    """What to catch if a task may fail or be cancelled. Without an event loop, nothing cancels it."""
    if _without_loop.get():
        return (Exception,)
    return Exception, anyio.get_cancelled_exc_class()
