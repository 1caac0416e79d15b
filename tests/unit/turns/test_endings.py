"""After a turn: a try while the store is away, a refused tool, a directory that cannot be read."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from segue.core.errors import StoreAway
from segue.core.outcome import Failure, Outcome
from segue.core.redact import Redactor
from segue.core.tools import DeniedTools
from segue.core.turn import Clause, Sent, Turn, shown_failure
from segue.core.usage import Context, Usage
from segue.turns import retries, run_dir
from segue.turns.report import failed_if_denied

TURN = Turn(
    run="r1",
    conversation="t",
    message="m1",
    agent="claude",
    account=None,
    model=None,
    mode="fresh",
    resumed=False,
    session_id=None,
    sent=Sent(),
    text="",
    status="failed",
    failure=shown_failure(Outcome(failure=Failure("rate_limited", "later", until=1))),
    usage=Usage(),
    cost_usd=0.5,
    cost_estimated=False,
    context=Context(),
    model_turns=None,
    tools_run=0,
    attempts=(),
    duration_ms=1,
)


def test_a_store_that_is_away_does_not_hide_what_came_of_the_last_try() -> None:
    said: list[str] = []

    async def again(_: Turn) -> Turn:
        raise StoreAway("the store is away")

    async def go() -> Turn:
        return await retries.retry_while_temporary(TURN, 3, again, given_up=lambda: False, notice=said.append)

    retries_first, retries.FIRST_S = retries.FIRST_S, 0.01
    try:
        assert asyncio.run(go()) == TURN
    finally:
        retries.FIRST_S = retries_first
    assert said[-1] == "not retried: the store is away"


def test_the_way_on_from_a_refused_tool_names_the_directory() -> None:
    done = msgspec.structs.replace(
        TURN, status="ok", state="done", failure=None, tools_denied=DeniedTools(1, ("Write",))
    )
    assert failed_if_denied(done, "/w").next == "segue retry t m1 --cwd /w"
    assert failed_if_denied(done, None).next == "segue retry t m1"


def test_a_run_directory_that_cannot_be_read_is_a_notice(tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.write_text("not a directory")
    told = run_dir.archive(place, Redactor(()))
    assert told is not None
    assert told.text == f"{place} could not be cleaned up: Not a directory"
    assert told.clauses == (Clause("notice.unclean", {"there": str(place), "why": "Not a directory"}),)
    assert run_dir.archive(tmp_path / "nothing", Redactor(())) is None
