"""The result of a Codex run: its answer or the kind of its failure, when a limit ends, and its usage."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

import msgspec

from segue.agents.base import Ended
from segue.agents.codex.trace import Trace
from segue.agents.decoding import DAMAGE
from segue.core.outcome import (
    Failure,
    Kind,
    Outcome,
    Reason,
    by_exit,
    by_status,
    fallen,
    kept_answer,
    last_line,
    unanswered,
)
from segue.core.tools import DeniedTools
from segue.core.usage import Context, Totals, Usage, seen_limits, since

_IN = re.compile(r"try again in ([\d.]+)\s?(ms|s|m|h)", re.I)
_AT = re.compile(r"try again at (?:(\w{3}) (\d{1,2})\w\w, (\d{4}) )?(\d{1,2}:\d\d [AP]M)", re.I)
_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_STATUS = re.compile(r"^unexpected status (\d{3})\b|\blast status: (\d{3})\b|\(status (\d{3})\b")
_REFUSED = re.compile(r"thread/(?:resume|fork)|rollout|empty session file|session metadata")

_INFO: dict[str, tuple[Kind, int | None]] = {
    "context_window_exceeded": ("context_exceeded", None),
    "usage_limit_exceeded": ("rate_limited", None),
    "server_overloaded": ("model_error", 503),
    "internal_server_error": ("model_error", 500),
    "unauthorized": ("auth", None),
    "model_not_found": ("model_error", 404),
    "bad_request": ("model_error", 400),
    "cyber_policy": ("refused", None),
    "bio_policy": ("refused", None),
    "misalignment_policy_violation": ("refused", None),
}
"""Codex's own names of failures, if the rollout has them."""

_CODES: dict[str, Kind] = {
    "context_length_exceeded": "context_exceeded",
    "invalid_api_key": "auth",
    "rate_limit_exceeded": "rate_limited",
    "insufficient_quota": "rate_limited",
    "invalid_prompt": "refused",
    "content_filter": "refused",
    "content_policy_violation": "refused",
    "cyber_policy": "refused",
}
"""The model service's own codes, in the body that Codex passes on as the message."""

_DECLINED = re.compile(
    r"returned, reason: content_filter|^Invalid prompt: |\bflagged (?:as|for) (?:potential|possibl|violat)"
    r"|due to a misalignment",
    re.I,
)
"""How the model service, and Codex in its name, declines. Codex takes the first for a broken stream."""

_WORDS: tuple[tuple[str, Kind, int | None], ...] = (
    (r"context window|maximum length of \d+ characters", "context_exceeded", None),
    (
        r"usage limit|rate limit|quota exceeded|out of credits|spend cap|too many requests",
        "rate_limited",
        None,
    ),
    (r"missing environment variable|not logged in|log ?in again|sign in again|access token", "auth", None),
    (r"upgrade to plus", "auth", None),
    (r"at capacity", "model_error", 503),
    (r"experiencing high demand", "model_error", 500),
    (r"closed before response\.completed", "model_error", None),
    (r"stream disconnected|connection|sending request|timed? ?out|lookup address|network", "network", None),
)


def conclude(ended: Ended) -> Outcome:
    trace: Trace = ended.evidence.get("trace") or Trace()
    failure = _failure(ended, trace)
    usage, totals = _usage(ended, trace)
    kept = ended.evidence.get("exists", True) and not (failure and failure.kind == "session_rejected")
    writable = ended.request.permission in ("edit", "full")
    return Outcome(
        text=(kept_answer(ended.reading, ended.evidence) or ended.reading.answer) if failure is None else "",
        failure=failure,
        session_id=ended.reading.session_id if kept else None,
        model=trace.model or ended.request.model,
        usage=usage,
        context=Context(trace.used, trace.window),
        totals=totals,
        model_turns=trace.requests or None,
        # in a sandbox that allows writing, a command may have written before it was stopped
        tools_run=ended.reading.tools_run + (trace.blocked.count if writable else 0),
        tools_denied=_denied(ended, trace),
        compacted=ended.reading.compacted or trace.compacted,
        limits=seen_limits(trace.limits.values(), ended.now_ms, "session"),
        pays="subscription" if trace.plan is not None else None,
    )


def _denied(ended: Ended, trace: Trace) -> DeniedTools:
    """Refused calls. Without a sandbox, a read-only file system is not a refusal by Codex."""
    sandboxed = ended.request.permission != "full"
    seen = ended.reading.tools_denied + trace.blocked + trace.rejected
    return seen + trace.stopped if sandboxed else seen


def _failure(ended: Ended, trace: Trace) -> Failure | None:
    ended_by_us = by_exit(ended.exit)
    if ended_by_us is not None:
        return _while_waiting(ended, ended_by_us)
    if _strayed(ended):
        why = "Codex did not find the session and started a new one"
        return Failure("session_rejected", why, "not_found")
    end = ended.reading.end
    if kept_answer(ended.reading, ended.evidence):
        return None
    if end is None:
        return _without_end(ended)
    if end.ok:
        return unanswered(ended.reading)
    return _from_message(ended, end.message, trace.error)


