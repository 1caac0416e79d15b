"""Conversations, sessions and situations in a few characters, so that tests of the ladder read as tables.

A dialogue is words: ``u1 a1 u2@codex b2@codex u3``. ``u`` is the user, any other letter an assistant;
``@agent.role/account=login`` names the voice, the account and who is logged in (else ``claude`` without any
of it, and nobody can tell; ``=`` alone: from before logins were told apart), each ``'`` is one edit, ``^``
marks a message that started its voice over. What a session holds: ``u1 a1! u2~ b2~ b2'+ u3 a3!``, where ``!``
is an anchor (named after the message), ``~`` is second-hand and ``+`` a correction.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from segue.core.cut import Cut, HeldIndex, ViewIndex, cut
from segue.core.model import Ended, Held, Host, Message, Pin, Voice, Workdir
from segue.core.request import Capabilities, Runtime
from segue.core.situation import File, Policy, Situation
from segue.core.turn import Mode
from segue.core.usage import Context, Limit
from segue.core.verdicts import say
from segue.core.view import UNKNOWN, Viewer, account_mark, old_account_mark, under, view, visible

CLAUDE = Voice("claude")
CODEX = Voice("codex")
THREE_MODES: tuple[Mode, ...] = ("resume", "replay", "fresh")
FOUND = {"resume": True, "fork": True, "branch": True, "compacts": True}
"""What the agent of a situation can do, unless a test says otherwise."""

FULL = {"context": Context(190_000, 200_000)}
BREAKS: dict[str, dict[str, Any]] = {
    "blank": {"blank": "--blank"},
    "switched off": {"policy": {"enabled": False}},
    "three modes": {"policy": {"modes": THREE_MODES}},
    "cannot resume": {"can": {"resume": False}},
    "does not resume": {"switched_off": {"resume": "it started a new session"}},
    "cannot branch": {"can": {"branch": False}},
    "does not branch": {"switched_off": {"branch": "it went on from the end"}},
    "new session wanted": {"fresh_session": True},
    "no session": {"holds": None, "others": ("codex",)},
    "fork": {"pinned": {"foreign": "other-key"}},
    "retried": {"spoken": "u1 a1 u2", "holds": "u1 a1! u2 a2!"},
    "first edited": {"spoken": "u1' a1 u2", "broken": say("#1 was edited", "history.edited", number=1)},
    "foreign end": {"file": File(True, 1000, "@elsewhere")},
    "prompt left behind": {"file": File(True, 1000, "@elsewhere"), "pinned": {"ended": Ended("network")}},
    "other directory": {"workdir": Workdir("/home/me/other", 1, 3)},
    "other program": {"pinned": {"runtime": "openclaude openclaude resume"}},
    "other model": {"model": "opus", "policy": {"on_model_change": "replay"}},
    "other tools": {"pinned": {"offers": ()}, "offers": ("without Bash",)},
    "other login": {"pinned": {"login": "me"}, "login": "you"},
    "other account": {"spoken": "u1@claude/work a1@claude/work u2", "holds": None, "hidden": 2},
    "other host": {"host": Host("there")},
    "too old": {"now_ms": 12_000_000, "policy": {"ttl_minutes": 30}},
    "cancelled": {"pinned": {"ended": Ended("cancelled")}},
    "killed": {"pinned": {"ended": Ended("killed")}},
    "timed out": {"pinned": {"ended": Ended("timeout")}},
    "poisoned": {"pinned": {"poisoned": "the provider refuses it"}},
    "retired": {"pinned": {"failures": 2}},
    "full, compacts": {"pinned": FULL},
    "full": {"pinned": FULL, "can": {"compacts": False}},
    "full, in a flow": {"pinned": FULL, "flow": True},
    "file gone": {"file": File(False)},
    "too big": {"file": File(True, 50 * 1024 * 1024 + 1, "@a1")},
    "over half the window": {"view_bytes": 400_000},
    "over the prompt limit": {"view_bytes": 20_000, "can": {"prompt_limit": 10_000}},
    "too much to catch up": {"too_long": frozenset({"resume"}), "can": {"prompt_limit": 10_000}},
    "no room beside the message": {"new_bytes": 9_500, "can": {"prompt_limit": 10_000}},
    "nearly used up": {"limits": (Limit("5h", 0.9, 20_000_000), Limit("7d", 0.2, 20_000_000))},
    "refused": {"limits": (Limit("unknown", 1.0, 10_060_000, "failure"),)},
    "paid otherwise": {"pays": "api_key", "paid": "subscription"},
    "other home": {
        "moved": say("the session is in /one", "account.moved", there="/one", who="a", here="/two")
    },
    "busy": {"busy": "process 7 is at it"},
}
"""What can be wrong, each alone."""

_SAID = re.compile(r"([a-z]\d+)('*)(\^?)(?:@([a-z]+)(?:\.([a-z]+))?(?:/([a-z]+))?(=[a-z]*)?)?$")
_HELD = re.compile(r"([a-z]\d+)('*)(~?)(\+?)(!?)$")


def said(words: str) -> list[Message]:
    """A dialogue. An answer may repeat whatever its voice could see before it."""
    messages: list[Message] = []
    for word in words.split():
        messages.append(_message(word, messages))
    return messages


def told(messages: Iterable[Message]) -> str:
    """The other way round, without voices."""
    return " ".join(each.id + "'" * (each.revision - 1) for each in messages)


def held(words: str) -> tuple[Held, ...]:
    return tuple(_held(word) for word in words.split())


def shown(rows: Iterable[Held]) -> str:
    return " ".join(
        row.message
        + "'" * (row.revision - 1)
        + "~" * (row.second_hand and not row.correction)
        + "+" * row.correction
        + "!" * (row.anchor is not None)
        for row in rows
    )


def situation(
    spoken: str = "u1 a1 u2",
    holds: str | None = "u1 a1!",
    *,
    voice: Voice = CLAUDE,
    account: str = "",
    policy: dict[str, Any] | None = None,
    can: dict[str, Any] | None = None,
    pinned: dict[str, Any] | None = None,
    **facts: Any,
) -> Situation:
    """All is well, except what is said. ``holds`` None: there is no session."""
    rule = Policy(**(policy or {}))
    runtime = Runtime(
        agent=voice.agent,
        distribution="claude-code",
        command=("claude",),
        version="2.1.325",
        capabilities=Capabilities(**(FOUND | (can or {}))),
    )
    seen = visible(said(spoken), Viewer(voice, account, UNKNOWN))
    now = view(seen, voice, rule.history)
    rows = held(holds or "")
    pin = None if holds is None else _pin(voice, account, rows, runtime, pinned or {})
    well: dict[str, Any] = {
        "cut": cut(HeldIndex(rows), ViewIndex(now), rule.history, ViewIndex(seen))
        if pin
        else Cut(text=tuple(now)),
        "file": File(True, 1000, pin.end) if pin else File(),
        "view_messages": len(now),
        "view_bytes": 100 * len(now),
        "new_bytes": 100,
        "workdir": Workdir("/home/me/app", 1, 2),
        "host": Host("here"),
        "model": "sonnet",
        "now_ms": 10_000_000,
    }
    return Situation(
        policy=rule,
        label="Claude",
        voice=voice,
        account=account,
        runtime=runtime,
        pin=pin,
        **(well | facts),
    )


def broken(*names: str, **facts: Any) -> Situation:
    """A situation in which all of these are wrong at once."""
    merged: dict[str, Any] = {}
    for change in (*(BREAKS[name] for name in names), facts):
        for key, value in change.items():
            both = isinstance(value, dict) and isinstance(merged.get(key), dict)
            merged[key] = merged[key] | value if both else value
    return situation(**merged)


def _pin(voice: Voice, account: str, rows: tuple[Held, ...], runtime: Runtime, pinned: dict[str, Any]) -> Pin:
    pin = Pin(
        session="s1",
        native_id="native",
        voice=voice,
        account=account,
        workdir=Workdir("/home/me/app", 1, 2),
        home="/home/me/.claude",
        host="here",
        runtime=runtime.identity,
        version=runtime.version,
        model="sonnet",
        end=rows[-1].anchor if rows else None,
        succeeded_ms=10_000_000,
        held=rows,
    )
    return msgspec.structs.replace(pin, **pinned)


def _message(word: str, before: list[Message]) -> Message:
    found = _SAID.match(word)
    assert found, word
    name, edits, blank, agent, role, account, login = found.groups()
    voice, sender = Voice(agent or "claude", role or ""), name[0] == "u"
    who = voice.agent, account or "", (login or UNKNOWN).removeprefix("=")
    viewer = Viewer(voice, *who[1:])
    marks = {account_mark(*who)} if sender else {*under(visible(before, viewer), viewer)}
    if login == "=":
        marks = {old_account_mark(*who[:2])} | {each for each in marks if each != account_mark(*who)}
    return Message(
        id=name,
        sender="user" if sender else "assistant",
        voice=voice,
        revision=1 + len(edits),
        account=account or "",
        under=tuple(sorted(marks)),
        blank=bool(blank),
    )


def _held(word: str) -> Held:
    found = _HELD.match(word)
    assert found, word
    name, edits, second, correction, anchored = found.groups()
    at = f"@{name}" if anchored else None
    return Held(name, 1 + len(edits), at, bool(second or correction), bool(correction))
