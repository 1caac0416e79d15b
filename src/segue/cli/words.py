"""How figures, tool calls and failures are put into words. Pure, so that they can be tested as tables."""

from __future__ import annotations

import re
import time
from typing import Any

from segue.core.turn import Turn

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

_SHOWN = 4_000
"""No line shows more than the beginning of what is given."""
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-Z\\^-~]"
)
"""What a terminal would obey: CSI; OSC and its kin, up to their end; two characters after an escape."""
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What remains of those, backspace and bell among them, and what would turn the writing around."""


def harmless(text: str) -> str:
    """The text without anything that a terminal would obey. Only tabs and the ends of lines are left."""
    if text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    return _CONTROL.sub("", _SEQUENCE.sub("", text).replace("\r", "\n"))


def one_line(text: str) -> str:
    """The beginning of the text, harmless and on one line."""
    return " ".join(harmless(text[:_SHOWN]).split())


def tokens(count: int | None) -> str:
    """``999``, ``1.2k``, ``14k``, ``3.1M``; what is unknown is ``?``."""
    if count is None:
        return "?"
    if count < 1_000:
        return str(count)
    if count < 999_500:
        return f"{count / 1_000:.1f}k" if count < 99_950 else f"{count / 1_000:.0f}k"
    return f"{count / 1_000_000:.1f}M"


def money(usd: float | None, estimated: bool = False) -> str:
    if usd is None:
        return "cost unknown"
    if 0 < usd < 0.001:
        return "< $0.001"
    digits = 3 if usd < 1 else 2
    return f"{'~' if estimated else ''}${usd:.{digits}f}"


def seconds(ms: int) -> str:
    return f"{ms / 1000:.1f} s" if ms < 60_000 else clock(ms // 1000)


def clock(total: int) -> str:
    return f"{total // 60:02d}:{total % 60:02d}"


def tool(name: str, given: Any, width: int = 100) -> str:
    """A tool call on one line: its name and the argument that tells most."""
    text = ""
    if isinstance(given, dict):
        telling = [given[key] for key in _TELLING if given.get(key)] or list(given.values())
        text = telling[0] if telling else ""
        text = " ".join(map(str, text)) if isinstance(text, list) else str(text)
    elif given is not None:
        text = str(given)
    line = one_line(f"{name} {text}")
    return line if len(line) <= width else line[: max(width - 1, 0)] + "…"


def exited(code: int | None) -> str:
    return "failed" if code is None else f"exit {code}"


def result(code: int | None, output: str) -> str:
    """A tool's failure on one line: how it ended and what it said."""
    said = tool("", output, 90)
    return f"{exited(code)}: {said}" if said else exited(code)


def summary(turn: Turn) -> str:
    """The line under an answer: what was done and what it cost."""
    usage = turn.usage
    fresh = tokens(_plus(usage.input, usage.cache_write))
    out = f", {tokens(usage.output)} out"
    if turn.resumed:
        spent = f"{fresh} new, {tokens(usage.cache_read)} from cache{out}"
    else:
        read = f", {tokens(usage.cache_read)} from cache" if usage.cache_read else ""
        spent = f"{fresh} in{read}{out}"
    steps = [attempt.mode for attempt in turn.attempts]
    mode = " → ".join(steps) if len(steps) > 1 else turn.mode
    parts = [turn.agent, mode, spent, money(turn.cost_usd, turn.cost_estimated)]
    if turn.saved.usd is not None and abs(turn.saved.usd) >= 0.0005:
        parts.append(saving(turn.saved.usd))
    return "── " + " · ".join([*parts, seconds(turn.duration_ms)])


def saving(usd: float) -> str:
    """What continuing saved; or, where the cache did not serve it, what it cost more."""
    return f"saved {money(usd)}" if usd > 0 else f"cost {money(-usd)} more than sending it as text"


def way_on(turn: Turn) -> str:
    """What is safe, and what to type next."""
    again = f"segue retry {turn.conversation}"
    if (
        turn.failure is not None
        and turn.failure.kind in ("cancelled", "killed", "timeout")
        and turn.tools_run
    ):
        return f"Nothing was lost: go on with segue run {turn.conversation}, or run it again with: {again}"
    return f"Nothing was lost: the message is kept. Run it again with: {again}"


def failure(turn: Turn, label: str) -> str:
    """What went wrong, in one line: our words for the kind, then the CLI's own."""
    failed = turn.failure
    assert failed is not None
    message = one_line(failed.message)
    said = f": {message}" if message else ""
    match failed.kind:
        case "rate_limited":
            until = time.strftime(" until %H:%M", time.localtime(failed.until / 1000)) if failed.until else ""
            return f"{label} is rate-limited{until}{_account(turn)}{said}"
        case "auth":
            return f"{label} is not logged in or not allowed{_account(turn)}{said}"
        case "network":
            return f"{label} cannot reach its model{said}"
        case "model_error":
            return f"{label}'s model failed{said}"
        case "context_exceeded":
            return f"the conversation does not fit {label}'s model{said}"
        case "session_rejected":
            return f"{label} refused its session{said}"
        case "session_busy":
            return f"{label}'s session is in use by another process{said}"
        case "timeout":
            return f"{label} was stopped{said}"
        case "cancelled":
            return "cancelled; nothing more will happen in this turn"
        case "tool_denied":
            return f"{label} could not go on without a tool it may not use{said}"
        case "protocol":
            return f"{label}'s output could not be understood{said}"
        case _:
            return message or f"{label} failed ({failed.kind})"


def _account(turn: Turn) -> str:
    return f" (account {turn.account})" if turn.account else ""


def _plus(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b
