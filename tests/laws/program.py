"""Goes through a door, and ends itself with -9 at a chosen moment.

python -m tests.laws.program ROOT OLD NEW DOOR KEY MOMENT
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
from typing import Any, NoReturn

from segue import Segue
from segue.core.laws import Door
from segue.core.question import OpenQuestion
from segue.store.store import Store
from segue.turns import attempts, reply
from tests.laws.doors import ROWS
from tests.laws.stage import Stage
from tests.laws.without import take_out

MOMENTS = ("before the plan", "at work", "before settle")


def main(root: str, old: str, new: str, door: str, key: str, moment: str) -> None:
    stage = Stage(Path(root), old=old, new=new, url=os.environ.get("LAWS_URL"))
    condition = os.environ.get("LAWS_WITHOUT")
    if condition:
        take_out(condition, setattr)
    if door == "asks":
        asyncio.run(_ask(stage, key))
    else:
        wanted = Door(door)
        _strike(stage, wanted, moment)
        stage.play_out(lambda library: ROWS[wanted].through(stage, library, key))
    sys.exit("it was not killed")


def _strike(stage: Stage, door: Door, moment: str) -> None:
    """At the first run by this door that comes to this moment."""

    def before(place: object, name: str, what: Callable[[], None]) -> None:
        done = getattr(place, name)

        def striking(first: Any, *args: Any, **more: Any) -> Any:
            admission = getattr(first, "admission", first)
            if admission.door is door:
                what()
            return done(first, *args, **more)

        setattr(place, name, striking)

    if moment == "before the plan":
        before(attempts, "_note_start", _die)
    elif moment == "before settle":
        before(reply, "settle", _die)
    else:
        before(attempts, "launch", lambda: _die_at_work(stage))


def _die_at_work(stage: Stage) -> None:
    """Once the agent that is about to be started has been."""
    known = len(stage.starts)

    def watch() -> None:
        while len(stage.starts) == known:
            time.sleep(0.005)
        _die()

    threading.Thread(target=watch, daemon=True).start()


async def _ask(stage: Stage, key: str) -> None:
    """The agent asks; nobody has answered when this process is killed."""
    ask = Store.ask

    def asking(*args: Any) -> None:
        ask(*args)
        _die()

    setattr(Store, "ask", asking)  # noqa: B010 - a method is replaced

    async def never(question: OpenQuestion) -> Any:
        await asyncio.sleep(600)

    async with stage.opened() as library:
        await _asks(library, stage, key, never)


async def _asks(library: Segue, stage: Stage, key: str, never: Any) -> None:
    await library.run(key, "ask me", account=stage.new, questions="on", answer=never)


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


if __name__ == "__main__":
    main(*sys.argv[1:])
