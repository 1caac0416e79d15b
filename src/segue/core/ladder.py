"""The decision: which rung of the ladder a turn takes.

Every check is evaluated and recorded; a failed check bars rungs; the turn takes the first rung of
``resume > branch > graft > replay > recap > fresh`` that nothing bars and that is possible. That is all.
"""

from __future__ import annotations

import msgspec

from segue.core.checks import CHECKS
from segue.core.outcome import Failure
from segue.core.situation import RUNGS, Situation
from segue.core.turn import Check, Mode


class Rung(msgspec.Struct, frozen=True):
    """One rung as ``segue why`` shows it: open, barred by checks, or not possible at all."""

    mode: Mode
    state: str
    """``open``, ``barred`` or ``impossible``."""
    why: str = ""


class Decision(msgspec.Struct, frozen=True):
    mode: Mode
    checks: tuple[Check, ...]
    rungs: tuple[Rung, ...]

    def failed(self, *names: str) -> bool:
        return any(check.verdict == "fail" for check in self.checks if check.check in names)


def decide(now: Situation) -> Decision:
    """Pure: the same situation always gives the same decision."""
    checks = tuple(check(now) for check in CHECKS)
    rungs = tuple(_rung(mode, checks, now) for mode in RUNGS)
    mode = next(rung.mode for rung in rungs if rung.state == "open")
    return Decision(mode, checks, rungs)


def step_down(mode: Mode, failure: Failure, tools_run: int | None, now: Situation) -> Mode | None:
    """The rung for a second attempt, or None: then the failure stands. Never after a tool ran, or may have.

    ``fresh`` only where nothing was said before: rather fail than lose context without a word.
    """
    on_session = mode in ("resume", "branch", "graft")
    refused = failure.kind == "session_rejected" and on_session
    full = failure.kind == "context_exceeded" and (on_session or mode == "replay")
    if tools_run != 0 or not (refused or full):
        return None
    if now.earlier == 0:
        return "fresh"
    below = [rung for rung in decide(now).rungs if RUNGS.index(rung.mode) > RUNGS.index(mode)]
    return next((r.mode for r in below if r.mode in ("replay", "recap") and r.state == "open"), None)


def _rung(mode: Mode, checks: tuple[Check, ...], now: Situation) -> Rung:
    impossible = _impossible(mode, now)
    barring = [check for check in checks if mode in check.bars]
    if mode != "fresh" and barring:
        return Rung(mode, "barred", barring[0].detail)
    return Rung(mode, "impossible", impossible) if impossible else Rung(mode, "open")


def _impossible(mode: Mode, now: Situation) -> str:
    match mode:
        case "resume" | "branch" if now.pin is None or now.cut.anchor is None:
            return "there is no session to go on from"
        case "graft":
            return "off" if now.policy.graft == "off" else "no writer for this is known yet"
        case "replay" | "recap" if now.earlier == 0:
            return "nothing was said before"
    return ""
