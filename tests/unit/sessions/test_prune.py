"""Which sessions may go: row by row, and never one that somebody needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.agents.codex.archive import ARCHIVE
from segue.agents.codex.format import FORMAT
from segue.core.transcript import Brief, Entry
from segue.sessions.agent_homes import AgentHome
from segue.sessions.catalog import KnownSessions
from segue.sessions.listing import list_sessions
from segue.sessions.prune import DAY_MS, Candidate, Rules, is_named, judge

NOW = 100 * DAY_MS
OLD = Candidate(
    agent="claude",
    id="old",
    size=10,
    last_used_ms=NOW - 8 * DAY_MS,
    brief=Brief(),
    known=KnownSessions(ours=True),
)


def goes(candidate: Candidate, **rules: Any) -> bool | None:
    """None: the rules do not speak of it."""
    verdicts = judge([candidate], Rules(**rules), NOW)
    return verdicts[0].goes if verdicts else None


@pytest.mark.parametrize(
    ("change", "rules", "expected"),
    [
        ({}, {}, True),
        ({"last_used_ms": NOW - 6 * DAY_MS}, {}, False),
        ({"last_used_ms": NOW - 6 * DAY_MS}, {"days": 5}, True),
        ({"last_used_ms": NOW}, {"days": 0}, True),
        ({"known": KnownSessions("k", pinned=True, ours=True)}, {"days": 0}, False),
        ({"known": KnownSessions("k", pinned=True)}, {"days": 0, "all_sessions": True}, False),
        ({"running": True}, {"days": 0}, False),
        ({"brief": Brief(title="mine", title_by="user")}, {"days": 0}, False),
        ({"brief": Brief(title="made up", title_by="agent")}, {}, True),
        ({"known": KnownSessions()}, {}, None),
        ({"known": KnownSessions("k")}, {}, None),
        ({"known": KnownSessions()}, {"all_sessions": True}, True),
        ({"here": False}, {}, None),
        ({}, {"agents": ("codex",)}, None),
        ({}, {"agents": ("codex", "claude")}, True),
        ({}, {"larger": 10}, False),
        ({}, {"larger": 9}, True),
    ],
)
def test_a_session_goes_only_if_nobody_needs_it(
    change: dict[str, Any], rules: dict[str, Any], expected: bool | None
) -> None:
    assert goes(msgspec.structs.replace(OLD, **change), **rules) is expected


def test_the_newest_of_each_conversation_stay() -> None:
    sessions = [
        msgspec.structs.replace(
            OLD, id=f"{key}{n}", last_used_ms=OLD.last_used_ms - n, known=KnownSessions(key, ours=True)
        )
        for key in ("a", "b")
        for n in range(4)
    ]
    left = {each.candidate.id for each in judge(sessions, Rules(keep_last=2), NOW) if not each.goes}
    assert left == {"a0", "a1", "b0", "b1"}


def title(text: str, **more: Any) -> Entry:
    return Entry(id="0.0", kind="state", label="title", text=text, **more)


SAID = Entry(id="0.0", kind="user", text="title")


@pytest.mark.parametrize(
    ("brief", "entries", "expected"),
    [
        (Brief(), [], False),
        (Brief(title="mine", title_by="user"), [], True),
        (Brief(title="hello", title_by="prompt"), [SAID, title("mine"), SAID], True),
        (Brief(title="hello", title_by="prompt"), [SAID, title("mine", restored=False)], True),
        (Brief(title="made up", title_by="agent"), [title("mine"), title("made up")], True),
        (Brief(title="made up", title_by="agent"), [SAID, title("made up")], False),
        (Brief(), [title(" ")], False),
        (Brief(), [Entry(id="0.0", kind="state", label="title by the model", text="made up")], False),
    ],
)
def test_a_name_is_found_wherever_it_stands(brief: Brief, entries: list[Entry], expected: bool) -> None:
    assert is_named(brief, entries) is expected


def test_a_name_that_is_given_beside_a_session_is_not_missed(tmp_path: Path) -> None:
    thread = "11111111-2222-4333-8444-555555555555"
    home = tmp_path / "codex"
    file = home / "sessions" / "2026" / "01" / "02" / f"rollout-2026-01-02T03-04-05-{thread}.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"type": "session_meta", "payload": {"id": thread, "cwd": "/w"}}) + "\n")
    places = [AgentHome("codex", None, home, FORMAT, ARCHIVE)]
    assert [each.brief.title_by for each in list_sessions(places, tmp_path / "memory")] == [None]
    (home / "session_index.jsonl").write_text(json.dumps({"id": thread, "thread_name": "mine"}) + "\n")
    assert [each.brief.title_by for each in list_sessions(places, tmp_path / "memory")] == ["user"]
