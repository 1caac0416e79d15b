"""The rehearsal agent's output as events, and the result of a run."""

from collections.abc import Sequence
from typing import Any

import msgspec

from segue.agents.base import Ended
from segue.agents.decoding import DAMAGE
from segue.core import events as ev
from segue.core.outcome import Failure, Outcome, by_exit, fallen, kept_answer, unanswered
from segue.core.usage import Context, Pays, Usage, seen_limits


class _Record(msgspec.Struct, frozen=True):
    """Any line; each type uses some of the fields."""

    type: str
    id: str = ""
    name: str = ""
    model: str | None = None
    cwd: str | None = None
    text: str = ""
    message: str = ""
    input: Any = None
    output: str = ""
    ok: bool = False
    denied: bool = False
    exit_code: int | None = None
    questions: Any = None
    attempt: int | None = None
    limit: int | None = None
    window: str = ""
    used: float | None = None
    resets_at: int | None = None
    pays: Pays | None = None
    delay_ms: int | None = None
    usage: Usage = Usage()
    error: Failure | None = None


class _End(msgspec.Struct, frozen=True):
    """The final record, for ``conclude``."""

    usage: Usage = Usage()
    cost_usd: float | None = None
    context: Context = Context()
    requests: int | None = None
    error: Failure | None = None


_RECORD = msgspec.json.Decoder(_Record)


def parse(line: bytes) -> Sequence[ev.Event]:
    if not line.strip():
        return ()
    try:
        record = _RECORD.decode(line)
        event = _event(record, line)
    except DAMAGE as error:
        return ev.unknown(line, str(error))
    return (event,) if event is not None else ev.unknown(line, f"unknown type {record.type}")


def _event(record: _Record, line: bytes) -> ev.Event | None:
    match record.type:
        case "session":
            return ev.Session(record.id, record.model, record.cwd, record.pays) if record.id else None
        case "delta":
            return ev.TextDelta(record.text)
        case "text":
            return ev.Text(record.text)
        case "thinking":
            return ev.Thinking(record.text)
        case "tool_call":
            return ev.ToolCall(record.id, record.name, record.input)
        case "tool_result":
            result = (record.id, record.ok, record.output, record.name, record.exit_code, record.denied)
            return ev.ToolResult(*result)
        case "question":
            return ev.Question(record.id, record.questions)
        case "permission":
            return ev.Permission(record.id, record.name, record.input, record.id)
        case "usage":
            return ev.UsageReport(record.usage, record.model)
        case "retry":
            return ev.Retry(record.attempt, record.limit, record.delay_ms, record.message)
        case "limit":
            return ev.LimitReport(record.window, record.used, record.resets_at)
        case "end":
            return _end(record, line)
        case _:
            return None


def _end(record: _Record, line: bytes) -> ev.End:
    raw = msgspec.json.decode(line)
    if record.ok:
        return ev.End(True, record.text, raw=raw)
    return ev.End(False, None, record.error.message if record.error else "", raw)


def conclude(ended: Ended) -> Outcome:
    reading = ended.reading
    last = _final(ended)
    failure = _failure(ended, last)
    usable = failure is None or failure.kind not in ("session_rejected", "session_busy")
    kept = usable and ended.request.save and ended.evidence.get("session_exists", True)
    return Outcome(
        text=(kept_answer(reading, ended.evidence) or reading.answer) if failure is None else "",
        failure=failure,
        session_id=reading.session_id if kept else None,
        model=reading.model,
        usage=reading.usage if last is None else last.usage,
        cost_usd=None if last is None else last.cost_usd,
        context=Context(reading.last_request.prompt if reading.last_request else None, _window(last)),
        model_turns=reading.requests if last is None else last.requests,
        tools_run=reading.tools_run,
        tools_denied=reading.tools_denied,
        limits=seen_limits(reading.limits.values(), ended.now_ms),
        pays=reading.pays,
    )


def _final(ended: Ended) -> _End | None:
    if ended.reading.end is None:
        return None
    try:
        return msgspec.convert(ended.reading.end.raw, _End)
    except msgspec.ValidationError:
        return _End()


def _window(last: _End | None) -> int | None:
    return None if last is None else last.context.window


def _failure(ended: Ended, last: _End | None) -> Failure | None:
    stopped = by_exit(ended.exit)
    if stopped is not None:
        return stopped
    end = ended.reading.end
    if kept_answer(ended.reading, ended.evidence):
        return None
    if end is None or last is None:
        return fallen(ended.exit, "the rehearsal agent")
    if not end.ok:
        return last.error or Failure(
            "crashed", end.message or "the rehearsal agent failed and did not say why"
        )
    start = ended.request.start
    if start.mode == "resume" and ended.reading.session_id != start.session:
        return Failure(
            "session_rejected", "the rehearsal agent answered in another session", reason="unknown"
        )
    return unanswered(ended.reading)
