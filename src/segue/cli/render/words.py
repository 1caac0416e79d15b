"""Figures, tool calls and failures in words. Pure, so that they can be tested as tables."""

from __future__ import annotations

import os
import time
from typing import Any

from segue.cli.render.output import harmless
from segue.cli.render.table import fitted
from segue.core.events import Retry
from segue.core.outcome import CUT_SHORT
from segue.core.request import Terms
from segue.core.turn import Turn, retry_command
from segue.core.usage import tokens_in_words
from segue.system import clock as system_clock

_TELLING = (
    "command",
    "file_path",
    "path",
    "absolute_path",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
)

SILENT_S = 10
"""An agent that is silent for this long is reported as silent."""
_SHOWN = 4_000
"""A line shows at most this many characters of a text."""


def one_line(text: str) -> str:
    """The beginning of the text, harmless and on one line."""
    return " ".join(harmless(text[:_SHOWN]).split())


def below_home(path: str) -> str:
    """A path on one line, with ``~`` for the user's home."""
    home = os.path.expanduser("~")
    return one_line(f"~{path[len(home) :]}" if path == home or path.startswith(f"{home}/") else path)


def money(usd: float | None, estimated: bool = False) -> str:
    if usd is None:
        return "cost unknown"
    if usd == 0:
        return "$0"
    sign = "~$" if estimated else "$"
    if 0 < usd < 0.001:
        return f"< {sign}0.001"
    return f"{sign}{usd:,.2f}" if usd >= 1 else f"{sign}{usd:.3f}"


def size(count: int) -> str:
    """``640 KB``, ``2.1 MB``, ``1.2 GB``."""
    for unit, least in (("GB", 1 << 30), ("MB", 1 << 20)):
        if count >= least:
            return f"{count / least:.1f} {unit}" if count < 100 * least else f"{count / least:,.0f} {unit}"
    return f"{count / 1024:.0f} KB" if count >= 1024 else f"{count} B"


