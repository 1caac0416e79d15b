"""Reads the output of a declared agent as its declaration describes it, and concludes the run.

    text    every line is a part of the answer, unless a pattern selects a part of it
    jsonl   each line is a record; paths are looked up in the records that meet their conditions
    json    stdout is one document, which is read when it is complete

A tool's place contains its name, once for each call. An error's place *explains* a failure but never causes
one: the CLI also prints errors that it recovered from, and in plain text an error may be the assistant's.

A run succeeded if the record that ``done`` describes was printed (without ``done``: if it exited with 0) and
there is an answer.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from zlib import crc32

import msgspec

from segue.agents.base import Ended
from segue.agents.decoding import DAMAGE
from segue.config.declared import DeclaredAgent, Where, WhereUsage
from segue.core import events as ev
from segue.core.errors import Misuse
from segue.core.ids import native_id
from segue.core.json_values import fulfills, look_up
from segue.core.outcome import Failure, Outcome, Reason, by_exit, fallen, last_line
from segue.core.stream import TurnState
from segue.core.usage import Context, Totals, Usage, cost_since, since

LINE_SEARCHED = 1_000_000
"""How much of one line a pattern searches."""
CALLS_COUNTED = 1_000
"""The most calls that are counted if a record only has their number."""
A_TOOL = "a tool"


class Output:
    """The reading half of a declared agent."""

    def __init__(self, spec: DeclaredAgent) -> None:
        self._spec = spec

    def parse(self, line: bytes) -> Sequence[ev.Event]:
        """One line of stdout as events."""
        if self._spec.output == "json":
            return ()
        if self._spec.output == "text":
            return tuple(self._of_text(line.decode("utf-8", "replace")))
        if not line.strip():
            return ()
        record = decoded(line)
        found = [*self._of_record(record), *self._of_patterns(line.decode("utf-8", "replace"))]
        if found:
            return tuple(found)
        return ev.unknown(
            line, "not a JSON record" if record is None else "the declaration does not mention it"
        )

    def document(self, record: Any) -> Sequence[ev.Event]:
        """The one document of ``output = "json"``."""
        return tuple(self._of_record(record))

    def calls(self, document: Any) -> int | None:
        """The number of calls in the one document; None if it does not show them."""
        found = [value for where in self._spec.tool if (value := _at(where, document)) is not None]
        return sum(len(_called(value)) for value in found) if found else None

    def failure(self, stdout: str, stderr: str, document: Any = None) -> Failure | None:
        """The last error that the declaration finds."""
        for where in self._spec.error:
            whole = _at(where, document)
            lines = _last(_found(where, stderr if where.stream == "stderr" else stdout))
            message = whole if isinstance(whole, str) else lines
            if message is not None:
                reason: Reason | None = "unknown" if where.kind == "session_rejected" else None
                return Failure(where.kind or "crashed", last_line(message), reason=reason)
        return None

    def from_stderr(self, places: Iterable[Where], stderr: str) -> str | None:
        """The last value that the places on stderr find."""
        found = (_last(_found(where, stderr)) for where in places if where.stream == "stderr")
        return next((text for text in found if text is not None), None)

    def _of_text(self, line: str) -> Iterator[ev.Event]:
        yield from self._of_patterns(line)
        if any(where.pattern is None and where.stream == "stdout" for where in self._spec.text):
            yield ev.TextDelta(line + "\n")

    def _of_patterns(self, line: str) -> Iterator[ev.Event]:
        for where in (w for w in self._spec.session_id if w.stream == "stdout"):
            for found in _matches(where, line):
                yield session(found, None)
        for where in (w for w in self._spec.text if w.stream == "stdout"):
            for found in _matches(where, line):
                yield ev.TextDelta(found) if where.delta else ev.Text(found)
        for where in self._spec.tool:
            for at, found in enumerate(_matches(where, line)):
                yield _call(line, at, found)

    def _of_record(self, record: Any) -> Iterator[ev.Event]:
        for where in self._spec.session_id:
            found = _at(where, record)
            if isinstance(found, str | int) and not isinstance(found, bool):
                yield session(str(found), look_up(record, "$.model"))
        for where in self._spec.text:
            if isinstance(found := _at(where, record), str):
                yield ev.TextDelta(found) if where.delta else ev.Text(found)
        for where in self._spec.tool:
            for at, called in enumerate(_called(_at(where, record))):
                yield _call(repr(record), at, called)
        for error in self._spec.error:
            if isinstance(found := _at(error, record), str):
                yield ev.Notice(found)
        if self._spec.usage is not None and (report := _usage(self._spec.usage, record)) is not None:
            yield report
        if self._spec.done and fulfills(record, self._spec.done):
            yield ev.End(True)


def decoded(line: bytes | str) -> Any:
    """The JSON value of a line, or ``None``."""
    try:
        return msgspec.json.decode(line)
    except (*DAMAGE, UnicodeError):
        return None


def session(found: str, model: Any) -> ev.Event:
    """The announcement of a session, or ``Unknown`` if what was found cannot be an id."""
    try:
        return ev.Session(native_id(found), model if isinstance(model, str) else None)
    except Misuse as misuse:
        return ev.unknown(found.encode("utf-8", "replace"), str(misuse))[0]


def _called(found: Any) -> list[str]:
    """The names of the tools at a place: a name, an object with one, a list of them, or their number."""
    if isinstance(found, list):
        return [name for each in found for name in _called(each) or [A_TOOL]]
    if isinstance(found, dict):
        return [str(found.get("name") or A_TOOL)]
    if isinstance(found, int) and not isinstance(found, bool):
        return [A_TOOL] * min(found, CALLS_COUNTED)
    return [found or A_TOOL] if isinstance(found, str) else []


def _call(line: str, at: int, name: str) -> ev.ToolCall:
    """Its id is made from the line, because nothing is remembered between lines."""
    return ev.ToolCall(f"{crc32(line.encode()):08x}-{at}", name)


def _at(where: Where, record: Any) -> Any:
    return look_up(record, where.path) if where.path and fulfills(record, where.when) else None


def _matches(where: Where, line: str) -> Iterator[str]:
    if where.pattern is not None:
        for match in re.finditer(where.pattern, line[:LINE_SEARCHED]):
            yield (match[1] if match.re.groups else match[0]) or ""


def _found(where: Where, text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from _matches(where, line)
        if where.path and isinstance(found := _at(where, decoded(line)), str):
            yield found


def _last(found: Iterator[str]) -> str | None:
    return functools.reduce(lambda _, text: text, found, None)


def _usage(where: WhereUsage, record: Any) -> ev.UsageReport | None:
    if not fulfills(record, where.when):
        return None
    paths = (where.input, where.cache_read, where.cache_write, where.output)
    given, read, written, output = (_count(look_up(record, path)) if path else None for path in paths)
    cost = look_up(record, where.cost_usd) if where.cost_usd else None
    cost_usd = float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None
    if given is not None and read is not None and where.cache_in_input:
        given, read = max(0, given - read), min(given, read)
    usage = Usage(given, read, written, output)
    if usage == Usage() and cost_usd is None:
        return None
    return ev.UsageReport(usage, request=None if where.scope == "request" else "run", cost_usd=cost_usd)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def conclude(ended: Ended, spec: DeclaredAgent, output: Output, label: str) -> Outcome:
    reading = _whole(ended, spec, output)
    text = _text(ended, spec, output, reading)
    announced = reading.session_id or _on_stderr(ended, spec, output)
    failure = by_exit(ended.exit)
    if failure is None and not (_ended_well(ended, spec, reading) and text.strip()):
        failure = _explained(ended, output, label)
    start = ended.request.start
    if failure is None and start.mode == "resume" and announced not in (None, start.session):
        failure = Failure("session_rejected", f"{label} answered in another session", reason="unknown")
    refused = failure is not None and failure.kind in ("session_rejected", "session_busy")
    usage, cost, totals = _spent(ended, spec, reading)
    requests = spec.usage is not None and spec.usage.scope == "request"
    return Outcome(
        text=text if failure is None else "",
        failure=failure,
        session_id=None if refused else announced,
        model=reading.model or ended.request.model,
        usage=usage,
        cost_usd=cost,
        context=Context(reading.last_request.prompt if requests and reading.last_request else None),
        totals=totals,
        model_turns=reading.requests if requests else None,
        tools_denied=None,
        tools_run=_ran(ended, spec, output, reading),
    )


def _ran(ended: Ended, spec: DeclaredAgent, output: Output, reading: TurnState) -> int | None:
    """How many tools ran; None if no place for tools is declared."""
    if not spec.tool:
        return None
    return output.calls(ended.evidence.get("document")) if spec.output == "json" else reading.tools_run


def _whole(ended: Ended, spec: DeclaredAgent, output: Output) -> TurnState:
    """What was read from the lines, or now from the one document."""
    if spec.output != "json":
        return ended.reading
    reading = TurnState()
    for event in output.document(ended.evidence.get("document")):
        reading.add(event)
    return reading


def _text(ended: Ended, spec: DeclaredAgent, output: Output, reading: TurnState) -> str:
    return (reading.answer or output.from_stderr(spec.text, ended.exit.stderr) or "").rstrip("\n")


def _on_stderr(ended: Ended, spec: DeclaredAgent, output: Output) -> str | None:
    found = output.from_stderr(spec.session_id, ended.exit.stderr)
    announced = session(found, None) if found is not None else None
    return announced.id if isinstance(announced, ev.Session) else None


def _ended_well(ended: Ended, spec: DeclaredAgent, reading: TurnState) -> bool:
    return reading.end is not None if spec.done else ended.exit.code == 0


def _explained(ended: Ended, output: Output, label: str) -> Failure:
    tail = str(ended.evidence.get("tail") or "")
    known = output.failure(tail, ended.exit.stderr, ended.evidence.get("document"))
    if known is not None:
        return known
    failure = fallen(ended.exit, label)
    if failure.kind == "crashed" and not last_line(ended.exit.stderr) and last_line(tail):
        return Failure("crashed", last_line(tail))
    return failure


def _spent(ended: Ended, spec: DeclaredAgent, reading: TurnState) -> tuple[Usage, float | None, Totals]:
    """This turn's share. If the CLI counts over the session and its past is unknown, so is the share."""
    usage, cost = reading.usage, reading.cost_usd
    if spec.usage is None or spec.usage.scope != "session":
        return usage, cost, Totals()
    totals, base = Totals(usage, cost), ended.base
    if ended.request.start.mode == "fresh":
        return usage, cost, totals
    ours = Usage() if base.usage == Usage() else since(usage, base.usage)
    return ours, None if base.cost_usd is None else cost_since(cost, base.cost_usd), totals
