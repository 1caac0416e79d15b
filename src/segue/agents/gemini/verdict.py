"""The result of a Gemini run: its answer or the kind of its failure, its usage, what it left on disk."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.base import Ended
from segue.agents.gemini.files import belongs, find_file, is_stub, remove_second_name
from segue.agents.gemini.schema import NO_JSON, Line, Message, Tokens, line_of, object_of
from segue.agents.gemini.stream import Stats
from segue.core.outcome import (
    Exit,
    Failure,
    Kind,
    Outcome,
    Reason,
    by_exit,
    by_status,
    fallen,
    last_line,
    unanswered,
)
from segue.core.request import Request, RunPlace
from segue.core.stream import TurnState
from segue.core.usage import Context, Usage, disjoint

TAIL_BYTES = 4 * 1024 * 1024
WHOLE_BYTES = 64 * 1024 * 1024


def evidence(request: Request, place: RunPlace, home: Path, reading: TurnState) -> dict[str, Any]:
    """Where the session is, and the usage of each model request of this run, the last one last."""
    session = reading.session_id or request.start.session
    if not session:
        return {}
    remove_second_name(home, session)
    files = list(find_file(home, session))
    if request.start.mode == "resume":
        _drop_stub(files, session, place.started_ms)
    spent = {
        one.id: one.tokens
        for file in files
        for one in _messages(file)
        if one.tokens is not None and _since(one, place)
    }
    return {
        "session": _whereabouts(files, request.cwd),
        "requests": tuple(_usage_of(tokens) for tokens in spent.values()),
    }


def _whereabouts(files: list[Path], cwd: Path) -> str:
    if not files:
        return "nowhere"
    return "here" if any(belongs(file, cwd) for file in files) else "elsewhere"


def _usage_of(tokens: Tokens) -> Usage:
    output = None if tokens.total is None or tokens.input is None else max(0, tokens.total - tokens.input)
    return disjoint(tokens.input, tokens.cached, output)


def _messages(file: Path) -> list[Message]:
    """The messages of a session; only the newest, if it has lines."""
    try:
        if file.suffix == ".json":
            return (object_of(file.read_bytes()).messages or []) if file.stat().st_size <= WHOLE_BYTES else []
        with file.open("rb") as lines:
            lines.seek(max(0, file.stat().st_size - TAIL_BYTES))
            return [message for line in lines if isinstance(message := _read(line), Message)]
    except (OSError, *NO_JSON):
        return []


def _read(line: bytes) -> Line | None:
    try:
        return line_of(line)
    except NO_JSON:
        return None


def _since(message: Message, place: RunPlace) -> bool:
    started = datetime.fromtimestamp(place.started_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return (message.timestamp or "")[:23] >= started[:23]


def _drop_stub(files: list[Path], session: str, started_ms: int) -> None:
    """Remove only the empty twin that this run's resume left beside the session's file."""
    for file in files:
        others = [other for other in files if other.parent == file.parent and other != file]
        if others and _is_new(file, started_ms) and is_stub(file, session):
            file.unlink(missing_ok=True)


def _is_new(file: Path, started_ms: int) -> bool:
    try:
        return file.stat().st_mtime_ns // 1_000_000 >= started_ms
    except OSError:
        return False


_STATUSES = {status % 256: status for status in (400, 401, 403, 404, 408, 413, 429, 500, 502, 503, 504, 529)}
"""Gemini exits with the HTTP status of a failure, reduced to eight bits."""

_LOGIN, _INPUT, _TURNS, _UNTRUSTED = 41, 42, 53, 55
"""Gemini's own exit codes."""

_CODE_IN_BODY = re.compile(r'"code":\s*(\d{3})\b')
_CODE_ON_STDERR = re.compile(r"^\s+(?:status|code): (\d{3}),?$", re.M)
_RETRY_AFTER = re.compile(r"retry after (\d+(?:\.\d+)?)s|\"retryDelay\":\s*\"(\d+(?:\.\d+)?)s\"", re.I)
_TOO_LONG = re.compile(r"input token count|exceeds the maximum number of tokens|context window", re.I)
_LIMIT = re.compile(r"quota|rate limit|RESOURCE_EXHAUSTED|resource has been exhausted", re.I)
_NETWORK = re.compile(
    r"fetch failed|\bterminated\b|ECONN|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|socket|network|premature close", re.I
)
_DECLINED = re.compile(
    r"blocked due to (?:safety settings|recitation|other policy settings)|\bPROHIBITED_CONTENT\b"
    r"|due to (?:safety|recitation) settings"
)
"""How 0.61 says that the model service stopped an answer that was still empty. One that had begun counts as
whole, and 0.29 takes both for an answer."""
_REFUSED = re.compile(r"Error (?:resuming|starting|importing) session.*")
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def conclude(ended: Ended) -> Outcome:
    reading = ended.reading
    raw: dict[str, Any] = reading.end.raw if reading.end is not None else {}
    failure = _failure(ended, raw)
    requests: tuple[Usage, ...] = ended.evidence.get("requests", ())
    refused = failure is not None and failure.kind == "session_rejected"
    return Outcome(
        text=reading.answer if failure is None else "",
        failure=failure,
        session_id=None if refused else reading.session_id,
        model=_model(raw, ended),
        usage=_usage(raw, requests),
        context=Context(requests[-1].prompt if requests else None),
        model_turns=_turns(_stats(raw), requests),
        tools_run=reading.tools_run,
        tools_denied=reading.tools_denied,
    )