def _strayed(ended: Ended) -> bool:
    """Old versions start a new thread for an unknown id and exit with 0: only the announced id shows it."""
    announced = ended.reading.session_id
    return ended.request.start.mode == "resume" and announced not in (None, _requested(ended))


def _requested(ended: Ended) -> str:
    return (ended.request.start.session or "").lower()


def _while_waiting(ended: Ended, failure: Failure) -> Failure:
    """New versions wait for the network forever: if a time limit ends that, the message says so."""
    retry = ended.reading.last_retry
    if failure.kind != "timeout" or retry is None or ended.reading.answer:
        return failure
    return Failure("timeout", f"{failure.message}; Codex was still retrying: {retry.message}"[:500])


def _without_end(ended: Ended) -> Failure:
    """Codex ended without a result: only stderr and the exit code are known."""
    line = last_line(ended.exit.stderr)
    if ended.exit.signal is not None:
        return fallen(ended.exit, "Codex")
    if "already has an active writer" in line:
        return Failure("session_busy", line)
    if ended.request.start.mode != "fresh" and ended.reading.session_id is None and _REFUSED.search(line):
        return Failure("session_rejected", line, _reason(ended, line))
    if "input_too_large" in line:
        return Failure("context_exceeded", line)
    return fallen(ended.exit, "Codex")


def _reason(ended: Ended, line: str) -> Reason:
    """Why a session was refused. One that exists but is "not found" was moved: the index has its old path."""
    if not ended.evidence.get("asked_exists"):
        return "not_found"
    return "unknown" if "no rollout found" in line else "corrupt"


def _from_message(ended: Ended, message: str, info: Any) -> Failure:
    """Structure first: Codex's own name for it, then the service's code, then a status, then words."""
    body = _body(message)
    code = str(body.get("code") or "")
    said = str(body.get("message") or message)
    if code == "invalid_encrypted_content" and ended.request.start.mode != "fresh":
        return Failure("session_rejected", said, "unknown", status=400)
    kind, status = _by_info(info)
    status = status or _status_in(message) or (400 if body else None)
    if _DECLINED.search(said):
        return Failure("refused", said, status=status)
    kind = kind or _CODES.get(code) or by_status(status)
    if kind is None:
        kind, status = _by_words(said)
    limit = limit_end(said, ended.now_ms) if kind == "rate_limited" else None
    return Failure(kind, said, until=limit, status=status)


def limit_end(message: str, now_ms: int) -> int | None:
    """When a usage limit ends according to Codex's message, in milliseconds since 1970. A wait counts from
    ``now_ms``; a time of day is local time."""
    wait = _IN.search(message)
    if wait:
        return now_ms + int(float(wait[1]) * _MS[wait[2].lower()])
    moment = _AT.search(message)
    if not moment:
        return None
    month, day, year, clock = moment.groups()
    date = f"{month} {day} {year}" if month else datetime.fromtimestamp(now_ms / 1000).strftime("%b %d %Y")
    try:
        return int(datetime.strptime(f"{date} {clock}", "%b %d %Y %I:%M %p").timestamp() * 1000)
    except ValueError:
        return None


def _by_info(info: Any) -> tuple[Kind | None, int | None]:
    if isinstance(info, str):
        return _INFO.get(info, (None, None))
    about = next(iter(info.values()), None) if isinstance(info, dict) else None
    status = about.get("http_status_code") if isinstance(about, dict) else None
    return by_status(status), status


def _by_words(message: str) -> tuple[Kind, int | None]:
    """The kind of failure by Codex's own words, never the assistant's."""
    for pattern, kind, status in _WORDS:
        if re.search(pattern, message, re.I):
            return kind, status
    return "model_error", None


def _body(message: str) -> dict[str, Any]:
    """The error in a response body that Codex passes on unchanged (a status of 400)."""
    if not message.startswith("{"):
        return {}
    try:
        body = msgspec.json.decode(message.encode(), type=dict[str, dict[str, Any]])
    except DAMAGE:
        return {}
    return body.get("error") or {}


def _status_in(message: str) -> int | None:
    match = _STATUS.search(message)
    return int(next(number for number in match.groups() if number)) if match else None


def _usage(ended: Ended, trace: Trace) -> tuple[Usage, Totals]:
    """This turn's share of the thread's counters. The rollout has them even if the turn failed, and also
    their values before; a stored base is correct only if nobody else has resumed the session."""
    end = ended.reading.end
    counted = (end.raw or {}).get("usage") if end is not None else None
    total: Usage | None = counted.plain() if counted is not None else trace.total
    if total is None:
        return Usage(), Totals() if _strayed(ended) else ended.base
    before = trace.before
    if before is None:
        is_new = ended.request.start.mode == "fresh" or _strayed(ended)
        before = Usage(0, 0, 0, 0) if is_new else ended.base.usage
    share = since(total, before) if before.prompt is not None else Usage()
    unknown = end is None and not share.prompt  # cut off before any request could be counted
    return Usage() if unknown else share, Totals(total)
