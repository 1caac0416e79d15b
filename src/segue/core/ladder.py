"""The decision: which mode a turn takes.

Every check is evaluated and recorded; a failed check rules out modes. The turn takes the first mode of the
ladder ``resume > branch > graft > replay > recap > fresh`` that is possible and that no check rules out.
"""

from __future__ import annotations

import msgspec

from segue.core.checks import CHECKS
from segue.core.outcome import Failure
from segue.core.situation import RUNGS, Situation
from segue.core.turn import Check, Clause, Mode
from segue.core.verdicts import Said, say


class Rung(msgspec.Struct, frozen=True):
    """One rung of the ladder as ``segue why`` shows it: open, ruled out by a check, or not possible."""

    mode: Mode
    state: str
    """``open``, ``barred`` (a check rules it out) or ``impossible``."""
    why: str = ""
    clauses: tuple[Clause, ...] = ()
    """``why`` as data."""


class Decision(msgspec.Struct, frozen=True):
    mode: Mode
    checks: tuple[Check, ...]
    rungs: tuple[Rung, ...]

    def failed(self, *names: str) -> bool:
        return any(check.verdict == "fail" for check in self.checks if check.check in names)


def decide(now: Situation) -> Decision:
    """Evaluate every check and take the first open mode. The same situation gives the same decision."""
    checks = tuple(check(now) for check in CHECKS)
    rungs = tuple(_rung(mode, checks, now) for mode in RUNGS)
    mode = next(rung.mode for rung in rungs if rung.state == "open")
    return Decision(mode, checks, rungs)


def step_down(mode: Mode, failure: Failure, tools_run: int | None, now: Situation) -> Mode | None:
    """The mode for a second attempt, or None: the failure is final. Never after a tool ran, or may have.

    ``fresh`` only if nothing was said before, or if the whole prompt is given: it is better to fail than to
    lose context silently.
    """
    on_session = mode in ("resume", "branch", "graft")
    refused = failure.kind == "session_rejected" and on_session
    full = failure.kind == "context_exceeded" and (on_session or mode == "replay")
    if tools_run != 0 or not (refused or full):
        return None
    if now.earlier == 0 or now.full:
        return "fresh"
    below = [rung for rung in decide(now).rungs if RUNGS.index(rung.mode) > RUNGS.index(mode)]
    return next((r.mode for r in below if r.mode in ("replay", "recap") and r.state == "open"), None)


def _rung(mode: Mode, checks: tuple[Check, ...], now: Situation) -> Rung:
    impossible = _impossible(mode, now)
    against = [check for check in checks if mode in check.bars]
    if mode != "fresh" and against:
        return Rung(mode, "barred", against[0].detail, against[0].clauses)
    if impossible is None:
        return Rung(mode, "open")
    return Rung(mode, "impossible", impossible.text, impossible.clauses)


def _impossible(mode: Mode, now: Situation) -> Said | None:
    match mode:
        case "resume" | "branch" if now.pin is None or now.cut.anchor is None:
            return say("there is no session to continue", "rung.no_session")
        case "graft" | "replay" | "recap" if now.full:
            return say("the flow gives the whole prompt instead", "rung.flow")
        case "graft":
            off = now.policy.graft == "off"
            return say("off", "rung.off") if off else say("not available yet", "rung.not_yet")
        case "replay" | "recap" if now.earlier == 0:
            return say("nothing was said before", "rung.nothing")
        case "replay" if now.carried_only:
            return say("all that is known here was carried over from another account", "rung.carried")
    return None
