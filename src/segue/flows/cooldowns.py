"""How often something was done, and what is denied for it. Pure.

An action counts once, whether the tier reports it, a tool call shows it, or both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from segue.flows.escalation_plan import Cooldown
from segue.flows.escalation_signal import Action

KEY = "{key}"
_WORD = r"[^\s'\"`;|&<>()]+"


class ToolUse(msgspec.Struct, frozen=True):
    """A tool call that ran, or may have."""

    name: str
    input: Any = None


class CooldownState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a cooldown and one key, as the agent is told it."""

    kind: str
    key: str
    done: int
    limit: int
    hours: float
    free_at: int | None = None
    """When the limit ends, in milliseconds since 1970; null: it does not apply now."""

    @property
    def reached(self) -> bool:
        return self.done >= self.limit


class Done(msgspec.Struct, frozen=True):
    """Actions of the past: this many of a kind, for a key, at a time, in a step of a flow."""

    kind: str
    key: str
    count: int
    ms: int
    flow: str = ""
    step: str = ""


def count_actions(
    cooldowns: Sequence[Cooldown], reported: Iterable[Action], uses: Iterable[ToolUse]
) -> dict[tuple[str, str], int]:
    """How often each (kind, key) was done in a turn."""
    known = {each.kind for each in cooldowns}
    told = Counter((each.kind, each.key) for each in reported if each.kind in known)
    seen: Counter[tuple[str, str]] = Counter()
    for use in uses:
        seen.update({(each.kind, key) for each in cooldowns for key in _keys(each, use)})
    return dict(told | seen)  # the larger of the two counts


def states(cooldowns: Sequence[Cooldown], past: Iterable[Done], now_ms: int) -> list[CooldownState]:
    """Each cooldown with each key that something was done for recently."""
    past = list(past)
    found = []
    for each in cooldowns:
        recent = [done for done in past if done.kind == each.kind and done.ms > now_ms - each.ms]
        for key in sorted({done.key for done in recent}):
            mine = sorted((done for done in recent if done.key == key), key=lambda done: done.ms)
            found.append(_state(each, key, mine))
    return found


def denied(cooldowns: Sequence[Cooldown], now: Iterable[CooldownState]) -> tuple[str, ...]:
    """The tools that a tier does without."""
    reached = [(each.kind, each.key) for each in now if each.reached]
    tools = [
        tool.replace(KEY, key)
        for each in cooldowns
        for kind, key in reached
        if kind == each.kind
        for tool in each.deny
    ]
    return tuple(dict.fromkeys(tools))


def _state(cooldown: Cooldown, key: str, recent: Sequence[Done]) -> CooldownState:
    total = sum(done.count for done in recent)
    free_at, left = None, total
    for done in recent:  # the oldest are forgotten first
        if left < cooldown.limit:
            break
        left -= done.count
        free_at = done.ms + cooldown.ms
    return CooldownState(
        kind=cooldown.kind, key=key, done=total, limit=cooldown.limit, hours=cooldown.hours, free_at=free_at
    )


def _keys(cooldown: Cooldown, use: ToolUse) -> set[str]:
    """The keys that a tool call was for."""
    found = set()
    for each in cooldown.match:
        tool, _, text = each.partition(":")
        if tool.strip() in ("*", use.name):
            pattern = _pattern(text.strip())
            for said in _texts(use.input):
                found |= {match.groupdict().get("key") or "" for match in pattern.finditer(said)}
    return found


@lru_cache(128)
def _pattern(text: str) -> re.Pattern[str]:
    parts = re.split(r"(\{key\}|\*|\s+)", text)
    named, made = False, ""
    for part in parts:
        if part == KEY:
            made += "['\"]?" + (_WORD if named else f"(?P<key>{_WORD})")
            named = True
        else:
            made += r"\S*" if part == "*" else r"\s+" if part.isspace() else re.escape(part)
    return re.compile(rf"(?<![\w-]){made}")


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        if value and all(isinstance(each, str) for each in value):
            yield " ".join(value)  # a command as a list of words
        for each in value:
            yield from _texts(each)
