"""The review flow: the coder works, Segue runs the checks, the reviewer judges; until it approves, or until
it makes no sense to go on.

What a round decides comes from recorded steps alone, so the flow can be entered again at any time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from segue.core.errors import Misuse
from segue.core.turn import Turn
from segue.core.usage import count_in_words
from segue.flows.answer_block import Unreadable, without_form
from segue.flows.commands import CheckResult, run_check
from segue.flows.context import Flow, FlowEnd
from segue.flows.definition import flow
from segue.flows.review import prompts
from segue.flows.review.diff import REMOVED, Base, difference, first_look, look, named
from segue.flows.review.findings import Findings, Mark, mark, merged, stalled
from segue.flows.review.orders import ReviewEnd, ReviewOrder, ReviewResult, review_order
from segue.flows.review.prompts import Place
from segue.flows.review.roles import Crew, Over, RoleName, note_of, settled
from segue.flows.review.verdict import Verdict, parse
from segue.system.named_files import read_unlinked

REJECTIONS = 2
"""After this many rejections in a row the coordinator is asked."""
NEW_TASK = "The task has changed since the last round."
STARTS_OVER = "The reviewer wants you to start over: you were on a wrong track."
GUIDED = "There is new guidance. Follow it."
GONE = (
    f"(What the files contained before is gone from the repository, {REMOVED}. So it is not known what has"
    " changed{since}. Read the files.)"
)


class Seen(msgspec.Struct, frozen=True):
    """A look of the reviewer's: what is new since its last one, and everything since the beginning."""

    tree: str
    new: str
    all: str
    unseen: tuple[str, ...] = ()
    """Repositories inside and unreadable files: their changes are in neither."""
    begins_anew: bool = False
    """The looks before it are gone from the repository: ``all`` begins with this one."""


@flow(version=1, name="review")
async def review(flow: Flow, **given: Any) -> FlowEnd:
    """``given``: the fields of a ``ReviewOrder``."""
    return await Review(flow, review_order(given)).run()


