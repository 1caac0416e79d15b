"""Each check of the ladder: when it fails, what it bars then, and when it holds its peace."""

from __future__ import annotations

import re
from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.core.situations import BREAKS, FULL, THREE_MODES, broken, situation

from segue.agents import registry
from segue.config.schema import Config
from segue.core.checks import CHECKS
from segue.core.ladder import decide
from segue.core.model import Ended, Host, Voice, Workdir
from segue.core.situation import File, Situation
from segue.core.turn import Check
from segue.core.usage import Context, Limit
from segue.core.verdicts import say

NAMES = (
    *(
        "blank",
        "enabled",
        "capability",
        "fresh_session",
        "pin",
        "history",
        "end",
        "workdir",
        "runtime",
        "model",
        "tools",
    ),
    *("account", "host", "ttl", "outcome", "poisoned", "retired", "pressure", "file", "size", "fits"),
    *("limits", "busy"),
)
BARS = {"R": "resume", "B": "branch", "G": "graft", "Y": "replay", "C": "recap"}

ROWS = {
    # what is wrong: (the check that fails, what it bars)
    "blank": ("blank", "RBGYC"),
    "switched off": ("enabled", "RBG"),
    "three modes": ("enabled", "BC"),
    "cannot resume": ("capability", "RB"),
    "does not resume": ("capability", "RB"),
    "cannot branch": ("capability", "B"),
    "does not branch": ("capability", "B"),
    "new session wanted": ("fresh_session", "RBG"),
    "no session": ("pin", "RB"),
    "fork": ("pin", "R"),
    "retried": ("history", "R"),
    "first edited": ("history", "RB"),
    "foreign end": ("end", "R"),
    "prompt left behind": ("end", "R"),
    "other directory": ("workdir", "RB"),
    "other program": ("runtime", "RB"),
    "other model": ("model", "RB"),
    "other tools": ("tools", ""),
    "other login": ("account", "RBGYC"),
    "other account": ("account", "RBGYC"),
    "other home": ("account", "RB"),
    "other host": ("host", "RB"),
    "too old": ("ttl", "RB"),
    "cancelled": ("outcome", "R"),
    "killed": ("outcome", "R"),
    "timed out": ("outcome", "R"),
    "poisoned": ("poisoned", "R"),
    "retired": ("retired", "RB"),
    "full, compacts": ("pressure", ""),
    "full": ("pressure", "RB"),
    "full, in a flow": ("pressure", "RBGY"),
    "file gone": ("file", "RB"),
    "too big": ("size", "RBG"),
    "over half the window": ("fits", "Y"),
    "over the prompt limit": ("fits", "Y"),
    "too much to catch up": ("fits", "RBY"),
    "no room beside the message": ("fits", "YC"),
    "nearly used up": ("limits", ""),
    "refused": ("limits", ""),
    "paid otherwise": ("limits", ""),
    "busy": ("busy", ""),
}


def check(name: str, now: Situation) -> Check:
    return next(each for each in decide(now).checks if each.check == name)


def test_the_table_is_complete() -> None:
    assert ROWS.keys() == BREAKS.keys()
    assert {name for name, _ in ROWS.values()} == set(NAMES)


@pytest.mark.parametrize("wrong", ROWS)
def test_what_is_wrong_fails_one_check_and_all_are_recorded(wrong: str) -> None:
    name, bars = ROWS[wrong]
    checks = decide(broken(wrong)).checks
    assert tuple(each.check for each in checks) == NAMES
    failed = {each.check for each in checks if each.verdict == "fail"}
    assert failed == ({name, "pin"} if wrong == "other account" else {name})
    found = next(each for each in checks if each.check == name)
    assert found.bars == tuple(BARS[letter] for letter in bars)
    assert found.detail
    assert all(not each.bars for each in checks if each.verdict != "fail")


def test_when_all_is_well_nothing_fails() -> None:
    checks = decide(situation()).checks
    assert len(checks) == len(CHECKS) == 23
    assert {each.check for each in checks if each.verdict != "pass"} == {"tools", "ttl", "pressure", "limits"}


