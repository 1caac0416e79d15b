"""Takes a prepared turn: one attempt, in the right home, and what is told of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from segue.core.redact import Redactor
from segue.core.request import Place
from segue.core.turn import Turn
from segue.turns import keep
from segue.turns.answering import Answerer
from segue.turns.attempt import Cancel, Task, attempt
from segue.turns.prepared import Prepared
from segue.turns.report import told
from segue.turns.runner import Limits
from segue.turns.telling import Listener


async def take(
    prepared: Prepared,
    *,
    on_event: Listener | None = None,
    answer: Answerer | None = None,
    cancel: Cancel | None = None,
) -> Turn:
    """Run the turn to its end and say what happened."""
    began = time.monotonic_ns()
    run_dir = prepared.segue_home.make(prepared.segue_home.runs) / prepared.run
    redactor = Redactor(prepared.child.secrets)
    with _home(prepared) as home:
        env = (
            prepared.child.env
            if home == prepared.home
            else {**prepared.child.env, **prepared.agent.home_env(home)}
        )
        task = Task(
            agent=prepared.agent,
            runtime=prepared.runtime,
            request=prepared.request,
            place=Place(run_dir, home, time.time_ns() // 1_000_000),
            env=env,
            home=home,
            limits=Limits(time_s=prepared.ask.timeout_s or prepared.config.defaults.timeout),
            redactor=redactor,
        )
        try:
            outcome = await attempt(task, on_event=on_event, answer=answer, cancel=cancel)
        finally:
            keep.settle(run_dir, redactor)
    return told(prepared, outcome, (time.monotonic_ns() - began) // 1_000_000)


@contextmanager
def _home(prepared: Prepared) -> Iterator[Path]:
    """The account's home; or, where a session's id can only be found on disk, a private one made from it."""
    if not prepared.runtime.capabilities.id_on_disk_only:
        yield prepared.home
        return
    from segue.turns.homes import runner_home

    name = f"{prepared.agent.name}-{prepared.account or 'default'}"
    with runner_home(prepared.segue_home.make(prepared.segue_home.runners) / name, prepared.home) as home:
        yield home
