"""Which sessions may go: row by row, and never one that somebody needs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from segue.core.transcript import Brief
from segue.sessions.pruning import DAY_MS, Candidate, Rules, judge
from segue.sessions.shelf import Known

NOW = 100 * DAY_MS
OLD = Candidate(
    agent="claude", id="old", size=10, last_used_ms=NOW - 8 * DAY_MS, brief=Brief(), known=Known(ours=True)
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
        ({"known": Known("k", pinned=True, ours=True)}, {"days": 0}, False),
        ({"known": Known("k", pinned=True)}, {"days": 0, "all_sessions": True}, False),
        ({"running": True}, {"days": 0}, False),
        ({"brief": Brief(title="mine", title_by="user")}, {"days": 0}, False),
        ({"brief": Brief(title="made up", title_by="agent")}, {}, True),
        ({"known": Known()}, {}, None),
        ({"known": Known("k")}, {}, None),
        ({"known": Known()}, {"all_sessions": True}, True),
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
            OLD, id=f"{key}{n}", last_used_ms=OLD.last_used_ms - n, known=Known(key, ours=True)
        )
        for key in ("a", "b")
        for n in range(4)
    ]
    left = {each.candidate.id for each in judge(sessions, Rules(keep_last=2), NOW) if not each.goes}
    assert left == {"a0", "a1", "b0", "b1"}
