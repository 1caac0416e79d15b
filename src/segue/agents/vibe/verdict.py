"""The result of a Vibe run: its answer or the kind of its failure, its usage and cost.

The export of 3.x shows how it ended; the stream alone never does. 2.x has only its exit code, and its error
message on stderr (for a refused session: on stdout).
"""

from __future__ import annotations

import re

from segue.agents.base import Ended
from segue.agents.vibe.meta import Export, Meta, Stats
from segue.agents.vibe.run_files import Trace
from segue.core.outcome import Failure, Kind, Outcome, Reason, by_exit, by_status, fallen, unanswered
from segue.core.tools import DeniedTools
from segue.core.usage import Context, Usage

_TOO_LONG = re.compile(
    r"ContextTooLongError|maximum context length|context too long|prompt is too long|prompt_too_long"
    r"|model_context_exceeded|input too large",
    re.I,
)
_LIMIT = re.compile(r"RateLimitError|rate limit", re.I)
_LOGIN = re.compile(r"Invalid API key|Missing \w+ environment variable", re.I)
_NETWORK = re.compile(r"connection|connect\b|peer closed|Network error|timed out|incomplete chunked", re.I)
_DECLINED = re.compile(r"flagged as potentially violating|content[ _](?:filter|policy|management)", re.I)
"""How a model service declines what is asked. An answer that it stops counts as whole, even an empty one."""
_STATUS = re.compile(r"\b(?:Client|Server) error '(\d{3})|^  status: (\d{3})\b", re.M)
_MISSING = re.compile(r"Session not found|^Session '.*' not found", re.M)
_CORRUPT = re.compile(r"Invalid Unified session store|Failed to load session")
_STOP = re.compile(r"<vibe_stop_event>(?:Turn|Price|Token)[^<]*limit[^<]*|^Stopped: \w+_limit", re.M)
_SECONDS = re.compile(r"try again in (\d+(?:\.\d+)?) ?s", re.I)
_NOISE = re.compile(r"^Reading API keys from|^Warning: .* is not trusted")

_OUTCOMES: dict[str, tuple[Kind, str]] = {
    "turn_limit": ("timeout", "Vibe stopped at the turn limit"),
    "price_limit": ("timeout", "Vibe stopped at the budget limit"),
    "token_limit": ("timeout", "Vibe stopped at the token limit"),
    "deadline": ("timeout", "Vibe stopped at its time limit"),
    "terminated": ("killed", "another process stopped Vibe"),
    "aborted": ("killed", "another process stopped Vibe"),
    "length": ("model_error", "the model's answer was cut off at its length limit"),
    "refusal": ("refused", "the model service declined because of the content"),
}
_CODES: dict[str, Kind] = {"invalid_api_key": "auth", "rate_limit": "rate_limited"}


def conclude(ended: Ended) -> Outcome:
    export: Export | None = ended.evidence.get("export")
    found: list[Meta] = ended.evidence.get("written") or []
    meta = found[0] if len(found) == 1 else None
    failure = _failure(ended, export, meta)
    refused = failure is not None and failure.kind in ("session_rejected", "session_busy")
    stats = (meta.stats or Stats()) if meta is not None else None
    trace: Trace | None = ended.evidence.get("trace")
    config = export.config if export is not None else meta.config if meta is not None else None
    return Outcome(
        text=ended.reading.answer if failure is None else "",
        failure=failure,
        session_id=None if refused or not ended.request.save else _session(ended, export, meta),
        model=config.active_model if config is not None else None,
        usage=trace.usage if trace is not None else _usage(export, stats),
        cost_usd=_cost(export, stats),
        context=Context(_used(ended, stats, trace), config.window if config is not None else None),
        model_turns=_turns(export, stats),
        tools_run=_ran(ended, stats, trace),
        tools_denied=_denied(ended, stats),
    )


def _failure(ended: Ended, export: Export | None, meta: Meta | None) -> Failure | None:
    ended_by_us = by_exit(ended.exit)
    if ended_by_us is not None:
        return ended_by_us
    if ended.exit.signal is not None and export is None:
        return fallen(ended.exit, "Vibe")
    if ended.runtime.capabilities.id_on_disk_only:
        return _old(ended, meta)
    if export is None:
        return _in_words(ended, _complaint(ended.exit.stderr)) or fallen(ended.exit, "Vibe")
    if export.outcome != "finished":
        return _new(ended, export)
    return _strayed(ended) or unanswered(ended.reading)


def _new(ended: Ended, export: Export) -> Failure:
    """3.x did not finish. If it refuses a session, it has opened none."""
    if export.outcome in _OUTCOMES:
        return Failure(*_OUTCOMES[export.outcome])
    message = export.error.message if export.error is not None else _complaint(ended.exit.stderr)
    code = export.error.code if export.error is not None else None
    if code in _CODES:
        return _named(_CODES[code], message, ended.now_ms, _status(message))
    unopened = export.session_id is None and export.outcome == "infrastructure_failure"
    if unopened and ended.request.start.mode != "fresh" and not _is_busy(message):
        return Failure("session_rejected", message, reason="corrupt")
    by_words = _in_words(ended, message)
    if by_words is not None:
        return by_words
    return Failure("crashed" if export.session_id is None else "model_error", message)


