"""How the model answers a request: by the scenario, the prompt's directives, recall, or a plain answer.

A turn's directives are carried out one after another. Each answer goes up to the next tool call. The number
of calls in the request since the turn's text says where to continue, so the script needs no memory of the
conversation. It only counts how often a turn was refused (`times N`) and how often a rule was met (`nth`).
"""

import re
from collections import Counter
from typing import Any

import msgspec
from msgspec import Struct

from segue.rehearsal import current_turn, side_requests, tool_calls
from segue.rehearsal import directives as d
from segue.rehearsal.current_turn import CurrentTurn, find_turn
from segue.rehearsal.scenario import Counting, Scenario, Tally
from segue.rehearsal.types import Action, Ask, Call, Fault, Hang, Limit, Part, Reply, Text, Thought, Tool
from segue.rehearsal.wire.common import compact

_CUT_OFF = "This answer is going to be cut off before it comes to its"
Move = Part | d.Slow | d.Together | d.Empty | d.ContextFull | d.Decline | d.Error | d.Broken | Limit


class Scene(Struct, frozen=True):
    """The action taken, and how the log names it."""

    action: Action
    name: str
    text: str
    side: bool = False


class Script:
    def __init__(self, scenario: Scenario | None = None, tally: Tally | None = None) -> None:
        self._rules = Counting(scenario or Scenario(), tally)
        self._refused: Counter[tuple[str, str, int]] = Counter()

    def clear(self) -> None:
        self._rules.clear()
        self._refused.clear()

    def act(self, ask: Ask) -> Scene:
        turn = find_turn(ask)
        side = side_requests.find_side(ask, turn)
        if side is not None:
            return Scene(Reply((Text(side.answer),)), f"side:{side.kind}", turn.text, side=True)
        text = self._rules.directives(ask, turn) or turn.text
        wanted = d.parse(text)
        action = self._carry_out(wanted, ask, turn) if wanted else _plain(ask, turn)
        return Scene(action, _name(action), turn.text)

    def _carry_out(self, wanted: tuple[d.Directive, ...], ask: Ask, turn: CurrentTurn) -> Action:
        moves = [move for directive in wanted for move in _moves(directive, ask, turn)]
        group = _group(moves, turn.tools_done)
        limits = _limits(group)
        for move in group:
            match move:
                case d.Error(status, retry_after, times) if self._still(times, ask, turn):
                    return Fault(status, retry_after=retry_after, limits=limits)
                case d.ContextFull(streamed):
                    return Fault(400, context=True, streamed=streamed)
                case d.Decline(prompt=True, streamed=streamed):
                    return Fault(400, declined=True, streamed=streamed)
                case d.Broken("hang"):
                    return Hang()
        return _reply(group)

    def _still(self, times: int | None, ask: Ask, turn: CurrentTurn) -> bool:
        if times is None:
            return True
        key = (ask.protocol, turn.text, turn.tools_done)
        self._refused[key] += 1
        return self._refused[key] <= times


def _moves(directive: d.Directive, ask: Ask, turn: CurrentTurn) -> list[Move]:
    """What a directive makes the model do. If the answer is to be given by a tool, JSON is given with it."""
    move = _move(directive, ask, turn)
    tool, value = _structured(ask), _value(move.text) if isinstance(move, Text) else None
    return [move] if tool is None or value is None else [move, Call(tool, value)]


def _structured(ask: Ask) -> Tool | None:
    """The tool by which an answer is given that must have a certain form."""
    return next((tool for tool in ask.tools if tool.name == "StructuredOutput"), None)


def _value(text: str) -> dict[str, Any] | None:
    """The JSON object that a text is, or ends with in a fenced block."""
    fenced = re.search(r"```json\n(.*?)\n```\s*$", text, re.S)
    try:
        return msgspec.json.decode(fenced[1] if fenced else text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None


def _move(directive: d.Directive, ask: Ask, turn: CurrentTurn) -> Move:
    match directive:
        case d.Say(text):
            return Text(text)
        case d.Think(text):
            return Thought(text)
        case d.Result():
            return Text(turn.results[-1].text if turn.results else "No tool has run.")
        case d.Recall(pattern):
            return Text(current_turn.latest_number(turn.before, pattern))
        case d.UseTool() | d.Shell() | d.Read() | d.Write() | d.AskUser():
            return tool_calls.call_part(directive, ask.tools)
        case _:
            return directive


def _group(moves: list[Move], done: int) -> list[Move]:
    """The moves of this answer: those after the calls already made, up to and including the next call, or as
    many calls as are made together."""
    group: list[Move] = []
    calls = 1
    for move in moves:
        is_call = isinstance(move, Call)
        if isinstance(move, d.Together):
            calls = move.calls if done == 0 else calls
        elif done == 0:
            group.append(move)
            calls -= is_call
            if is_call and calls <= 0:
                break
        elif is_call:
            done -= 1
    return group


def _reply(group: list[Move]) -> Reply:
    parts: list[Part] = []
    slow = next((move for move in group if isinstance(move, d.Slow)), None)
    broken = next((move.how for move in group if isinstance(move, d.Broken) and move.how != "hang"), None)
    for move in group:
        if isinstance(move, Text) and parts and isinstance(parts[-1], Text):
            parts[-1] = Text(f"{parts[-1].text}\n{move.text}")
        elif isinstance(move, Text | Thought | Call):
            parts.append(move)
    spoken = any(isinstance(part, Text | Call) for part in parts)
    if broken and not spoken:
        parts.append(Text(_CUT_OFF))
    elif not spoken and not any(isinstance(move, d.Empty | d.Decline) for move in group):
        parts.append(Text("Done."))
    return Reply(
        tuple(parts),
        seconds=slow.seconds if slow else 0.0,
        pieces=slow.pieces if slow else None,
        ending=broken or "whole",
        declined=any(isinstance(move, d.Decline) for move in group),
        limits=_limits(group),
    )


def _limits(group: list[Move]) -> tuple[Limit, ...]:
    return tuple(move for move in group if isinstance(move, Limit))


def _plain(ask: Ask, turn: CurrentTurn) -> Reply:
    if turn.tools_done:
        return Reply((Text("Done."),))
    answer = current_turn.recalled_answer(turn)
    structured = _structured(ask)
    if structured is not None:
        return Reply((Call(structured, side_requests.sample({"properties": structured.properties})),))
    if answer is None and ask.schema is not None:
        answer = compact(side_requests.sample(ask.schema))
    return Reply((Text(answer or "Understood."),))


def _name(action: Action) -> str:
    match action:
        case Fault(declined=True) | Reply(declined=True):
            return "decline"
        case Fault(status, context):
            return "context-full" if context else f"error:{status}"
        case Hang():
            return "hang"
        case Reply(parts, ending=ending):
            calls = [part.tool.name for part in parts if isinstance(part, Call)]
            if ending != "whole":
                return ending
            return f"tool:{calls[0]}" if calls else "say" if parts else "empty"