def _failure(ended: Ended, raw: dict[str, Any]) -> Failure | None:
    ended_by_us = by_exit(ended.exit)
    if ended_by_us is not None:
        return ended_by_us
    reading, start = ended.reading, ended.request.start
    if (
        reading.session_id is not None
        and start.mode == "resume"
        and reading.session_id != str(start.session).lower()
    ):
        return Failure(
            "session_rejected", "Gemini answered in another session than the requested one", "not_found"
        )
    if reading.end is None:
        return _without_result(ended)
    if reading.end.ok:
        silent = unanswered(reading)
        return _silence(raw, silent) if silent is not None else None
    return _from_result(ended, raw, reading.end.message)


def _silence(raw: dict[str, Any], silent: Failure) -> Failure:
    """A "success" without an answer: Gemini does not send what it estimates to be too long."""
    if _stats(raw).input_tokens == 0:
        return Failure(
            "context_exceeded", "Gemini sent nothing: the conversation does not fit the model's window"
        )
    return silent


def _from_result(ended: Ended, raw: dict[str, Any], message: str) -> Failure:
    if ended.exit.code == _TURNS or _type(raw) == "FatalTurnLimitedError":
        return Failure("timeout", "Gemini stopped at the turn limit in its settings")
    if ended.exit.code == _LOGIN or _type(raw) == "FatalAuthenticationError":
        return Failure("auth", message)
    status = _status(ended.exit, message)
    if status in (None, 400, 413) and _TOO_LONG.search(message):
        return Failure("context_exceeded", message, status=status)
    quiet = ended.reading.notice or ""
    if _DECLINED.search(message or quiet):
        return Failure("refused", message or quiet, status=status)
    kind = by_status(status) or _kind_in_words(message)
    quiet = ended.reading.notice or "Gemini ended without an answer"
    until = _until(message, ended.now_ms) if kind == "rate_limited" else None
    return Failure(kind or "model_error", message or quiet, status=status, until=until)


def _without_result(ended: Ended) -> Failure:
    """Gemini ended without a result: only stderr and the exit code are known."""
    code, stderr = ended.exit.code, _ANSI.sub("", ended.exit.stderr)
    refusal = _REFUSED.search(stderr)
    if code == _INPUT and refusal is not None:
        return Failure("session_rejected", refusal[0], reason=_reason(ended))
    if code == _LOGIN:
        return Failure("auth", _sentence(stderr, "auth|key|credential|login") or last_line(stderr))
    if code == _UNTRUSTED:
        advice = "run gemini there once and trust it, or trust it for one turn with: -- --skip-trust"
        return Failure("untrusted", f"Gemini does not trust {ended.request.cwd}: {advice}")
    return fallen(Exit(code, ended.exit.ended_by, stderr), "Gemini")


def _reason(ended: Ended) -> Reason:
    """Gemini says "not found" for all of these; the files show the real reason."""
    if ended.request.start.mode != "resume":
        return "unknown"
    reasons: dict[str | None, Reason] = {"here": "corrupt", "elsewhere": "wrong_cwd", "nowhere": "not_found"}
    return reasons.get(ended.evidence.get("session"), "unknown")


def _status(ended: Exit, message: str) -> int | None:
    """From the provider's message, else the exit code, else the error that Gemini prints on stderr."""
    in_body = _CODE_IN_BODY.search(message)
    if in_body is not None:
        return int(in_body[1])
    if ended.code in _STATUSES:
        return _STATUSES[ended.code]
    dumped = _CODE_ON_STDERR.findall(ended.stderr) if "[API Error" in message else []
    return int(dumped[-1]) if dumped else None


def _kind_in_words(message: str) -> Kind | None:
    """The kind of failure by the text of a failed result: Gemini's own words, never the assistant's."""
    if _LIMIT.search(message):
        return "rate_limited"
    return "network" if _NETWORK.search(message) else None


def _until(message: str, now_ms: int) -> int | None:
    found = _RETRY_AFTER.search(message)
    return now_ms + int(float(found[1] or found[2]) * 1000) if found else None


def _usage(raw: dict[str, Any], requests: tuple[Usage, ...]) -> Usage:
    """The run's sum, with side requests; what only ``total_tokens`` counts is thinking, so it is output."""
    stats = _stats(raw)
    prompt, total = stats.input_tokens, stats.total_tokens
    if prompt is None:
        return sum(requests, Usage())
    output = stats.output_tokens if total is None else max(0, total - prompt)
    return disjoint(prompt, stats.cached, output)


def _turns(stats: Stats, requests: tuple[Usage, ...]) -> int | None:
    """The number of requests in the session file, if their sum is what Gemini counted; else None."""
    counted = {stats.input_tokens, *(counts.input_tokens for counts in stats.models.values())}
    return len(requests) or None if sum(requests, Usage()).prompt in counted else None


def _model(raw: dict[str, Any], ended: Ended) -> str | None:
    """The model that did the work: the announced one or, if that is an alias, the one with most input."""
    models, announced = _stats(raw).models, ended.reading.model
    if announced in models or not models:
        return announced
    return max(models, key=lambda name: models[name].input_tokens or 0)


def _stats(raw: dict[str, Any]) -> Stats:
    try:
        return msgspec.convert(raw.get("stats"), Stats)
    except msgspec.ValidationError:
        return Stats()


def _type(raw: dict[str, Any]) -> str:
    error = raw.get("error")
    return str(error.get("type") or "") if isinstance(error, dict) else ""


def _sentence(text: str, about: str) -> str:
    found = re.search(rf"^.*\b\w*(?:{about}).*$", text, re.I | re.M)
    return found[0].strip()[:500] if found else ""