def _old(ended: Ended, meta: Meta | None) -> Failure | None:
    """2.x: success is exit code 0, an answer, and an id on disk."""
    refusal = ended.reading.end.message if ended.reading.end is not None else ""
    if ended.exit.code != 0:
        stderr = ended.exit.stderr
        by_words = _in_words(ended, refusal) or _in_words(ended, stderr)
        if by_words is not None:
            return by_words
        if stderr.startswith("Error: API error from") or "LLM backend error" in stderr:
            return Failure("model_error", _complaint(stderr))
        return fallen(ended.exit, "Vibe")
    silent = unanswered(ended.reading)
    if silent is not None and meta is None:
        return fallen(ended.exit, "Vibe")
    return silent


def _in_words(ended: Ended, text: str) -> Failure | None:
    """The failure by the words of the error message, the most specific first."""
    message = _complaint(text)
    if _MISSING.search(text):
        reason: Reason = "corrupt" if ended.evidence.get("asked_exists") else "not_found"
        return Failure("session_rejected", message, reason=reason)
    if _CORRUPT.search(text):
        return Failure("session_rejected", message, reason="corrupt")
    if _is_busy(text):
        return Failure("session_busy", message)
    stop = _STOP.search(text)
    if stop is not None:
        return Failure("timeout", f"Vibe stopped: {stop[0].removeprefix('<vibe_stop_event>')}")
    kind = _kind(text)
    return _named(kind, message, ended.now_ms, _status(text)) if kind is not None else None


def _kind(text: str) -> Kind | None:
    status = _status(text)
    if _TOO_LONG.search(text):
        return "context_exceeded"
    if _DECLINED.search(text):
        return "refused"
    if _LOGIN.search(text):
        return "auth"
    if status is not None:
        return by_status(status)
    if _LIMIT.search(text):
        return "rate_limited"
    return "network" if _NETWORK.search(text) else None


def _named(kind: Kind, message: str, now_ms: int, status: int | None) -> Failure:
    wait = _SECONDS.search(message) if kind == "rate_limited" else None
    until = now_ms + round(float(wait[1]) * 1000) if wait is not None and now_ms else None
    return Failure(kind, message, until=until, status=status)


def _strayed(ended: Ended) -> Failure | None:
    """A resume that continued in another session. An import from 2.x has a new id legitimately."""
    requested, actual = ended.request.start.session, ended.reading.session_id
    if requested is None or actual is None or actual == requested or ended.evidence.get("imported"):
        return None
    why = "Vibe continued in another session than the requested one"
    return Failure("session_rejected", why, "not_found")


def _is_busy(text: str) -> bool:
    return "Session is already open" in text


def _complaint(text: str) -> str:
    """The line that says what is wrong, without announcements, tracebacks and lists of details."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not _NOISE.match(line)]
    facts = [
        line.removeprefix("provider_message: ") for line in lines if line.startswith("provider_message: ")
    ]
    errors = [line.removeprefix("Error: ") for line in lines if line.startswith("Error: ")]
    head = errors[-1] if errors else lines[-1] if lines else ""
    if head.startswith(("Client error", "Server error")) and lines[-1].startswith("For more information"):
        facts.append(lines[-1].partition("/Status/")[2].partition(": ")[2])
    return " – ".join((head, *facts))[:500]


def _status(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1] or found[2]) if found is not None else None


def _session(ended: Ended, export: Export | None, meta: Meta | None) -> str | None:
    if meta is not None:
        return meta.session_id
    return ended.reading.session_id or (export.session_id if export is not None else None)


def _usage(export: Export | None, stats: Stats | None) -> Usage:
    """2.x does not report what came from the cache: the whole prompt counts as input, the rest is unknown."""
    if export is not None and export.usage is not None:
        return export.usage.plain()
    if stats is not None:
        return Usage(input=stats.session_prompt_tokens, output=stats.session_completion_tokens)
    return Usage()


def _cost(export: Export | None, stats: Stats | None) -> float | None:
    """None if it is zero: then Vibe's settings have no price for the model."""
    cost = export.cost_usd if export is not None else stats.session_cost if stats is not None else None
    return cost or None


def _used(ended: Ended, stats: Stats | None, trace: Trace | None) -> int | None:
    if stats is not None:
        return stats.last_turn_prompt_tokens or None
    if trace is not None and trace.last is not None:
        return trace.last.prompt
    used: int | None = ended.evidence.get("context")
    return used


def _turns(export: Export | None, stats: Stats | None) -> int | None:
    """The number of requests; 2.x also counts the user's message as a step."""
    if export is not None:
        return export.steps
    return stats.steps - 1 if stats is not None and stats.steps else None


def _ran(ended: Ended, stats: Stats | None, trace: Trace | None) -> int:
    """The number of tools that ran. One without a known end counts: it may have run."""
    if stats is not None and ended.exit.code == 0:
        return stats.tool_calls_agreed or 0
    agreed = (stats.tool_calls_agreed or 0) if stats is not None else 0
    begun = trace.tools - ended.reading.tools_denied.count if trace is not None else agreed
    return max(ended.reading.tools_run, begun)


def _denied(ended: Ended, stats: Stats | None) -> DeniedTools:
    """Refused calls. Those refused by a hook are only in the counters of 2.x: the stream shows failures."""
    seen = ended.reading.tools_denied
    if stats is None:
        return seen
    count = (stats.tool_calls_rejected or 0) + (stats.tool_calls_hook_denied or 0)
    return DeniedTools(count, seen.names)
