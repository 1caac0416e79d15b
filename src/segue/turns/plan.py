"""Makes a plan of a decision: what is sent, and how the CLI is started on which session."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.base import CutRequest
from segue.core.forecast import predict
from segue.core.ladder import Decision
from segue.core.model import Instructions, Message, Pin, Voice
from segue.core.prompt import Carry, compose, instructions_due, route
from segue.core.prompt_messages import MessageText, ToolShown, Unanswered, speaker_name
from segue.core.request import Command, Request, RunPlace, Start
from segue.core.situation import tokens_of
from segue.core.turn import Mode, Sent
from segue.core.usage import Totals
from segue.store.records import telling
from segue.store.store import Store
from segue.system import clock
from segue.turns import forecast
from segue.turns.prepare import Prepared
from segue.turns.request import too_long
from segue.turns.result import UNKNOWN_PLACE
from segue.turns.run_dir import Plan
from segue.turns.situation import Gathered, going_on


def load_texts(store: Store, messages: Sequence[Message]) -> dict[str, MessageText]:
    """By message id. Tools are looked up only for answers, and only where there is more than one message."""
    if not messages:
        return {}
    texts = store.texts([message.id for message in messages])
    if len(messages) == 1:
        (only,) = messages
        return {only.id: MessageText(only, texts[only.id])}
    answers = [message.id for message in messages if message.sender == "assistant"]
    tools = {message: tuple(_tools(rows)) for message, rows in store.tool_events(answers).items()}
    failed = _failed(store, [each for at, each in enumerate(messages) if _is_unanswered(messages, at)])
    return {
        each.id: MessageText(each, texts[each.id], *failed[each.id])
        if each.id in failed
        else MessageText(each, texts[each.id], tools.get(each.id, ()))
        for each in messages
    }


def _is_unanswered(messages: Sequence[Message], at: int) -> bool:
    """A user message got an answer if one follows it; the last is only just being asked."""
    last = at == len(messages) - 1
    return not last and messages[at].sender == "user" and messages[at + 1].sender == "user"


def _failed(store: Store, messages: Sequence[Message]) -> dict[str, tuple[tuple[ToolShown, ...], Unanswered]]:
    """What was done for messages that have no answer, and why they have none."""
    found: dict[str, tuple[tuple[ToolShown, ...], Unanswered]] = {}
    runs = store.runs_of([message.id for message in messages])
    for message in messages:
        begun = telling([run for run in runs.get(message.id, ()) if run.state != "withdrawn"])
        told = begun.told if begun is not None else None
        kind = told.failure.kind if told is not None and told.failure is not None else ""
        done = told.tools_run if told is not None else 0
        events = store.events(begun.id) if begun is not None and done != 0 else []
        found[message.id] = (
            tuple(_tools((event for _, _, event in events), unfinished=True)),
            Unanswered(kind, done),
        )
    return found


def _tools(rows: Iterable[str], unfinished: bool = False) -> Iterable[ToolShown]:
    """The calls of a turn that were carried out, in order; or those that may have been, if it broke off."""
    calls: dict[str, dict[str, Any]] = {}
    for row in rows:
        event: dict[str, Any] = msgspec.json.decode(row)
        if event["type"] == "tool-call":
            calls[event["id"]] = event
        elif event["type"] == "tool-result":
            call = calls.pop(event["id"], {})
            if not event.get("denied"):
                name = event.get("name") or call.get("name", "a tool")
                yield ToolShown(name, _asked(call, unfinished) + event.get("output", ""))
    for call in calls.values() if unfinished else ():
        yield ToolShown(call["name"], _asked(call, True) + "(it was interrupted before it told a result)")


def _asked(call: dict[str, Any], shown: bool) -> str:
    """What a call was about. Of an answered turn the answer tells that."""
    given = call.get("input")
    return f"{msgspec.json.encode(given).decode()}\n" if shown and given else ""


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


class Planner:
    """Everything of one turn that does not change from attempt to attempt."""

    def __init__(self, prepared: Prepared, store: Store, gathered: Gathered, decision: Decision) -> None:
        self.prepared, self.store, self.gathered, self.decision = prepared, store, gathered, decision
        self.situation = gathered.situation
        self.outlook = forecast.forecast(gathered, prepared)

    def plan(self, mode: Mode, seq: int, home: Path, refused: str | None = None) -> tuple[Plan, Command]:
        """The plan of an attempt, and the command that it runs. Raises ``NoPlace`` and ``TooLong``.

        ``refused``: why the attempt before was turned away.
        """
        prepared, situation, native = self.prepared, self.situation, mode in NATIVE
        text = self._text(mode)
        request, instructed, told = self._request(mode, text, refused)
        if mode != "fresh" and too_long(request.prompt, prepared.runtime.capabilities):
            raise TooLong
        start, base = self._start(mode, home, request)
        request = msgspec.structs.replace(request, start=start)
        name = prepared.run if seq == 1 else f"{prepared.run}.{seq}"
        run_dir = prepared.segue_home.make(prepared.segue_home.runs) / name
        started_ms = clock.now_ms()
        command = prepared.agent.command(request, prepared.runtime, RunPlace(run_dir, home, started_ms))
        plan = Plan(
            turn=prepared.run,
            attempt=name,
            seq=seq,
            conversation=prepared.conversation.id,
            key=prepared.conversation.key,
            message=self.gathered.view[-1].id,
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
            under=self.gathered.under,
            instructions=instructed,
            epoch=self.gathered.epoch,
            sent=Sent(situation.cut.kept if native else 0, told, len(request.prompt.encode())),
            terms=prepared.terms(request),
            grant=prepared.granted.grant,
            offers=command.offers,
            notices=(*self._notices(mode), *self._unasked(mode, request)),
            replay_tokens=tokens_of(situation.view_bytes),
            overhead=self.outlook.overhead
            if self.outlook.overhead is not None
            else self.outlook.habits.overhead,
            overhead_warm=self.outlook.overhead_warm,
            predicted_usd=next((each.usd for each in predict(self.outlook) if each.mode == mode), None),
        )
        return plan, command

    def _text(self, mode: Mode) -> tuple[Message, ...]:
        if mode in NATIVE:
            return self.situation.cut.text
        return self.gathered.view if mode != "fresh" else self.gathered.view[-1:]

    def _request(
        self, mode: Mode, text: Sequence[Message], refused: str | None
    ) -> tuple[Request, Instructions | None, int]:
        """The request, the instructions that the session has then, and how many messages it has as text."""
        prepared, situation = self.prepared, self.situation
        native = mode in NATIVE
        wanted = prepared.instructions if prepared.instructions and prepared.instructions.strip() else None
        digest = _digest(wanted) if wanted else None
        pin = self.gathered.pin if native else None
        given = pin.instructions if pin is not None else None
        due = instructions_due(digest, given, situation.cut.rows, False) if native else wanted is not None
        placed = route(wanted if due else None, prepared.runtime.capabilities, fresh=not native)
        text = (*(self._unsure() if native else ()), *text)
        words = load_texts(self.store, text) | load_texts(
            self.store, situation.cut.corrections if native else ()
        )
        # A message that is run again after tools had run for it stands in the session already.
        new = words[text[-1].id] if text else MessageText(self.gathered.view[-1], GO_ON)
        last = self.gathered.pin.ended if self.gathered.pin is not None else None
        ended = last if native else None
        carried = compose(
            Carry(
                mode=mode,
                voice=prepared.voice,
                label=prepared.agent.facts.label,
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
                quiet_at=prepared.agent.facts.expands_at,
            )
        )
        if digest is not None and due:
            # a system prompt stays with the session whatever is cut off it: it counts as given at the start
            at = situation.cut.rows if native else 0
            given = Instructions(digest, -1 if placed.system_prompt is not None else at)
        same = going_on(prepared, self.gathered.pin) if native and self.gathered.pin else prepared.request
        request = msgspec.structs.replace(same, prompt=carried.prompt, system_prompt=placed.system_prompt)
        return request, given, carried.text_messages

    def _unsure(self) -> tuple[Message, ...]:
        """The message that the session was interrupted in, where nobody can see whether the CLI kept it."""
        pin, cut = self.gathered.pin, self.situation.cut
        if pin is None or pin.ended is None or pin.ended.tools_run is not None:
            return ()
        if cut.anchor is None or not cut.anchor.startswith(UNKNOWN_PLACE):
            return ()
        last = pin.held[cut.rows - 1].message
        return tuple(each for each in self.gathered.view if each.id == last and each.sender == "user")

    def _start(self, mode: Mode, home: Path, request: Request) -> tuple[Start, Totals]:
        prepared, pin, found = self.prepared, self.gathered.pin, self.gathered.found
        sessions = prepared.agent.format
        if mode not in NATIVE or pin is None:
            chosen = prepared.runtime.capabilities.choose_id and prepared.ask.save
            return Start("fresh", new_id=clock.new_uuid() if chosen else None), ZERO
        if home != prepared.home and sessions is not None:  # a private home has a copy of the session
            found = sessions.find(home, pin.native_id, request.cwd) or found
        if mode == "resume":
            if sessions is not None and found is not None:
                sessions.make_resumable(found, prepared.runtime)
            return Start("resume", pin.native_id), pin.totals
        anchor = self.situation.cut.anchor
        if sessions is None or found is None or anchor is None:
            raise NoPlace
        wanted = CutRequest(
            anchor=anchor, new_id=clock.new_uuid(), home=home, request=request, runtime=prepared.runtime
        )
        start = sessions.cut(found, wanted)
        if start is None:
            raise NoPlace
        return start, pin.totals if start.mode == "branch" else ZERO

    def _pin(self) -> Pin | None:
        pin = self.gathered.pin
        return msgspec.structs.replace(pin, held=()) if pin is not None else None

    def _lost(self, mode: Mode, refused: str | None) -> str | None:
        """The agent is told once that a session it would have had is gone."""
        if mode in NATIVE or mode == "fresh" or self.gathered.pin is None:
            return None
        if refused is not None:
            return refused
        why = [c.detail for c in self.decision.checks if c.check in LOST and "resume" in c.bars]
        return why[0] if why else None

    def _left(self, mode: Mode, text: Sequence[Message]) -> tuple[str, int | None] | None:
        """Who was interrupted before, where neither the session nor what is carried as text tells of it."""
        told, pin = self.gathered.interrupted, self.gathered.pin
        if told is None:
            return None
        voice = Voice(told.agent, told.role or "")
        ended = pin.ended if voice == self.prepared.voice and pin is not None else None
        if ended is not None and (ended.tools_run is None or (mode in NATIVE and ended.tools_run)):
            return None
        marked = {message.id for message in text[:-1]} if mode in (*NATIVE, "replay") else set()
        return None if told.message in marked else (speaker_name(voice), told.tools_run)

    def _notices(self, mode: Mode) -> tuple[str, ...]:
        """What the user should know beside the mode: what was left, and why."""
        failed = {c.check: c.detail for c in self.decision.checks if c.verdict == "fail" and c.detail}
        if mode in NATIVE:
            grown = "end" in failed and self.gathered.pin is not None and self.gathered.pin.ended is None
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
        if "size" in failed and self.gathered.pin is not None:
            name = self.gathered.pin.native_id[:8]
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
        pin = self.gathered.pin
        if pin is not None and (pin.ended is not None or pin.foreign is not None):
            return True
        return pin is not None and pin.asked


def _digest(text: str) -> str:
    from hashlib import sha256  # where there are no instructions nobody waits for it

    return sha256(text.encode()).hexdigest()[:16]
