"""The result of a Claude run: its answer or the kind of its failure, its usage and cost."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from segue.agents.base import Ended
from segue.core.json_values import as_items, as_number, as_table, as_text, as_whole
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
from segue.core.stream import TurnState
from segue.core.tools import DeniedTools, distinct_names
from segue.core.usage import Context, Pays, Totals, Usage, cost_since, seen_limits

_STATUS = re.compile(r"\bAPI Error:? \(?(\d{3})\b")
_NETWORK = re.compile(
    r"connection|ECONN|ENOTFOUND|EAI_AGAIN|fetch failed|socket|timed out|unable to connect", re.I
)
_LOGIN = re.compile(r"invalid api key|please run /login|not logged in|oauth|authentication", re.I)
_LIMIT = re.compile(r"(?:usage|rate) limit|hit your [\w -]*limit|limit reached|out of extra usage", re.I)
_TOO_LONG = re.compile(r"prompt is too long|context (?:window|length) exceeded|input is too long", re.I)

_DECLINED = re.compile(
    r"safeguards flagged this message|appears to violate our Usage Policy"
    r"|blocked by content filtering policy",
    re.I,
)
"""How Claude says that the model service declined. New versions also say so by the reason of the stop."""

_COUNTERS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")
_SUMMED = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens")

_CLOUDS = {"bedrock", "vertex", "foundry", "mantle", "anthropicAws", "anthropicGoogleCloud"}

_WHERE: dict[str, Reason] = {"here": "corrupt", "elsewhere": "wrong_cwd"}
"""What "not found" means, by where the session's file is."""


def conclude(ended: Ended) -> Outcome:
    raw = as_table(ended.reading.end.raw) if ended.reading.end is not None else {}
    denied = _denied(raw, ended.reading)
    calls = ended.reading.tools_run + ended.reading.tools_denied.count
    failure = _failure(ended, raw, denied)
    refused = failure is not None and failure.kind == "session_rejected"
    return Outcome(
        text=_answer(ended, raw) if failure is None else "",
        failure=failure,
        session_id=None if refused else ended.reading.session_id,
        model=ended.reading.model,
        usage=_usage(ended, raw),
        cost_usd=_cost(ended, raw),
        context=_context(raw, ended.reading),
        totals=ended.base if refused else _totals(ended, raw),
        model_turns=as_whole(raw.get("num_turns")),
        tools_run=max(calls - denied.count, 0),
        tools_denied=denied,
        limits=seen_limits(ended.reading.limits.values(), ended.now_ms),
        pays=_pays(ended.reading, raw),
    )


def _answer(ended: Ended, raw: dict[str, Any]) -> str:
    """The answer; if it was asked for by a schema, with the value at its end, if it says anything else."""
    value, answer = raw.get("structured_output"), ended.reading.answer.strip()
    if value is None:
        return kept_answer(ended.reading, ended.evidence) or ended.reading.answer
    if _says(answer, value):
        return answer
    block = f"```json\n{msgspec.json.encode(value).decode()}\n```"
    return f"{answer}\n\n{block}".lstrip()


def _says(answer: str, value: Any) -> bool:
    try:
        return bool(msgspec.json.decode(answer) == value)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False


def _pays(reading: TurnState, raw: dict[str, Any]) -> Pays | None:
    """Only subscribers are told about limits; new versions name the provider of each model."""
    providers = {as_text(as_table(used).get("provider")) for used in as_table(raw.get("modelUsage")).values()}
    if providers & _CLOUDS:
        return "cloud"
    return reading.pays or ("subscription" if reading.limits else None)


def _failure(ended: Ended, raw: dict[str, Any], denied: DeniedTools) -> Failure | None:
    ended_by_us = by_exit(ended.exit)
    if ended_by_us is not None:
        return ended_by_us
    end = ended.reading.end
    if kept_answer(ended.reading, ended.evidence):
        return None
    if end is None:
        return _without_result(ended)
    if end.ok and raw.get("structured_output") is not None:
        return None
    if end.ok:
        return unanswered(ended.reading, denied)
    return _from_result(ended, raw, end.message)


def _from_result(ended: Ended, raw: dict[str, Any], message: str) -> Failure:
    subtype = str(raw.get("subtype") or "")
    if subtype in ("error_max_turns", "error_max_budget_usd"):
        limit = "turn" if subtype == "error_max_turns" else "budget"
        return Failure("timeout", f"Claude stopped at the {limit} limit")
    if subtype == "error_max_structured_output_retries":
        return Failure("protocol", "Claude's answers did not have the form that was asked for", "form")
    idle = raw.get("num_turns") == 0 and raw.get("duration_api_ms") == 0
    resumed = ended.request.start.mode != "fresh"
    if idle and resumed and subtype == "error_during_execution":
        return _rejected(ended, message or last_line(ended.exit.stderr))
    if raw.get("terminal_reason") == "prompt_too_long" or _TOO_LONG.search(message):
        return Failure("context_exceeded", message, status=as_whole(raw.get("api_error_status")))
    status = as_whole(raw.get("api_error_status")) or _status_in(message)
    if raw.get("stop_reason") == "refusal" or _DECLINED.search(message):
        return Failure("refused", message, status=status)
    kind = by_status(status) or _kind_in_words(message)
    if kind is None:
        quiet = "Claude ended without an answer; the model's reply could not be read"
        return Failure("model_error", message or last_line(ended.exit.stderr) or quiet, status=status)
    until = _until(message) or ended.reading.until if kind == "rate_limited" else None
    return Failure(kind, message, status=status, until=until)


