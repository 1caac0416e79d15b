"""The rehearsal agent's turn: ask the model, run its tool calls, ask again, until it has answered.

The model is the loopback model's own script, called in-process: it knows only what the session and the prompt
contain, and obeys the same directives. Each turn is a separate process, so the counts of how often a
scenario's rules were met are kept in a file.
"""

from __future__ import annotations

import fcntl
import hashlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from segue.core.outcome import by_status
from segue.core.usage import Usage
from segue.rehearsal import scenario
from segue.rehearsal.agent import tools
from segue.rehearsal.agent.store import Message, Session, new_id, now_ms
from segue.rehearsal.agent.tools import WINDOW, Meter
from segue.rehearsal.scenario import Tally
from segue.rehearsal.script import Script
from segue.rehearsal.types import Action, Ask, Call, Fault, Hang, Part, Prompt, Reply, Text, Thought, slices

RETRIES = 2
RETRY_SECONDS = 0.05
PASSING = frozenset({429, 500, 502, 503, 504, 529})
"""Statuses that are retried at once."""
HANG_SECONDS = 3600

Print = Callable[[dict[str, Any]], None]
Answers = Callable[[str], dict[str, Any] | None]


class Stopped(Exception):  # noqa: N818 - a way for a turn to end, not an error of ours
    """The turn cannot continue; ``fields`` are those of the final record's error."""

    def __init__(self, kind: str, message: str, **fields: Any) -> None:
        super().__init__(message)
        self.error = {"kind": kind, "message": message} | fields


class Settings(Struct, frozen=True):
    rules: tools.Rules
    cwd: Path
    model: str
    max_turns: int


class AgentTurn:
    """Works on one prompt until there is an answer. ``answers`` waits for the user; None if there is none."""

    def __init__(
        self, session: Session, settings: Settings, emit: Print, answers: Answers | None, script: Script
    ) -> None:
        self.session = session
        self.meter = Meter(session)
        self._settings = settings
        self._emit = emit
        self._answers = answers
        self._script = script
        self._tools = (*tools.TOOLS, tools.ASK) if answers else tools.TOOLS

    def run(self, prompt: str) -> Message | None:
        """The message with the answer; ``None`` if the model said nothing."""
        self._add("text", "user", prompt)
        for _ in range(self._settings.max_turns):
            calls, answer = self._take(self._reply())
            if not calls:
                return answer
            named = [(f"call-{new_id()[:8]}", call) for call in calls]
            asked = self._ask_permission(named)
            for call_id, call in named:
                self._call(call_id, call, call_id in asked)
        raise Stopped("timeout", f"stopped at the limit of {self._settings.max_turns} turns")

    def _reply(self) -> Reply:
        """The model's answer to the session as it is now. Temporary failures are retried."""
        attempt = 0
        while isinstance(action := self._act(), Fault):
            attempt += 1
            self._tell_limits(action)
            if attempt > RETRIES or action.retry_after or action.status not in PASSING:
                raise _refused(action)
            retry = {"attempt": attempt, "limit": RETRIES, "delay_ms": round(RETRY_SECONDS * 1000)}
            self._emit({"type": "retry", **retry, "message": f"the model answered {action.status}"})
            time.sleep(RETRY_SECONDS)
        self._tell_limits(action)
        return action

    def _tell_limits(self, action: Reply | Fault) -> None:
        for each in action.limits:
            resets_at = each.resets_s(now_ms() / 1000) * 1000
            self._emit({"type": "limit", "window": each.window, "used": each.used, "resets_at": resets_at})

    def _act(self) -> Reply | Fault:
        if self.meter.prompt > WINDOW:
            return Fault(400, context=True)
        action: Action = self._script.act(self._ask()).action
        if isinstance(action, Hang):
            time.sleep(HANG_SECONDS)
            raise Stopped("network", "the model did not answer")
        return action

    def _ask(self) -> Ask:
        items = tuple(message.item for message in self.session.messages)
        return Ask(
            protocol="chat",
            model=self._settings.model,
            stream=True,
            system=self.session.header.system,
            tools=self._tools,
            items=items,
            prompt=Prompt(()),
            messages=len(items),
        )

    def _take(self, reply: Reply) -> tuple[list[Call], Message | None]:
        """Print what the model said, and count it."""
        for part in reply.parts:
            self._say(part, reply)
        if reply.ending == "dropped":
            raise Stopped("network", "the connection to the model broke in the middle of its answer")
        if reply.ending in ("malformed", "garbage"):
            sys.stdout.buffer.write(b'{"type": "text", "te\n')
            raise Stopped("model_error", "the model's answer could not be read")
        self._count(self.meter.count(_said(reply.parts)))
        if reply.declined:
            raise Stopped("refused", "the model service stopped the answer because of its content")
        texts = [part.text for part in reply.parts if isinstance(part, Text)]
        calls = [part for part in reply.parts if isinstance(part, Call)]
        answer = self._add("text", "assistant", "\n".join(texts), last=not calls) if texts else None
        return calls, answer

    def _say(self, part: Part, reply: Reply) -> None:
        if isinstance(part, Thought):
            self._emit({"type": "thinking", "text": part.text})
        elif isinstance(part, Text):
            for piece in _paced(part.text, reply):
                self._emit({"type": "delta", "text": piece})
            if reply.ending == "whole":
                self._emit({"type": "text", "text": part.text})

    def _count(self, usage: Usage) -> None:
        self._emit({"type": "usage", "model": self._settings.model, "usage": msgspec.to_builtins(usage)})

    def _ask_permission(self, calls: Sequence[tuple[str, Call]]) -> set[str]:
        """Ask for all calls of a reply at once, if somebody can answer. Returns those that were asked for."""
        rules, asked = self._settings.rules, set()
        for call_id, call in calls:
            if self._answers is not None and rules.asks(call.tool.name):
                asked.add(call_id)
                self._emit(
                    {"type": "permission", "id": call_id, "name": call.tool.name, "input": call.arguments}
                )
        return asked

    def _call(self, call_id: str, call: Call, asked: bool = False) -> None:
        name, given = call.tool.name, call.arguments
        self._add("call", "assistant", msgspec.json.encode({"name": name, "input": given}).decode(), call_id)
        if name == tools.ASK.name and self._answers is not None and isinstance(given, dict):
            self._add("result", "user", self._question(call_id, given, self._answers), call_id)
            return
        self._emit({"type": "tool_call", "id": call_id, "name": name, "input": given})
        done = self._run_asked(call_id, call) if asked else self._run_tool(call, self._settings.rules)
        self._add("result", "user", done.output, call_id)
        self._emit({"type": "tool_result", "id": call_id, "name": name, **msgspec.to_builtins(done)})

    def _run_asked(self, call_id: str, call: Call) -> tools.Done:
        """Run a call if the user allows it."""
        answer = self._answers(call_id) if self._answers is not None else None
        if answer is None or not answer.get("allow"):
            why = "nobody answered" if answer is None else answer.get("message") or "no reason given"
            return tools.Done(False, f"{call.tool.name} was refused: {why}", denied=True)
        rules = self._settings.rules
        return self._run_tool(call, msgspec.structs.replace(rules, allow=rules.allow | {call.tool.name}))

    def _run_tool(self, call: Call, rules: tools.Rules) -> tools.Done:
        return tools.run_tool(call.tool.name, call.arguments, rules, self._settings.cwd)

    def _question(self, call_id: str, given: dict[str, Any], answers: Answers) -> str:
        self._emit({"type": "question", "id": call_id, "questions": given.get("questions")})
        answer = answers(call_id)
        if answer is None:
            return "Nobody answered."
        if not answer.get("allow"):
            return f"Refused: {answer.get('message') or 'no answer'}"
        return ", ".join(map(str, (answer.get("answers") or {}).values())) or "An empty answer."

    def _add(self, kind: Any, role: Any, text: str, call_id: str = "", last: bool = False) -> Message:
        return self.session.add(Message(new_id(), kind, role, text, call_id, now_ms(), last))