def seconds(ms: int) -> str:
    return f"{ms / 1000:.1f} s" if ms < 60_000 else clock(ms // 1000)


def moment(ms: int) -> str:
    """``15:20``; with the weekday if it is within the next days, otherwise with the date."""
    try:
        then = time.localtime(ms / 1000)
    except (OverflowError, OSError, ValueError):
        return "an unknown time"
    if time.strftime("%Y-%m-%d", then) == time.strftime("%Y-%m-%d"):
        return time.strftime("%H:%M", then)
    soon = 0 <= ms / 1000 - system_clock.now_s() < 6 * 24 * 3600
    return time.strftime("%a %H:%M" if soon else "%Y-%m-%d %H:%M", then)


def clock(total: int) -> str:
    return f"{total // 60:02d}:{total % 60:02d}"


def tool(name: str, given: Any, width: int = 100) -> str:
    """A tool call on one line: its name and its most informative argument."""
    text = ""
    if isinstance(given, dict):
        telling = [given[key] for key in _TELLING if given.get(key)] or list(given.values())
        text = telling[0] if telling else ""
        text = " ".join(map(str, text)) if isinstance(text, list) else str(text)
    elif given is not None:
        text = str(given)
    return fitted(one_line(f"{name} {text}"), max(width, 1))


def exited(code: int | None) -> str:
    return "failed" if code is None else f"exit {code}"


def result(code: int | None, output: str) -> str:
    """A tool's failure on one line: its exit code and its output."""
    words = tool("", output, 90)
    return f"{exited(code)}: {words}" if words else exited(code)


def waiting(event: Retry) -> str:
    """``it waits 4 s, then tries again (1 of 5): rate_limit``."""
    pause = f"waits {max(1, round(event.delay_ms / 1000)):,} s" if event.delay_ms else "waits"
    tries = f" ({event.attempt} of {event.limit})" if event.attempt and event.limit else ""
    reason = tool("", event.message)
    return f"it {pause}, then tries again{tries}" + (f": {reason}" if reason else "")


def quiet(since_s: float, waits: bool) -> str:
    """What the status line shows if the agent waits or has been silent for a while."""
    if waits:
        return f"waits {since_s:.0f} s"
    return f"silent for {since_s:.0f} s" if since_s >= SILENT_S else ""


def summary(turn: Turn, model_from: str | None = None) -> str:
    """The line under an answer: what was done and what it cost.

    ``model_from``: the project's file that chose the model, if that file is not trusted.
    """
    steps = [attempt.mode for attempt in turn.attempts]
    mode = " → ".join(steps) if len(steps) > 1 else turn.mode if steps else ""
    model = f"model {one_line(turn.model or '')} (from {one_line(model_from)})" if model_from else ""
    who = f"{turn.agent} as {one_line(turn.role)}" if turn.role else turn.agent
    parts = [who, model, mode, terms(turn.terms), _spent(turn)]
    if turn.saved.usd is not None and abs(turn.saved.usd) >= 0.0005:
        parts.append(saving(turn.saved.usd))
    return "── " + " · ".join(part for part in (*parts, seconds(turn.duration_ms)) if part)


def terms(held: Terms) -> str:
    """``edit, without Bash, remembered``; empty if there are no terms."""
    known = set(held.remembered)
    parts: list[str] = [held.permission] if held.permission != "default" or "permission" in known else []
    for how, tools in (("with", held.allow_tools), ("without", held.deny_tools)):
        if tools:
            parts.append(f"{how} {one_line(tools[0]) if len(tools) == 1 else f'{len(tools)} tools'}")
    parts += [f"up to {money(held.budget_usd)}"] if held.budget_usd is not None else []
    return ", ".join((*parts, "remembered") if known else parts)


def _spent(turn: Turn) -> str:
    """Tokens and cost; empty if the turn failed and neither is known."""
    usage, cost = turn.usage, money(turn.cost_usd, turn.cost_estimated)
    if usage.prompt is None and usage.output is None:
        return cost if turn.cost_usd is not None or turn.failure is None else ""
    fresh, out = (
        tokens_in_words(_plus(usage.input, usage.cache_write)),
        f"{tokens_in_words(usage.output)} out",
    )
    if turn.resumed:
        return f"{fresh} new, {tokens_in_words(usage.cache_read)} from cache, {out} · {cost}"
    read = f", {tokens_in_words(usage.cache_read)} from cache" if usage.cache_read else ""
    return f"{fresh} in{read}, {out} · {cost}"


def saving(usd: float) -> str:
    """What continuing saved; or, if the cache was not used, how much more it cost."""
    return f"saved {money(usd)}" if usd > 0 else f"cost {money(-usd)} more than sending it as text"


def next_step(turn: Turn, number: int | None = None, cwd: str | None = None) -> str:
    """What was kept, and what to type next. ``number``: the message's, as in ``#n``. ``cwd``: the directory,
    if it has to be named."""
    key, failed = turn.conversation, turn.failure
    kept = "Nothing was lost: the message is kept" + (f" as #{number}. " if number is not None else ". ")
    again = retry_command(key, turn.message, cwd)
    if failed is not None and failed.kind == "unsettled":
        return f"The answer is complete, and kept on disk. Print it with: {turn.next}"
    if failed is not None and failed.kind in CUT_SHORT and turn.tools_run != 0:
        onward = turn.next or f"segue run {key}"
        advice = (
            "What the agent did is not known: check first, then continue"
            if turn.tools_run is None
            else "The agent knows what it did: continue"
        )
        return f"{kept}{advice} with {onward}, or retry with: {again}"
    if failed is not None and failed.kind == "budget" and turn.next is not None:
        return f"{kept}{'Retry' if turn.next == again else 'Raise it, and go on,'} with: {turn.next}"
    if failed is not None and failed.kind == "auth":
        return f"{kept}Log in, then retry with: {again}"
    if failed is not None and failed.kind == "tool_denied":
        return f"{kept}Allow it with --permission or --allow-tool, and retry with: {again}"
    if failed is not None and failed.kind == "refused":
        return f"{kept}Say it in other words; the same words again: {again}"
    if failed is not None and failed.kind == "untrusted":
        return f"{kept}Once the directory is trusted, retry with: {again}"
    if turn.tools_run is None:
        return f"{kept}What the agent did is not known: check before you retry with: {again}"
    if failed is not None and failed.until is not None:
        return f"{kept}Retry then with: {again}"
    return f"{kept}Retry with: {again}"


def failure(turn: Turn, label: str) -> str:
    """What went wrong, in one line: our words for the kind, then the CLI's own."""
    failed = turn.failure
    assert failed is not None
    message = one_line(failed.message)
    quote = f": {message}" if message else ""
    match failed.kind:
        case "rate_limited":
            until = f" until {moment(failed.until)}" if failed.until is not None else ""
            return f"{label} is rate-limited{until}{_account(turn)}{quote}"
        case "auth":
            return f"{label} is not logged in or not allowed{_account(turn)}{quote}"
        case "network":
            return f"{label} cannot reach its model{quote}"
        case "model_error":
            return f"{label}'s model failed{quote}"
        case "refused":
            return f"{label}'s model service declined because of the content{quote}"
        case "context_exceeded":
            return f"the conversation does not fit {label}'s model{quote}"
        case "session_rejected":
            return f"{label} refused its session{quote}"
        case "session_busy":
            return f"{turn.conversation} is busy{quote}"
        case "timeout":
            return f"{label} was stopped{quote}"
        case "cancelled":
            return "cancelled; the turn has ended"
        case "tool_denied" if turn.text:
            return f"{label} was not allowed to use every tool it wanted{quote}"
        case "tool_denied":
            return f"{label} could not continue without a tool it is not allowed to use{quote}"
        case "protocol":
            return f"{label}'s output could not be understood{quote}"
        case _:
            return message or f"{label} failed ({failed.kind})"


def _account(turn: Turn) -> str:
    return f" (account {turn.account})" if turn.account else ""


def _plus(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b