class Review:
    """One review, from its first round to its end."""

    def __init__(self, flow: Flow, order: ReviewOrder) -> None:
        self._flow, self._order, self._crew = flow, order, Crew(flow, order)
        self._place = Place(task=order.task, round=1, rounds=order.rounds, commands=order.checks)
        self._base = Base("")
        self._looked = ""
        self._anew = 0
        """The round of the last look that began anew; 0: none did."""
        self._marks: list[Mark] = []
        self._checked: tuple[CheckResult, ...] = ()
        """The results of the checks in the round before."""
        self._rejections = 0
        self._coder_anew: str | None = None
        """Why the coder begins a new session, if it does."""
        self._reviewer_anew: str | None = None

    async def run(self) -> FlowEnd:
        flow = self._flow
        found = await flow.step("base", first_look, flow.cwd, flow.git_home, flow.env)
        self._base = Base(found) if isinstance(found, str) else msgspec.convert(found, Base)
        self._looked = self._base.tree
        try:
            for n in range(1, self._order.rounds + 1):
                await flow.round(n)
                ended = await self._round(n)
                if ended is not None:
                    return ended
        except Over as over:
            return self._ended(over.end, over.reason, over.retryable)
        left = count_in_words(len(self._place.findings.open), "finding")
        within = count_in_words(self._order.rounds, "round")
        return self._ended("capped", f"not approved within {within}; {left} open")

    async def _round(self, n: int) -> FlowEnd | None:
        await self._task(n)
        self._place = msgspec.structs.replace(self._place, round=n)
        coded = await self._code(n)
        seen = await self._flow.step(f"look/{n}", self._look, self._looked, n, returns=Seen)
        if seen.begins_anew:
            self._base, self._anew = msgspec.structs.replace(self._base, tree=seen.tree), n
        self._checked = self._place.checks
        checks = [await self._check(n, at, each) for at, each in enumerate(self._order.checks, 1)]
        self._place = msgspec.structs.replace(self._place, checks=tuple(checks))
        verdict = await self._judge(n, coded, seen)
        self._looked = seen.tree
        findings = merged(self._place.findings, verdict)
        self._place = msgspec.structs.replace(self._place, findings=findings, notes=verdict.notes)
        await self._flow.artefact("findings.json", msgspec.json.encode(findings), "application/json")
        if verdict.verdict == "approve":
            return self._ended("approved", f"the reviewer approved in round {n}")
        self._marks.append(mark(seen.tree, findings))
        if stalled(self._marks, self._order.stalemate):
            return self._ended(
                "stalemate", f"nothing has changed for {count_in_words(self._order.stalemate, 'round')}"
            )
        await self._rejected(n, verdict, seen)
        return None

    async def _task(self, n: int) -> None:
        """Read the task again, if it is in a file."""
        if n == 1 or self._order.task_file is None:
            return
        read = await self._flow.step(f"task/{n}", _read, Path(self._order.task_file), returns=str)
        if read.strip() and read != self._place.task:
            self._place = msgspec.structs.replace(self._place, task=read)
            self._coder_anew = self._reviewer_anew = NEW_TASK

    async def _code(self, n: int) -> Turn:
        """The coder's turn; after an error of its own, once more in a new session."""
        place, crew = self._place, self._crew
        note, self._coder_anew = self._coder_anew, None
        full = prompts.coder_full(place, note or "")
        if note is not None:
            turn = await crew.first("coder", f"coder/{n}", place.task, full)
        else:
            delta = prompts.coder_delta(place, self._checked)
            turn = await crew.next("coder", f"coder/{n}", place.task, delta, full)
        if settled("coder", turn):
            return turn
        again = prompts.coder_full(place, note_of(turn))
        return _done("coder", await crew.first("coder", f"coder/{n}/again", place.task, again))

    async def _judge(self, n: int, coded: Turn, seen: Seen) -> Verdict:
        """The reviewer's verdict. One that cannot be read is asked for once more, as text."""
        place, crew = self._place, self._crew
        verdict = _verdict(await self._reviewed(n, coded, seen))
        if isinstance(verdict, Unreadable):
            full = prompts.reviewer_full(place, seen.all, coded.text, unseen=named(seen.unseen))
            text = prompts.verdict_again(verdict.reason)
            turn = await crew.more("reviewer", f"reviewer/{n}/verdict", place.task, text, full)
            verdict = _verdict(turn)
        if isinstance(verdict, Unreadable):
            raise Over("failed", f"the reviewer gave no verdict that can be read: {verdict.reason}")
        return verdict

    async def _reviewed(self, n: int, coded: Turn, seen: Seen) -> Turn:
        place, crew = self._place, self._crew
        note, self._reviewer_anew = self._reviewer_anew, None
        unseen = named(seen.unseen)
        full = prompts.reviewer_full(place, seen.all, coded.text, note or "", unseen)
        if note is not None:
            turn = await crew.first("reviewer", f"reviewer/{n}", place.task, full)
        else:
            delta = prompts.reviewer_delta(place, seen.new, coded.text, self._checked, unseen)
            turn = await crew.next("reviewer", f"reviewer/{n}", place.task, delta, full)
        if without_form(turn) or settled("reviewer", turn):
            return turn
        again = prompts.reviewer_full(place, seen.all, coded.text, note_of(turn), unseen)
        return await crew.first("reviewer", f"reviewer/{n}/again", place.task, again)

    async def _rejected(self, n: int, verdict: Verdict, seen: Seen) -> None:
        """What a rejection means for the next round."""
        self._rejections += 1
        if verdict.context_reset:
            self._coder_anew = STARTS_OVER
        if self._order.coordinator is None or self._rejections < REJECTIONS or n == self._order.rounds:
            return
        asked = prompts.coordinator_full(self._place, seen.all, self._rejections, named(seen.unseen))
        turn = await self._crew.first("coordinator", f"coordinator/{n}", self._place.task, asked)
        if settled("coordinator", turn) and turn.text.strip():
            self._rejections = 0
            self._place = msgspec.structs.replace(self._place, guidance=turn.text)
            self._coder_anew = f"{self._coder_anew} {GUIDED}" if self._coder_anew else GUIDED

    async def _check(self, n: int, at: int, command: str) -> CheckResult:
        flow, limit = self._flow, self._order.check_timeout_s
        args = (command, flow.cwd, flow.env, limit)
        return await flow.step(f"check/{n}/{at}", run_check, *args, returns=CheckResult)

    def _look(self, since: str, n: int) -> Seen:
        base, at = self._base, (self._flow.cwd, self._flow.git_home, self._flow.env)
        found = look(base, since, *at)
        new = GONE.format(since=" since the last look") if found.anew else found.diff
        if since == base.tree:
            whole = None if found.anew else found.diff
        else:
            whole = difference(base, base.tree, found.tree, *at)
        if whole is None:
            since_then = f" up to round {n}"
            return Seen(found.tree, new, GONE.format(since=since_then), found.unseen, begins_anew=True)
        if self._anew:
            since_then = f" up to round {self._anew}; the changes since then:"
            whole = f"{GONE.format(since=since_then)}\n{whole}"
        return Seen(found.tree, new, whole, found.unseen)

    def _ended(self, end: ReviewEnd, reason: str, retryable: bool = False) -> FlowEnd:
        findings: Findings = self._place.findings
        result = ReviewResult(
            reason=reason,
            retryable=retryable,
            notes=self._place.notes,
            findings=findings.known,
            outside=findings.outside,
            checks=self._place.checks,
        )
        return self._flow.end(end, result, failed=end == "failed")


def _verdict(turn: Turn) -> Verdict | Unreadable:
    """The verdict of a turn that must have ended well by now."""
    return without_form(turn) or parse(_done("reviewer", turn).text)


def _done(role: RoleName, turn: Turn) -> Turn:
    """A turn that must have ended well by now."""
    if settled(role, turn):
        return turn
    failure = turn.failure
    said = failure.message if failure is not None else ""
    raise Over("failed", f"the {role} failed twice: {said}", failure is not None and failure.retryable)


def _read(path: Path) -> str:
    """The task; empty if it cannot be read now. No link is followed: who works there could have made it."""
    try:
        return read_unlinked(path).decode(errors="replace") if path.is_absolute() else ""
    except (OSError, ValueError, Misuse):
        return ""
