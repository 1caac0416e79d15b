"""What to do about a check that failed, in one sentence. Pure."""

from __future__ import annotations

from collections.abc import Callable

from segue.core.turn import Check
from segue.turns.why import Why

ANEW = "nothing to do: a new session takes its place"
PLAIN: dict[str, str] = {
    "blank": "leave out --blank to carry the conversation over",
    "enabled": "change [continuity] in config.toml",
    "fresh_session": "leave out --fresh-session and --no-save to keep the session",
    "runtime": "use the program that made the session ([agents] command), or continue as shown",
    "model": 'name the model from before with --model, or set [continuity] on_model_change = "resume"',
    "tools": "to keep the cache, run it with the same tools as before; the session continues either way",
    "host": "run it on that machine to keep the session ([keep] copies sessions for other machines)",
    "ttl": "raise [continuity] ttl_minutes to keep sessions longer",
    "poisoned": "nothing to do: the turn continues from before that, or as text",
    "retired": ANEW,
    "file": ANEW,
    "busy": "wait, or continue in a fork: segue run --fork",
}


def advice(check: Check, found: Why) -> str:
    special = SPECIAL.get(check.check)
    return special(check, found) if special is not None else PLAIN.get(check.check, "nothing to do")


def _capability(check: Check, found: Why) -> str:
    if "resume" in check.bars:
        return f"update {found.agent}, or continue as shown; segue agents says what it can do"
    return "nothing to do: what changed is sent as text"


def _pin(check: Check, found: Why) -> str:
    return (
        "nothing to do: this turn makes one" if found.session_id is None else "nothing to do: it branches off"
    )


def _history(check: Check, found: Why) -> str:
    if "branch" in check.bars:
        return "nothing to do: a new session takes its place, with the conversation as it reads now"
    return "nothing to do: the unchanged part is kept, the rest is sent as it reads now"


def _end(check: Check, found: Why) -> str:
    if "somebody" in check.detail:
        take = f"segue run {found.conversation} TEXT --adopt {(found.session_id or 'ID')[:8]} includes it"
        return f"the turn continues from where Segue left it, without what was said there since; {take}"
    return "nothing to do: the turn continues from before it, and sends the message again"


def _outcome(check: Check, found: Why) -> str:
    return "nothing to do: the turn continues from before it, and sends the message again"


def _size(check: Check, found: Why) -> str:
    name = (found.session_id or "ID")[:8]
    return f"segue sessions repair {name} --trim (or --since) makes a smaller one; or continue as shown"


def _workdir(check: Check, found: Why) -> str:
    return f"run it in {found.session_cwd} (--cwd) to keep the session"


def _account(check: Check, found: Why) -> str:
    if "logged in" in check.detail:
        return "log in as before to keep the session"
    return "go back with --account to the account under which they were said"


def _pressure(check: Check, found: Why) -> str:
    return "nothing to do" if not check.bars else "nothing to do: the conversation continues in a new session"


def _fits(check: Check, found: Why) -> str:
    if "recap" in check.bars:
        return "put what is long into a file in the working directory, and ask to read it"
    return "nothing to do: a part of the conversation is sent; [recap] max_bytes says how much"


SPECIAL: dict[str, Callable[[Check, Why], str]] = {
    "capability": _capability,
    "pin": _pin,
    "history": _history,
    "end": _end,
    "outcome": _outcome,
    "size": _size,
    "workdir": _workdir,
    "account": _account,
    "pressure": _pressure,
    "fits": _fits,
}