def _without_result(ended: Ended) -> Failure:
    """Claude ended without a result: only stderr and the exit code are known."""
    stderr = ended.exit.stderr
    if ended.exit.signal is not None:
        return fallen(ended.exit, "Claude")
    if ended.request.start.mode != "fresh" and re.search(r"No conversation found|No message found", stderr):
        return _rejected(ended, last_line(stderr))
    if "is already in use" in stderr:
        return Failure("session_rejected", last_line(stderr), reason="unknown")
    if _LOGIN.search(stderr):
        return Failure("auth", last_line(stderr))
    return fallen(ended.exit, "Claude")


def _rejected(ended: Ended, message: str) -> Failure:
    """Claude's refusal of a session; "not found" is believed only if the file is really missing."""
    reason: Reason = "unknown"
    if "No conversation found" in message or "valid session ID" in message:
        reason = _WHERE.get(str(ended.evidence.get("session")), "not_found")
    elif "another account" in message:
        reason = "foreign_account"
    return Failure("session_rejected", message, reason=reason)


def _kind_in_words(message: str) -> Kind | None:
    """The kind of failure by the text of a failed result: Claude's own words, never the assistant's."""
    if _LIMIT.search(message):
        return "rate_limited"
    if _LOGIN.search(message):
        return "auth"
    return "network" if _NETWORK.search(message) else None


def _status_in(message: str) -> int | None:
    match = _STATUS.search(message)
    return int(match[1]) if match else None


def _until(message: str) -> int | None:
    """When the limit ends: Claude's notice may contain the Unix time after a vertical bar."""
    match = re.search(r"\|(\d{10})\b", message)
    return int(match[1]) * 1000 if match else None


def _denied(raw: dict[str, Any], reading: TurnState) -> DeniedTools:
    """What the result lists and what the stream showed: neither is complete."""
    listed = [as_text(as_table(each).get("tool_name")) for each in as_items(raw.get("permission_denials"))]
    seen = reading.tools_denied
    return DeniedTools(max(len(listed), seen.count), distinct_names((*seen.names, *listed)))


def _usage(ended: Ended, raw: dict[str, Any]) -> Usage:
    usage = as_table(raw.get("usage"))
    if not usage:
        return ended.reading.usage
    counted = Usage(*(as_whole(usage.get(name)) for name in _COUNTERS))
    if raw.get("subtype") != "error_max_budget_usd":
        return counted
    return _by_model(ended, raw) or ended.reading.usage


def _by_model(ended: Ended, raw: dict[str, Any]) -> Usage | None:
    """This run's sum over all models, for a run that reached its budget: ``usage`` lacks the last request.

    ``modelUsage`` has it, but new versions count that over the whole session.
    """
    bill = as_table(raw.get("model_usage_since_last_result"))
    if not bill and (ended.runtime.capabilities.cost_scope == "run" or ended.request.start.mode == "fresh"):
        bill = as_table(raw.get("modelUsage"))
    models = [as_table(used) for used in bill.values()]
    if not models:
        return None
    return Usage(*(sum(as_whole(used.get(name)) or 0 for used in models) for name in _SUMMED))


def _cost(ended: Ended, raw: dict[str, Any]) -> float | None:
    total = as_number(raw.get("total_cost_usd"))
    if ended.runtime.capabilities.cost_scope != "session" or ended.request.start.mode == "fresh":
        return total
    if _counts_this_run_only(raw):
        return total
    return cost_since(total, ended.base.cost_usd) if ended.base.cost_usd is not None else None


def _counts_this_run_only(raw: dict[str, Any]) -> bool:
    """Whether the CLI's total is this run's only, as in a session of a version without running totals."""
    models = [as_table(used) for used in as_table(raw.get("modelUsage")).values()]
    pairs = zip(_COUNTERS, _SUMMED, strict=True)
    usage = as_table(raw.get("usage"))
    return bool(models) and all(
        sum(as_whole(used.get(summed)) or 0 for used in models) == (as_whole(usage.get(name)) or 0)
        for name, summed in pairs
    )


def _totals(ended: Ended, raw: dict[str, Any]) -> Totals:
    """The session's totals; a run that was killed does not change them."""
    total = as_number(raw.get("total_cost_usd"))
    return ended.base if total is None else Totals(cost_usd=total)


def _context(raw: dict[str, Any], reading: TurnState) -> Context:
    used = reading.last_request.prompt if reading.last_request is not None else None
    models = as_table(raw.get("modelUsage"))
    about = as_table(models.get(reading.model or "") or next(iter(models.values()), None))
    return Context(used, as_whole(about.get("contextWindow")))
