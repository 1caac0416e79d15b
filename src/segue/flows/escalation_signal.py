"""What a tier says at its end: whether it escalates, why, what it did. Pure.

It is the JSON at the end of the answer:

    {"escalate": true, "reason": "…", "failed_checks": ["…"], "actions": [{"kind": "restart", "key": "web"}]}

It may also have what a hand-off contains: ``findings``, ``checks``, ``done``, ``failed``, ``questions``.
"""

from __future__ import annotations

from typing import Any

import msgspec

from segue.flows.answer_block import Unreadable, answer_schema, object_schema, read_block, unreadable
from segue.flows.commands import CheckResult
from segue.flows.escalation_plan import Policy

WELL, ESCALATES = 0, 2
"""Exit codes."""


class Action(msgspec.Struct, frozen=True):
    """Something that was done, for the cooldowns."""

    kind: str
    key: str = ""


class CheckFound(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that was looked at, and what came out."""

    name: str
    result: str = ""
    detail: str = ""


class Signal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a tier says at its end."""

    escalate: bool
    reason: str = ""
    failed_checks: tuple[str, ...] = ()
    actions: tuple[Action, ...] = ()
    findings: tuple[str, ...] = ()
    checks: tuple[CheckFound, ...] = ()
    done: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()


_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
SCHEMA = answer_schema(
    "escalate",
    {
        "escalate": {"type": "boolean"},
        "reason": _TEXT,
        "failed_checks": _TEXTS,
        "actions": {"type": "array", "items": object_schema("kind", {"kind": _TEXT, "key": _TEXT})},
        "findings": _TEXTS,
        "checks": {
            "type": "array",
            "items": object_schema("name", {"name": _TEXT, "result": _TEXT, "detail": _TEXT}),
        },
        "done": _TEXTS,
        "failed": _TEXTS,
        "questions": _TEXTS,
    },
)


def read_signal(answer: str, policy: Policy) -> Signal | Unreadable:
    """The signal in an answer."""
    if policy.signal == "text":
        return _by_text(answer, policy.text)
    plain = read_block(answer)
    return plain if isinstance(plain, Unreadable) else _checked(plain)


def signal_by_code(check: CheckResult) -> Signal | Unreadable:
    """What the exit code of a command says about a tier."""
    lines = [line.strip() for line in check.output.splitlines() if line.strip()]
    reason = lines[-1] if lines else ""
    if check.code == WELL:
        return Signal(escalate=False, reason=reason)
    if check.code == ESCALATES:
        return Signal(escalate=True, reason=reason, failed_checks=(check.command,))
    how = "took too long" if check.code is None else f"ended with exit code {check.code}"
    return unreadable(f"the command {check.command} {how}, which says nothing about the tier: {reason}")


def _by_text(answer: str, mark: str) -> Signal:
    """The last line that begins with the mark."""
    for line in reversed(answer.splitlines()):
        if line.strip().startswith(mark):
            return Signal(escalate=True, reason=line.strip().removeprefix(mark).strip(" :-\t"))
    return Signal(escalate=False)


def _checked(value: Any) -> Signal | Unreadable:
    if not isinstance(value, dict) or not isinstance(value.get("escalate"), bool):
        return Unreadable('the JSON block does not say "escalate": true or false')
    try:
        return msgspec.convert(_lenient(value), Signal)
    except msgspec.ValidationError as error:
        return unreadable(f"the JSON block is wrong: {error}")


def _lenient(value: dict[str, Any]) -> dict[str, Any]:
    """Null is as good as nothing; a check that is only a text has a name; texts may be other values."""
    known = {name: each for name, each in value.items() if each is not None}
    for name in ("failed_checks", "findings", "done", "failed", "questions"):
        if name in known:
            known[name] = [_text(each) for each in _list(known[name])]
    if "checks" in known:
        known["checks"] = [_check(each) for each in _list(known["checks"])]
    if "actions" in known:
        known["actions"] = [_named(each, "kind") for each in _list(known["actions"])]
    return known


def _check(value: Any) -> Any:
    named = _named(value, "name")
    return {key: _text(each) for key, each in named.items()} if isinstance(named, dict) else named


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _named(value: Any, name: str) -> Any:
    return {name: value} if isinstance(value, str) else value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