HOLDS_ITS_PEACE: list[tuple[str, str, dict[str, Any]]] = [
    ("runtime", "pass", {"pinned": {"version": "2.1.50"}}),
    ("runtime", "pass", {"pinned": {"version": None}}),
    ("model", "pass", {"model": "opus"}),
    ("model", "pass", {"model": None}),
    ("outcome", "pass", {"pinned": {"ended": Ended("cancelled", tools_run=3)}}),
    ("outcome", "pass", {"pinned": {"ended": Ended("auth")}}),
    ("outcome", "pass", {"pinned": {"ended": Ended("rate_limited")}}),
    ("outcome", "pass", {"pinned": {"ended": Ended("network")}}),
    ("outcome", "pass", {"pinned": {"ended": Ended("model_error")}}),
    ("retired", "pass", {"pinned": {"failures": 1}}),
    ("retired", "pass", {"pinned": {"failures": 1, "ended": Ended("session_rejected")}}),
    ("retired", "fail", {"pinned": {"ended": Ended("session_rejected", tools_run=None)}}),
    ("outcome", "pass", {"pinned": {"ended": Ended("timeout", tools_run=None)}}),
    ("pressure", "pass", {"pinned": {"context": Context(159_000, 200_000)}}),
    ("pressure", "fail", {"pinned": {"context": Context(160_000, 200_000)}}),
    ("pressure", "pass", {"pinned": FULL, "policy": {"context_threshold": 0.99}}),
    ("pressure", "skip", {"pinned": {"context": Context(190_000, None)}}),
    ("pressure", "skip", {"pinned": {"context": Context(None, 200_000)}}),
    ("limits", "pass", {"limits": (Limit("5h", 0.89, 20_000_000),)}),
    ("limits", "pass", {"limits": (Limit("5h", 0.0, 20_000_000),)}),
    ("limits", "skip", {"limits": (Limit("5h", None, 20_000_000),)}),
    ("limits", "skip", {"limits": (Limit("5h", 1.0, 10_000_000),)}),
    ("limits", "skip", {"pays": "api_key"}),
    ("limits", "skip", {"paid": "api_key"}),
    ("limits", "skip", {"pays": "api_key", "paid": "api_key"}),
    ("ttl", "skip", {"now_ms": 10**15}),
    ("ttl", "pass", {"now_ms": 11_800_000, "policy": {"ttl_minutes": 30}}),
    ("end", "skip", {"file": File(True, 1000, None)}),
    ("end", "skip", {"pinned": {"end": None}}),
    ("file", "skip", {"file": File()}),
    ("file", "skip", {"file": File(False), "host": Host("there")}),
    ("size", "pass", {"file": File(True, 50 * 1024 * 1024, "@a1")}),
    ("size", "skip", {"file": File(False)}),
    ("account", "pass", {"hidden": 2}),
    ("account", "pass", {"spoken": "u1@claude/work a1@claude/work u2", "holds": "u2!", "hidden": 2}),
    ("account", "pass", {"spoken": "u1@codex b1@codex u2@claude/work u3", "holds": None, "hidden": 1}),
    ("account", "pass", {"pinned": {"login": "me"}, "login": None}),
    ("account", "pass", {"pinned": {"login": None}, "login": "me"}),
    ("fits", "skip", {"spoken": "u1", "holds": None, "view_bytes": 10**9}),
    ("fits", "pass", {"view_bytes": 400_000, "window": 1_000_000}),
    ("fits", "fail", {"view_bytes": 40_000, "window": 20_000}),
    ("fits", "pass", {"view_bytes": 10_000, "can": {"prompt_limit": 10_000}}),
]


@pytest.mark.parametrize(("name", "verdict", "facts"), HOLDS_ITS_PEACE)
def test_a_check_fails_only_for_its_reason(name: str, verdict: str, facts: dict[str, Any]) -> None:
    assert check(name, situation(**facts)).verdict == verdict


@pytest.mark.parametrize("name", ["history", "end", "workdir", "runtime", "model", "host", "ttl", "outcome"])
def test_without_a_session_there_is_nothing_to_compare(name: str) -> None:
    now = broken("no session", "too old", "other directory", "other model", host=Host("there"))
    assert check(name, now).verdict == "skip"


