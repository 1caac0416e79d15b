"""Makes a plan of a decision: what is sent, and how the CLI is started on which session."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import msgspec

from segue.core.compose import Carry, compose
from segue.core.instructions import instructions_due, place
from segue.core.ladder import Decision
from segue.core.model import Instructions, Message, Pin, Voice
from segue.core.predict import predict
from segue.core.request import Place, Request, Start
from segue.core.situation import tokens
from segue.core.spoken import Spoken, name
from segue.core.turn import Mode, Sent
from segue.core.usage import Totals
from segue.store.store import Store
from segue.turns import foresight
from segue.turns.asking import too_long
from segue.turns.plan import Plan
from segue.turns.prepared import Prepared
from segue.turns.settling import UNKNOWN_PLACE
from segue.turns.speaking import spoken
from segue.turns.survey import Surveyed, going_on

EXPANDS_AT = frozenset({"claude", "gemini", "vibe"})
"""Agents that take ``@word`` in a message for a file to read."""
LOST = ("file", "host", "runtime", "size", "retired", "poisoned", "workdir", "ttl", "fits")
"""Checks whose barring of a resume means that a session that was expected is not there any more."""
NATIVE = ("resume", "branch")
GO_ON = "Go on with what you were asked last."
INSTEAD = {
    "replay": "sent the conversation as text instead",
    "recap": "sent a bounded part of the conversation instead",
}
ZERO = Totals(cost_usd=0.0)
"""A copy that was written begins to count anew."""


class NoPlace(Exception):  # noqa: N818 - it is an answer, not an error
    """The session cannot be cut at the anchor."""


class TooLong(Exception):  # noqa: N818 - it is an answer, not an error
    """The prompt is longer than the CLI takes."""


class Carrying:
    """Everything of one turn that does not change from attempt to attempt."""

    def __init__(self, prepared: Prepared, store: Store, surveyed: Surveyed, decision: Decision) -> None:
        self.prepared, self.store, self.surveyed, self.decision = prepared, store, surveyed, decision
        self.situation = surveyed.situation
        self.outlook = foresight.outlook(surveyed, prepared)

    def plan(self, mode: Mode, seq: int, home: Path, refused: str | None = None) -> Plan:
        """``refused``: why the attempt before was turned away. Raises ``NoPlace`` and ``TooLong``."""
        prepared, situation, native = self.prepared, self.situation, mode in NATIVE
        text = self._text(mode)
        request, instructed, told = self._request(mode, text, refused)
        if mode != "fresh" and too_long(request.prompt, prepared.runtime.capabilities):
            raise TooLong
        start, base = self._start(mode, home, request)
        request = msgspec.structs.replace(request, start=start)
        name = prepared.run if seq == 1 else f"{prepared.run}.{seq}"
        run_dir = prepared.segue_home.make(prepared.segue_home.runs) / name
        started_ms = time.time_ns() // 1_000_000
        command = prepared.agent.command(request, prepared.runtime, Place(run_dir, home, started_ms))
        return Plan(
            turn=prepared.run,
            attempt=name,
            seq=seq,
            conversation=prepared.conversation.id,
            key=prepared.conversation.key,
            message=self.surveyed.view[-1].id,
            voice=prepared.voice,
            account=prepared.account_name,
            model=prepared.request.model,
            mode=mode,
            checks=self.decision.checks,
            runtime=prepared.runtime,
            request=request,
            workdir=situation.workdir,
            named=prepared.named,
            home=home,
            run_dir=run_dir,
            host=prepared.host.name,
            host_id=prepared.host.id,
            login=prepared.login,
            started_ms=started_ms,
            time_s=prepared.ask.timeout_s or prepared.config.defaults.timeout,
            base=base,
            pin=self._pin(),
            kept_rows=situation.cut.rows if native else 0,
            text=text,
            corrections=situation.cut.corrections if native else (),
            anchor=situation.cut.anchor if mode == "branch" else None,
            under=self.surveyed.under,
            standing=self.surveyed.standing,
            instructions=instructed,
            epoch=self.surveyed.epoch,
            sent=Sent(situation.cut.kept if native else 0, told, len(request.prompt.encode())),
            terms=prepared.terms(request),
            grant=prepared.granted.grant,
            offers=command.offers,
            notices=(*self._notices(mode), *self._unasked(mode, request)),
            replay_tokens=tokens(situation.view_bytes),
            overhead=self.outlook.overhead
            if self.outlook.overhead is not None
            else self.outlook.habits.overhead,
            overhead_warm=self.outlook.overhead_warm,
            predicted_usd=next((each.usd for each in predict(self.outlook) if each.mode == mode), None),
        )

    def _text(self, mode: Mode) -> tuple[Message, ...]:
        if mode in NATIVE:
            return self.situation.cut.text
        return self.surveyed.view if mode != "fresh" else self.surveyed.view[-1:]

    def _request(
        self, mode: Mode, text: Sequence[Message], refused: str | None
    ) -> tuple[Request, Instructions | None, int]:
        """The request, the instructions that the session has then, and how many messages it has as text."""
        prepared, situation = self.prepared, self.situation
        native = mode in NATIVE
        wanted = prepared.instructions if prepared.instructions and prepared.instructions.strip() else None
        digest = _digest(wanted) if wanted else None
        pin = self.surveyed.pin if native else None
        given = pin.instructions if pin is not None else None
        due = instructions_due(digest, given, situation.cut.rows, False) if native else wanted is not None
        placed = place(wanted if due else None, prepared.runtime.capabilities, fresh=not native)
        text = (*(self._unsure() if native else ()), *text)
        words = spoken(self.store, text) | spoken(self.store, situation.cut.corrections if native else ())
        # A message that is run again after tools had run for it stands in the session already.
        new = words[text[-1].id] if text else Spoken(self.surveyed.view[-1], GO_ON)
        last = self.surveyed.pin.ended if self.surveyed.pin is not None else None
        ended = last if native else None
        carried = compose(
            Carry(
                mode=mode,
                voice=prepared.voice,
                label=prepared.agent.label,
                new=new,
                earlier=tuple(words[each.id] for each in text[:-1]),
                corrections=tuple(words[each.id] for each in situation.cut.corrections) if native else (),
                instructions=placed.in_message,
                lost=self._lost(mode, refused),
                interrupted=ended.tools_run or None if ended is not None else None,
                left=self._left(mode, text),
                unsure=last is not None and last.tools_run is None,
                echo=native and self._echoes(),
                role=prepared.role or None,
                max_bytes=prepared.config.recap.max_bytes,
                limit=prepared.runtime.capabilities.prompt_limit,
                unit=prepared.runtime.capabilities.prompt_unit,
                quiet_at=prepared.agent.name in EXPANDS_AT,
            )
        )
        if digest is not None and due:
            # a system prompt stays with the session whatever is cut off it: it counts as given at the start
            at = situation.cut.rows if native else 0
            given = Instructions(digest, -1 if placed.system_prompt is not None else at)
        same = going_on(prepared, self.surveyed.pin) if native and self.surveyed.pin else prepared.request
        request = msgspec.structs.replace(same, prompt=carried.prompt, system_prompt=placed.system_prompt)
        return request, given, carried.text_messages

    def _unsure(self) -> tuple[Message, ...]:
        """The message that the session was interrupted in, where nobody can see whether the CLI kept it."""
        pin, cut = self.surveyed.pin, self.situation.cut
        if pin is None or pin.ended is None or pin.ended.tools_run is not None:
            return ()
        if cut.anchor is None or not cut.anchor.startswith(UNKNOWN_PLACE):
            return ()
        last = pin.held[cut.rows - 1].message
        return tuple(each for each in self.surveyed.view if each.id == last and each.sender == "user")

    def _start(self, mode: Mode, home: Path, request: Request) -> tuple[Start, Totals]:
        prepared, pin, found = self.prepared, self.surveyed.pin, self.surveyed.found
        sessions = prepared.agent.sessions
        if mode not in NATIVE or pin is None:
            chosen = prepared.runtime.capabilities.choose_id and prepared.ask.save
            return Start("fresh", new_id=str(uuid4()) if chosen else None), ZERO
        if home != prepared.home and sessions is not None:  # a private home has a copy of the session
            found = sessions.look(home, pin.native_id, request.cwd) or found
        if mode == "resume":
            if sessions is not None and found is not None:
                sessions.mend(found, pin.native_id, prepared.runtime)
            return Start("resume", pin.native_id), pin.totals
        anchor = self.situation.cut.anchor
        if sessions is None or found is None or anchor is None:
            raise NoPlace
        start = sessions.cut(found, pin.native_id, anchor, str(uuid4()), request, home, prepared.runtime)
        if start is None:
            raise NoPlace
        return start, pin.totals if start.mode == "branch" else ZERO

    def _pin(self) -> Pin | None:
        pin = self.surveyed.pin
        return msgspec.structs.replace(pin, held=()) if pin is not None else None

    def _lost(self, mode: Mode, refused: str | None) -> str | None:
        """The agent is told once that a session it would have had is gone."""
        if mode in NATIVE or mode == "fresh" or self.surveyed.pin is None:
            return None
        if refused is not None:
            return refused
        why = [c.detail for c in self.decision.checks if c.check in LOST and "resume" in c.bars]
        return why[0] if why else None

    def _left(self, mode: Mode, text: Sequence[Message]) -> tuple[str, int | None] | None:
        """Who was interrupted before, where neither the session nor what is carried as text tells of it."""
        told, pin = self.surveyed.interrupted, self.surveyed.pin
        if told is None:
            return None
        voice = Voice(told.agent, told.role or "")
        ended = pin.ended if voice == self.prepared.voice and pin is not None else None
        if ended is not None and (ended.tools_run is None or (mode in NATIVE and ended.tools_run)):
            return None
        marked = {message.id for message in text[:-1]} if mode in (*NATIVE, "replay") else set()
        return None if told.message in marked else (name(voice), told.tools_run)

    def _notices(self, mode: Mode) -> tuple[str, ...]:
        """What the user should know beside the mode: what was left, and why."""
        failed = {c.check: c.detail for c in self.decision.checks if c.verdict == "fail" and c.detail}
        if mode in NATIVE:
            grown = "end" in failed and self.surveyed.pin is not None and self.surveyed.pin.ended is None
            told = [failed["pressure"]] if "pressure" in failed else []
            return (*told, f"{failed['end']}; went on from where we left it") if grown else tuple(told)
        if mode == "fresh" and self.situation.earlier and self.situation.blank is None:
            why = next(rung.why for rung in self.decision.rungs if rung.mode == "recap")
            return (f"nothing of the conversation was carried over: {why}",)
        if mode == "fresh":
            return (failed["account"],) if "account" in failed else ()
        how = INSTEAD.get(mode, "")
        left = (c for c in self.decision.checks if c.check in (*LOST, "pressure") and "resume" in c.bars)
        said = [f"{check.detail}; {how}" for check in left]
        if "size" in failed and self.surveyed.pin is not None:
            name = self.surveyed.pin.native_id[:8]
            said.append(f"a smaller copy of it: segue sessions repair {name} --trim")
        return tuple(said)

    def _unasked(self, mode: Mode, request: Request) -> tuple[str, ...]:
        """A session keeps the tool that asks, or is without it, for as long as it lives."""
        wanted, has = self.prepared.ask.questions, "on" if request.questions else "off"
        if mode not in NATIVE or wanted in (None, "auto", has):
            return ()
        return (f"questions stay {has} in this session, as when it began; --fresh-session decides again",)

    def _echoes(self) -> bool:
        """After a question, a failure or a fork an agent may answer what it was asked before."""
        pin = self.surveyed.pin
        if pin is not None and (pin.ended is not None or pin.foreign is not None):
            return True
        return pin is not None and pin.asked


def _digest(text: str) -> str:
    from hashlib import sha256  # where there are no instructions nobody waits for it

    return sha256(text.encode()).hexdigest()[:16]
