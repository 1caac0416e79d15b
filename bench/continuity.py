"""What each way to carry a conversation costs: the bytes of each request that no prompt cache could serve.

Twenty turns of two kilobytes on the real Claude, Codex and Gemini: the bare CLI resuming its own session, and
``segue`` by resume, by branch after an edit, and by replay. The table is printed per agent and turn.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from pathlib import Path

from tests import isolation
from tests.clis import CLIS, install
from tests.live import harness
from tests.live.talk import Said, Talk, talking

from bench.measure import Row
from segue.core.request import Start
from segue.rehearsal.server import LoopbackModel

AGENTS = ("claude", "codex", "gemini")
TURNS = 20
SIZE = 2_000
WORDS = "some words that make the message two kilobytes long, as a question with a bit of code would be; "
CUT_AT = 12
"""The turn whose message is edited, with everything after it cut."""


def message(number: int) -> str:
    return (f"message {number:03}: " + WORDS * 25)[:SIZE]


def measure() -> list[Row]:
    obstacle = isolation.enter()
    if obstacle:
        raise RuntimeError(f"no isolation: {obstacle}")
    rows = []
    for agent in AGENTS:
        if reason := install(CLIS[agent], CLIS[agent].newest):
            raise RuntimeError(reason)
        rows += _agent(agent)
    return rows


def _agent(agent: str) -> list[Row]:
    bare = _bare(agent)
    with tempfile.TemporaryDirectory() as folder, talking(Path(folder), {agent: CLIS[agent].newest}) as talk:
        resumed = [_turn(talk, number, agent) for number in range(1, TURNS + 1)]
        replayed = [_turn(talk, number, agent, "--fresh-session", key="r") for number in range(1, TURNS + 1)]
        branched = _branched(talk)
    _show(agent, bare, resumed, replayed)
    resume, replay, own = resumed[-1].new_bytes, replayed[-1].new_bytes, statistics.median(bare[1:])
    rows = [
        _ratio(f"{agent}: resume / the bare CLI's, median", _median(resumed), own, 1.05),
        _ratio(f"{agent}: branch after edit --cut / the bare CLI's", branched, own, 1.05),
        _prediction(agent, "resume", resumed[1:]),
        _prediction(agent, "replay", replayed[1:]),
    ]
    if agent == "claude":
        times = replay / resume
        rows.append(Row(f"claude: replay / resume at turn {TURNS}", f"{times:.1f} ×", "≥ 20 ×", times >= 20))
    else:
        # OpenAI serves steps of 128 tokens, so single turns swing by 500 bytes: the medians tell.
        text = statistics.median(said.new_bytes for said in replayed[2:])
        rows.append(_ratio(f"{agent}: replay / the bare CLI's resume, median", text, own, 1.1))
    return rows


def _bare(agent: str) -> list[int]:
    """New bytes of each turn when the CLI resumes its own session."""
    with tempfile.TemporaryDirectory() as folder, LoopbackModel() as model:
        os.environ["PYTEST_PROBES"] = folder
        (Path(folder) / "b").mkdir()
        bench = harness.make(
            agent, CLIS[agent].newest, CLIS[agent].newest, Path(folder) / "b", model, retries=1, record=False
        )
        costs: list[int] = []
        session: str | None = None
        for number in range(1, TURNS + 1):
            start = Start("resume", session) if session else Start()
            ran = bench.attempt(message(number), start=start)
            if ran.outcome.failure is not None:
                raise RuntimeError(f"{agent}: {ran.outcome.failure.message}")
            session = ran.outcome.session_id
            costs.append(sum(request.new_bytes for request in ran.requests if not request.side))
        return costs


def _turn(talk: Talk, number: int, agent: str, *options: str, key: str = "t") -> Said:
    said = talk.run(message(number), "--agent", agent, *options, key=key)
    wanted = {"fresh"} if number == 1 else {"replay"} if options else {"resume"}
    if said.mode not in wanted:
        raise RuntimeError(f"{agent}, turn {number}: {said.mode}, {said.failed()}")
    return said


def _branched(talk: Talk) -> int:
    """The new bytes of a turn after an earlier message was edited and what followed was cut."""
    place = 2 * CUT_AT - 1
    edited = talk("edit", "t", f"#{place}", message(500), "--cut")
    if edited.code != 0:
        raise RuntimeError(edited.stderr)
    said = talk("retry", "t", "--json")
    if said.code != 0 or said.mode != "branch":
        raise RuntimeError(f"{said.stderr} {said.failed()}")
    return said.new_bytes


def _prediction(agent: str, way: str, turns: list[Said]) -> Row:
    """How far the predicted cost of each turn was from what it cost, as a share of that."""
    errors = []
    for said in turns:
        predicted, cost = said.turn["predicted_usd"], said.turn["cost_usd"]
        if predicted is not None and cost:
            errors.append(abs(predicted - cost) / cost)
    seen = f"{statistics.median(errors):.0%} ({len(errors)} turns)" if errors else "no price known"
    return Row(f"{agent}: predicted cost of a {way}, median error", seen, "reported", True)


def _ratio(what: str, ours: float, theirs: float, limit: float) -> Row:
    times = ours / theirs
    return Row(what, f"{times:.2f} × ({ours:,.0f} / {theirs:,.0f} bytes)", f"≤ {limit} ×", times <= limit)


def _median(turns: list[Said]) -> float:
    return statistics.median(said.new_bytes for said in turns[1:])


def _show(agent: str, bare: list[int], resumed: list[Said], replayed: list[Said]) -> None:
    print(f"\n{agent} {CLIS[agent].newest}: new bytes per turn", file=sys.stderr)
    print(f"{'turn':>5} {'bare resume':>12} {'resume':>10} {'replay':>10}", file=sys.stderr)
    for number in range(TURNS):
        ours, text = resumed[number].new_bytes, replayed[number].new_bytes
        print(f"{number + 1:>5} {bare[number]:>12,} {ours:>10,} {text:>10,}", file=sys.stderr, flush=True)