def _paced(text: str, reply: Reply) -> Iterator[str]:
    pieces = slices(text, reply.pieces)
    for piece in pieces:
        time.sleep(reply.seconds / len(pieces))
        yield piece


def _said(parts: tuple[Part, ...]) -> Iterator[str]:
    for part in parts:
        yield part.text if isinstance(part, Text | Thought) else msgspec.json.encode(part.arguments).decode()


def _refused(fault: Fault) -> Stopped:
    if fault.context:
        message = f"the conversation does not fit the window of {WINDOW} tokens"
        return Stopped("context_exceeded", message, status=fault.status)
    if fault.declined:
        return Stopped("refused", "the model service declined the message", status=fault.status)
    until = now_ms() + round(fault.retry_after * 1000) if fault.retry_after else None
    kind = by_status(fault.status) or "model_error"
    return Stopped(kind, f"the model answered {fault.status}", status=fault.status, until=until)


def load_script(file: Path, home: Path) -> Script:
    """The script for a scenario. Raises `ValueError` if the scenario is invalid."""
    rules = scenario.load(file)
    name = hashlib.sha256(msgspec.json.encode(rules)).hexdigest()[:16]
    return Script(rules, FiledTally(home / f"scenario-{name}.json"))


class FiledTally(Tally):
    """Counts across all turns of one home, including concurrent ones."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def meet(self, rules: Sequence[int]) -> Mapping[int, int]:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            self._met = Counter(msgspec.json.decode(file.read() or b"{}", type=dict[int, int]))
            met = super().meet(rules)
            file.truncate(0)
            file.write(msgspec.json.encode(dict(met)))
        return met