@pytest.mark.parametrize(
    ("scope", "here", "verdict"),
    [
        ("any", Workdir("/home/me/app", 1, 2), "pass"),
        ("any", Workdir("/mnt/app", 1, 2), "pass"),
        ("any", Workdir("/mnt/app", 2, 2), "fail"),
        ("any", Workdir("/mnt/app"), "fail"),
        ("same", Workdir("/mnt/app", 1, 2), "fail"),
        ("same", Workdir("/home/me/app"), "pass"),
    ],
)
def test_a_directory_is_known_by_its_identity(scope: str, here: Workdir, verdict: str) -> None:
    found = check("workdir", situation(workdir=here, can={"cwd_scope": scope}))
    assert found.verdict == verdict
    assert ("/home/me/app" in found.detail and here.path in found.detail) == (verdict == "fail")


def test_a_directory_whose_inode_nobody_knew_is_known_by_its_path() -> None:
    unknown = {"workdir": Workdir("/home/me/app")}
    assert check("workdir", situation(pinned=unknown)).verdict == "pass"
    assert check("workdir", situation(pinned=unknown, workdir=Workdir("/mnt/app"))).verdict == "fail"


@pytest.mark.parametrize(
    ("wrote", "reads", "verdict"),
    [
        ("0.61.0", "0.29.0", "fail"),
        ("0.61", "0.29", "fail"),
        ("0.29.0", "0.61.0", "pass"),
        ("0.610.0", "0.29.0", "pass"),
        (None, "0.29.0", "pass"),
        ("0.61.0", None, "pass"),
    ],
)
def test_a_pair_of_versions_known_to_fail(wrote: str | None, reads: str | None, verdict: str) -> None:
    gemini = replace(situation().runtime, distribution="gemini-cli", version=reads)
    now = situation(pinned={"runtime": gemini.identity, "version": wrote})
    pairs = registry.get("gemini", Config()).facts.failing_pairs
    assert check("runtime", replace(now, runtime=gemini, failing_pairs=pairs)).verdict == verdict


@pytest.mark.parametrize(
    ("name", "words", "facts"),
    [
        ("history", "^the session holds 2 messages$", {}),
        ("history", ", 2 to catch up", {"spoken": "u1 a1 u2@codex b2@codex u3"}),
        ("history", "^the session holds 3 messages$", {"holds": "u1 a1! u2!"}),
        (
            "history",
            "answer ends; the session is valid",
            {"spoken": "u1 a1 u2 a2 u3", "holds": "u1 a1! u2 a2"},
        ),
        (
            "history",
            "#1 was edited",
            {"spoken": "u1' a1 u2", "broken": say("#1 was edited", "history.edited", number=1)},
        ),
        (
            "pin",
            r"claude has no session in this conversation yet \(codex has\)",
            {"holds": None, "others": ("codex",)},
        ),
        ("pin", r"claude \(reviewer\) has no", {"holds": None, "voice": Voice("claude", "reviewer")}),
        ("runtime", "updated from 2.1.50 to 2.1.325", {"pinned": {"version": "2.1.50"}}),
        ("outcome", "after 3 tool calls", {"pinned": {"ended": Ended("killed", tools_run=3)}}),
        ("end", "a prompt that failed", BREAKS["prompt left behind"]),
        ("end", "somebody else has continued", BREAKS["foreign end"]),
        ("capability", "Claude 2.1.325 does not resume: it started", BREAKS["does not resume"]),
        ("busy", "process 7 is at it", BREAKS["busy"]),
    ],
)
def test_the_reason_in_words(name: str, words: str, facts: dict[str, Any]) -> None:
    assert re.search(words, check(name, situation(**facts)).detail)


def test_what_the_modes_leave_out_is_barred_also_when_continuity_is_off() -> None:
    off = {"enabled": False, "modes": THREE_MODES}
    assert check("enabled", situation(policy=off)).bars == ("resume", "branch", "graft", "recap")
