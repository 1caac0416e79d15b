"""Turns a decision into a plan: what is sent, and how the CLI is started on which session."""

from __future__ import annotations

from pathlib import Path

import msgspec

from segue.agents.base import CutRequest
from segue.core.ladder import Decision
from segue.core.model import Attached
from segue.core.request import Command, Request, RunPlace, Start
from segue.core.situation import tokens_of
from segue.core.turn import Mode, RungShown, Sent
from segue.core.usage import Totals
from segue.core.verdicts import NOTHING, Said, listed, reason_of, say
from segue.store.store import Store
from segue.system import clock
from segue.turns import forecast
from segue.turns.composer import LOST, NATIVE, Composer
from segue.turns.gate import Admission
from segue.turns.left_session import can_carry
from segue.turns.request import NONE, too_long
from segue.turns.run_dir import Plan
from segue.turns.situation import Gathered

INSTEAD: dict[Mode, Said] = {
    "replay": say("sent the conversation as text instead", "notice.replayed"),
    "recap": say("sent a bounded part of the conversation instead", "notice.recapped"),
}
ZERO = Totals(cost_usd=0.0)
"""A session that was copied or begun starts to count at zero."""


class NoPlace(Exception):  # noqa: N818 - it is an answer, not an error
    """The session cannot be cut at the anchor."""


class TooLong(Exception):  # noqa: N818 - it is an answer, not an error
    """The prompt is longer than the CLI accepts."""


