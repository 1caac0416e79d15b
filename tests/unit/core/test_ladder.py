"""The decision: where each turn lands, alone and in combination, and the one step down."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.situations import BREAKS, THREE_MODES, broken, situation

from segue.core.ladder import Decision, decide, step_down
from segue.core.model import Ended
from segue.core.outcome import Failure, Kind
from segue.core.situation import RUNGS, File, Situation
from segue.core.turn import Mode

LANDS: list[tuple[tuple[str, ...], Mode, Mode, Mode]] = [
    # what is wrong, and where it lands: with branch, where the agent cannot branch, with three modes
    ((), "resume", "resume", "resume"),
    (("blank",), "fresh", "fresh", "fresh"),
    (("switched off",), "replay", "replay", "replay"),
    (("cannot resume",), "replay", "replay", "replay"),
    (("does not resume",), "replay", "replay", "replay"),
    (("does not branch",), "resume", "resume", "resume"),
    (("does not branch", "retried"), "replay", "replay", "replay"),
    (("new session wanted",), "replay", "replay", "replay"),
    (("no session",), "replay", "replay", "replay"),
    (("fork",), "branch", "replay", "replay"),
    (("retried",), "branch", "replay", "replay"),
    (("first edited",), "replay", "replay", "replay"),
    (("foreign end",), "branch", "replay", "replay"),
    (("other directory",), "replay", "replay", "replay"),
    (("other program",), "replay", "replay", "replay"),
    (("other model",), "replay", "replay", "replay"),
    (("other login",), "fresh", "fresh", "fresh"),
    (("other account",), "fresh", "fresh", "fresh"),
    (("other host",), "replay", "replay", "replay"),
    (("other home",), "replay", "replay", "replay"),
    (("too old",), "replay", "replay", "replay"),
    (("cancelled",), "branch", "replay", "replay"),
    (("killed",), "branch", "replay", "replay"),
    (("timed out",), "branch", "replay", "replay"),
    # auth, limit, network: the session is good, unless the refused prompt stayed behind in it.
    (("prompt left behind",), "branch", "replay", "replay"),
    (("poisoned",), "branch", "replay", "replay"),
    (("poisoned", "over half the window"), "branch", "recap", "fresh"),
    (("retired",), "replay", "replay", "replay"),
    (("full, compacts",), "resume", "resume", "resume"),
    (("full",), "replay", "replay", "replay"),
    (("full", "over half the window"), "recap", "recap", "fresh"),
    (("full, in a flow",), "recap", "recap", "fresh"),
    (("file gone",), "replay", "replay", "replay"),
    (("too big",), "replay", "replay", "replay"),
    (("too big", "over half the window"), "recap", "recap", "fresh"),
    # It is only about the view as text: a session goes on.
    (("over half the window",), "resume", "resume", "resume"),
    (("over half the window", "no session"), "recap", "recap", "fresh"),
    (("over the prompt limit", "no session"), "recap", "recap", "fresh"),
    (("too much to catch up",), "recap", "recap", "fresh"),
    (("no room beside the message",), "resume", "resume", "resume"),
    (("no room beside the message", "no session"), "fresh", "fresh", "fresh"),
    (("other tools",), "resume", "resume", "resume"),
    (("busy",), "resume", "resume", "resume"),
    (("nearly used up",), "resume", "resume", "resume"),
    (("refused",), "resume", "resume", "resume"),
    (("paid otherwise",), "resume", "resume", "resume"),
]


@pytest.mark.parametrize(("wrong", "lands", "unbranched", "three"), LANDS)
def test_where_it_lands(wrong: tuple[str, ...], lands: Mode, unbranched: Mode, three: Mode) -> None:
    assert decide(broken(*wrong)).mode == lands
    assert decide(broken(*wrong, "cannot branch")).mode == unbranched
    assert decide(broken(*wrong, "three modes")).mode == three


def test_everything_that_can_be_wrong_is_in_the_table() -> None:
    left_out = {"three modes", "cannot branch"}
    assert {name for wrong, *_ in LANDS for name in wrong} | left_out == BREAKS.keys()


@pytest.mark.parametrize(
    ("facts", "lands"),
    [
        # Tools ran before it was cut short: it is not branched away.
        ({"holds": "u1 a1! u2!", "spoken": "u1 a1 u2 u3", "pinned": {"ended": Ended("killed", 3)}}, "resume"),
        ({"holds": "u1 a1! u2!", "spoken": "u1 a1 u2", "pinned": {"ended": Ended("timeout", 3)}}, "resume"),
        # The CLI dropped the refused prompt.
        ({"pinned": {"ended": Ended("rate_limited")}}, "resume"),
        # Nothing was said before: there is nothing to carry.
        ({"spoken": "u1", "holds": None}, "fresh"),
        ({"spoken": "u1", "holds": "u1 a1!"}, "fresh"),
        ({"spoken": "u1", "holds": "u1!"}, "resume"),
        ({"spoken": "u1", "holds": "u1!", "file": File(False)}, "fresh"),
        # Graft has no writers yet: it is never taken, whatever the policy says.
        ({"holds": None, "policy": {"graft": "any"}}, "replay"),
        # Only what is left out is not taken.
        ({"holds": None, "policy": {"modes": ("resume", "recap", "fresh")}}, "recap"),
        ({"holds": None, "policy": {"modes": ("resume", "fresh")}}, "fresh"),
        ({"holds": None, "policy": {"modes": ()}}, "fresh"),
        ({"policy": {"modes": ("branch",)}}, "branch"),
        ({"view_bytes": 400_000, "policy": {"enabled": False, "modes": THREE_MODES}}, "fresh"),
    ],
)
def test_where_else_it_lands(facts: dict[str, Any], lands: Mode) -> None:
    assert decide(situation(**facts)).mode == lands


@pytest.mark.parametrize("wrong", sorted(BREAKS))
def test_a_role_with_the_whole_prompt_is_never_told_the_past_as_text(wrong: str) -> None:
    """It continues its session where any other would, and begins anew where any other gets text."""
    plain, role = decide(broken(wrong)), decide(broken(wrong, full=True))
    assert role.mode == (plain.mode if plain.mode in ("resume", "branch") else "fresh")


def test_a_refused_session_of_a_role_with_the_whole_prompt_is_replaced_by_it() -> None:
    kinds: tuple[Kind, ...] = ("session_rejected", "context_exceeded")
    for kind in kinds:
        failure = Failure(kind, "no")
        assert step_down("resume", failure, 0, situation(full=True)) == "fresh"
        assert step_down("resume", failure, 1, situation(full=True)) is None


def test_the_time_that_a_turn_was_parked_does_not_make_its_session_too_old() -> None:
    last, minute = situation().pin, 60_000
    assert last is not None
    late: dict[str, Any] = {"policy": {"ttl_minutes": 30}, "now_ms": last.succeeded_ms + 300 * minute}
    assert decide(situation(**late)).mode == "replay"
    assert decide(situation(**late, asked_ms=last.succeeded_ms + 29 * minute)).mode == "resume"
    assert decide(situation(**late, asked_ms=last.succeeded_ms + 31 * minute)).mode == "replay"


def test_a_session_that_was_interrupted_in_its_first_turn_is_not_too_old() -> None:
    facts: dict[str, Any] = {"policy": {"ttl_minutes": 30}, "now_ms": 1_800_000_000_000}
    begun = {"succeeded_ms": 0, "ended": Ended("killed", 3)}
    assert decide(situation("u1", "u1!", pinned=begun, **facts)).mode == "resume"


@given(st.sets(st.sampled_from(sorted(BREAKS))), st.booleans())
def test_in_any_combination(wrong: set[str], first: bool) -> None:
    names = sorted(wrong)
    now = broken(*names, spoken="u1") if first else broken(*names)
    decision = decide(now)
    assert len(decision.checks) == 23
    barred = {mode for check in decision.checks for mode in check.bars}
    assert "fresh" not in barred
    assert decision.mode == first_open(now, barred)
    states = {rung.mode: rung.state for rung in decision.rungs}
    assert tuple(states) == RUNGS
    assert states[decision.mode] == "open"
    assert "open" not in [states[mode] for mode in RUNGS[: RUNGS.index(decision.mode)]]
    assert all(rung.why for rung in decision.rungs if rung.state != "open")
    assert decision == decide(now)
    if now.earlier and not may_forget(decision, now):
        assert decision.mode != "fresh"


def first_open(now: Situation, barred: set[Mode]) -> Mode:
    held, said_before = now.pin is not None and now.cut.anchor is not None, now.earlier > 0
    possible = {"resume": held, "branch": held, "replay": said_before, "recap": said_before, "fresh": True}
    return next(mode for mode in RUNGS if mode not in barred and possible.get(mode))


def may_forget(decision: Decision, now: Situation) -> bool:
    """Only by wish, at the wall of an account, or when the text is too long and a recap is not allowed, or
    has no room beside the new message."""
    too_long = decision.failed("fits") or (decision.failed("pressure") and now.flow)
    return decision.failed("blank", "account") or (too_long and _no_recap(decision))


def _no_recap(decision: Decision) -> bool:
    return any("recap" in check.bars for check in decision.checks if check.check in ("enabled", "fits"))


@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize("tools_run", [0, 1, None])
@pytest.mark.parametrize("mode", RUNGS)
@pytest.mark.parametrize("kind", get_args(Kind))
def test_the_one_step_down(kind: Kind, mode: Mode, tools_run: int | None, fits: bool) -> None:
    now = situation(view_bytes=100 if fits else 400_000)
    carried: Mode = "replay" if fits else "recap"
    expected: dict[tuple[str, Mode], Mode] = {
        ("session_rejected", "resume"): carried,
        ("session_rejected", "branch"): carried,
        ("session_rejected", "graft"): carried,
        ("context_exceeded", "resume"): carried,
        ("context_exceeded", "branch"): carried,
        ("context_exceeded", "graft"): carried,
        ("context_exceeded", "replay"): "recap",
    }
    wanted = expected.get((kind, mode)) if tools_run == 0 else None
    assert step_down(mode, Failure(kind, "no"), tools_run, now) == wanted


@pytest.mark.parametrize(
    ("mode", "kind", "facts", "wanted"),
    [
        # Nothing was said before the message that the refused session held: a fresh one loses nothing.
        ("resume", "session_rejected", {"spoken": "u1", "holds": "u1!"}, "fresh"),
        (
            "resume",
            "session_rejected",
            {"spoken": "u1 a1 u2@codex b2@codex u3", "policy": {"history": "own"}},
            "fresh",
        ),
        ("fresh", "context_exceeded", {"spoken": "u1", "holds": None}, None),
        # Rather a failure than context lost without a word.
        (
            "resume",
            "session_rejected",
            {"view_bytes": 400_000, "policy": {"modes": THREE_MODES}},
            None,
        ),
        ("replay", "context_exceeded", {"policy": {"modes": THREE_MODES}}, None),
        ("resume", "session_rejected", {"policy": {"modes": ("resume", "recap", "fresh")}}, "recap"),
    ],
)
def test_a_step_down_keeps_what_can_be_kept(
    mode: Mode, kind: Kind, facts: dict[str, Any], wanted: Mode | None
) -> None:
    assert step_down(mode, Failure(kind, "no"), 0, situation(**facts)) == wanted
