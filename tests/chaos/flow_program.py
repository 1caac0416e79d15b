"""A small flow as a program of its own, which can kill itself at a chosen write of its journal, or when it is
about to let go of a lease.

python flow_program.py KEY [before:3 | after:3 | holding:3]
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from segue import Flow, Segue, flow
from segue.store.flows import Flows
from segue.store.leases import LeaseLock

WRITES = ("begin_step", "write_step", "change", "wait_for_answer")


def effect(name: str) -> str:
    with Path("steps").open("a") as file:
        file.write(f"{name}\n")
    return name


@flow(version=1)
async def small(flow: Flow) -> list[str]:
    first = await flow.step("first", effect, "first")
    one = await flow.turn("one", flow.key("coder"), "remember 1 [[shell echo one >> effects]] [[say one]]")
    both = await flow.parallel(
        flow.turn("left", flow.key("left"), "[[shell echo left >> effects]] [[say left]]"),
        flow.step("right", effect, "right"),
    )
    two = await flow.turn("two", flow.key("coder"), "[[shell echo two >> effects]] [[say two]]")
    last = await flow.step("last", effect, "last")
    return [first, one.text, both[0].text, both[1], two.text, last]


def who() -> str:
    """Waits for the gate, and tells which process it was."""
    Path(f"begun-{os.environ.get('WHO')}").touch()
    while not Path("gate").exists():
        time.sleep(0.02)
    return os.environ.get("WHO", "")


@flow(version=1)
async def gated(flow: Flow) -> list[str]:
    first = await flow.step("first", effect, "first")
    found = await flow.step("who", who)
    turn = await flow.turn("turn", flow.key("coder"), "[[shell echo turn >> effects]] [[say turn]]")
    last = await flow.step("last", effect, os.environ.get("WHO", ""))
    return [first, found, turn.text, last]


def strike_at(moment: str) -> None:
    """Kill this process before or after the n-th write, or while it still holds the n-th lease."""
    when, _, number = moment.partition(":")
    left, one = int(number), threading.Lock()

    def striking(write: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            nonlocal left
            with one:
                left -= 1
                strikes = left == 0
            if strikes and when != "after":
                os.kill(os.getpid(), signal.SIGKILL)
            done = write(*args, **options)
            if strikes:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        return call

    if when == "holding":
        LeaseLock.let_go = striking(LeaseLock.let_go)  # type: ignore[method-assign]
        return
    for name in WRITES:
        setattr(Flows, name, striking(getattr(Flows, name)))


async def main(key: str) -> None:
    async with Segue() as segue:
        shown = await segue.flows.run(gated if os.environ.get("WHO") else small, key=key)
        print(shown.state, shown.failure or "", (shown.result or b"") and bytes(shown.result or b"").decode())


if __name__ == "__main__":
    if len(sys.argv) > 2:
        strike_at(sys.argv[2])
    asyncio.run(main(sys.argv[1]))