class Planner:
    """Makes the plans of one turn; holds what is the same for all its attempts."""

    def __init__(self, admission: Admission, store: Store, gathered: Gathered, decision: Decision) -> None:
        self.admission, self.prepared = admission, admission.prepared
        self.store, self.gathered, self.decision = store, gathered, decision
        self.situation = gathered.situation
        self.outlook = forecast.forecast(gathered, self.prepared)

    def plan(self, mode: Mode, seq: int, home: Path, refused: str | None = None) -> tuple[Plan, Command]:
        """The plan of an attempt, and the command that it runs. Raises ``NoPlace`` and ``TooLong``.

        ``refused``: why the previous attempt was refused.
        """
        prepared, gathered = self.prepared, self.gathered
        composer = Composer(self.admission, self.store, gathered, self.decision, mode, refused)
        composed = composer.compose()
        if mode != "fresh" and too_long(composed.request.prompt, prepared.runtime.capabilities):
            raise TooLong
        start, base = self._start(mode, home, composed.request)
        request = msgspec.structs.replace(composed.request, start=start)
        if composed.attachments:
            request = self._with_copies(request, composed.attachments, seq)
        cut, native, flow = self.situation.cut, mode in NATIVE, prepared.ask.flow
        bare = self._bare(
            mode, seq, home, request, forecast.shown_rungs(self.decision, mode, self.outlook, refused)
        )
        place = RunPlace(bare.run_dir, home, bare.started_ms)
        command = prepared.agent.command(request, prepared.runtime, place)
        plan = msgspec.structs.replace(
            bare,
            parent=flow.parent if flow is not None else None,
            came_by=flow.came_by if flow is not None else "escalation",
            pays=self.situation.pays,
            paid=self.situation.paid,
            limits=self.situation.limits,
            base=base,
            kept_rows=cut.rows if native else 0,
            text=composer.text(),
            corrections=composer.corrections,
            anchor=cut.anchor if mode == "branch" else None,
            instructions=composed.instructions,
            sent=Sent(cut.kept if native else 0, composed.text_messages, len(request.prompt.encode())),
            offers=command.offers,
            notices=(
                *self._notices(mode),
                *self._unasked(mode, request),
                *composed.notices,
                *command.notices,
            ),
        )
        return plan, command

    def _bare(self, mode: Mode, seq: int, home: Path, request: Request, rungs: tuple[RungShown, ...]) -> Plan:
        """The plan without what is carried: who runs where, for whom, and at what cost."""
        prepared, outlook, pin = self.prepared, self.outlook, self.gathered.pin
        return Plan(
            turn=prepared.run,
            attempt=self._attempt(seq),
            seq=seq,
            conversation=prepared.conversation.id,
            key=prepared.conversation.key,
            message=self.gathered.view[-1].id,
            voice=prepared.voice,
            account=prepared.account_name,
            model=prepared.request.model,
            mode=mode,
            checks=(*self.decision.checks, *filter(None, (self.admission.check,))),
            runtime=prepared.runtime,
            request=request,
            workdir=self.situation.workdir,
            named=prepared.named,
            home=home,
            run_dir=self._run_dir(seq),
            host=prepared.host.name,
            host_id=prepared.host.id,
            login=prepared.login,
            transport=prepared.transport,
            started_ms=clock.now_ms(),
            time_s=prepared.ask.timeout_s or prepared.config.defaults.timeout,
            pin=msgspec.structs.replace(pin, held=()) if pin is not None else None,
            text=(),
            under=self.gathered.under,
            epoch=self.gathered.epoch,
            terms=prepared.terms(request),
            grant=prepared.granted.grant,
            replay_tokens=tokens_of(self.situation.view_bytes),
            overhead=outlook.habits.overhead if outlook.overhead is None else outlook.overhead,
            overhead_warm=outlook.overhead_warm,
            predicted_usd=next((rung.usd for rung in rungs if rung.mode == mode), None),
            rungs=rungs,
        )

    def _with_copies(self, request: Request, attachments: tuple[Attached, ...], seq: int) -> Request:
        """The request with the attachments as files in the run's directory."""
        from segue.turns.attachments import write_copies

        return msgspec.structs.replace(
            request, attachments=write_copies(self.store, attachments, self._run_dir(seq))
        )

    def _attempt(self, seq: int) -> str:
        return self.prepared.run if seq == 1 else f"{self.prepared.run}.{seq}"

    def _run_dir(self, seq: int) -> Path:
        home = self.prepared.segue_home
        return home.make(home.runs) / self._attempt(seq)

    def _start(self, mode: Mode, home: Path, request: Request) -> tuple[Start, Totals]:
        prepared, pin, stored = self.prepared, self.gathered.pin, self.gathered.found
        session_format = prepared.agent.format
        if mode not in NATIVE or pin is None:
            chosen = prepared.runtime.capabilities.choose_id and prepared.ask.save
            return Start("fresh", new_id=clock.new_uuid() if chosen else None), ZERO
        if home != prepared.home and session_format is not None:  # a private home has a copy of the session
            stored = session_format.find(home, pin.native_id, request.cwd) or stored
        if mode == "resume":
            if session_format is not None and stored is not None:
                session_format.make_resumable(stored, prepared.runtime)
            return Start("resume", pin.native_id), pin.totals
        anchor = self.situation.cut.anchor
        if session_format is None or stored is None or anchor is None:
            raise NoPlace
        wanted = CutRequest(
            anchor=anchor, new_id=clock.new_uuid(), home=home, request=request, runtime=prepared.runtime
        )
        start = session_format.cut(stored, wanted)
        if start is None:
            raise NoPlace
        return start, pin.totals if start.mode == "branch" else ZERO

    def _notices(self, mode: Mode) -> tuple[Said, ...]:
        """What the user should know besides the mode: what could not be used, and why."""
        failed = {c.check: reason_of(c) for c in self.decision.checks if c.verdict == "fail" and c.detail}
        if mode in NATIVE:
            grown = "end" in failed and self.gathered.pin is not None and self.gathered.pin.ended is None
            told = [failed["pressure"]] if "pressure" in failed else []
            left = say("continued from where Segue left it", "notice.left_off")
            told += [listed((failed["end"], left), "; ")] if grown else []
            return tuple(told)
        if mode == "fresh" and self.situation.earlier and self.situation.blank is None:
            if self.situation.full:
                return self._begun_anew()
            why = next(Said(rung.why, rung.clauses) for rung in self.decision.rungs if rung.mode == "recap")
            nothing = say("nothing of the conversation was carried over", "notice.nothing_carried")
            return (listed((nothing, why), ": "),)
        if mode == "fresh":
            return (self._left_behind(failed["account"]),) if "account" in failed else ()
        how = INSTEAD.get(mode, NOTHING)
        lost = (c for c in self.decision.checks if c.check in (*LOST, "pressure") and "resume" in c.bars)
        notices = [listed((reason_of(check), how), "; ") for check in lost]
        if "size" in failed and self.gathered.pin is not None:
            command = f"segue sessions repair {self.gathered.pin.native_id[:8]} --trim"
            notices.append(say(f"to make a smaller copy of it: {command}", "notice.trim", command=command))
        return tuple(notices)

    def _begun_anew(self) -> tuple[Said, ...]:
        """Why the session of a flow's role is not continued."""
        barred = (c for c in self.decision.checks if c.verdict == "fail" and "resume" in c.bars)
        why = next((reason_of(check) for check in barred if check.detail), None)
        briefed = say("sent the whole prompt instead", "notice.briefed")
        return (listed((why, briefed), "; "),) if why is not None else ()

    def _left_behind(self, why: Said) -> Said:
        """What is not carried over; and how it could be, if no rule forbids it."""
        prepared, agent, account = self.prepared, self.prepared.voice.agent, self.prepared.account_name
        bound = {"agent": agent, "account": account, "role": prepared.role}
        then = msgspec.structs.replace(prepared.conversation, **bound)
        to = (agent, account, prepared.login)
        if not self.situation.hidden or not can_carry(self.store, then, prepared.config, to):
            return why
        account = account or NONE
        command = f"segue account switch {prepared.ask.conversation} {account} --carry"
        return listed((why, say(f"to do that: {command}", "notice.carry", command=command)), "; ")

    def _unasked(self, mode: Mode, request: Request) -> tuple[Said, ...]:
        """The notice that ``--questions`` has no effect: a session keeps the setting that it began with."""
        wanted, has = self.prepared.ask.questions, "on" if request.questions else "off"
        if mode not in NATIVE or wanted in (None, "auto", has):
            return ()
        kept = f"questions stay {has} in this session, as when it started"
        text = f"{kept}; only a new session (--fresh-session) can change this"
        return (say(text, "notice.questions_on" if request.questions else "notice.questions_off"),)
