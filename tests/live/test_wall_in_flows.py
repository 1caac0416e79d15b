"""The wall between two accounts of the real Claude: in a review, and between the tiers of an escalation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.clis import CLIS
from tests.integration.test_review import APPROVE, CODER_FULL, REVIEWER_FULL
from tests.live.talk import Said, Talk
from tests.live.test_account_switch import second_account
from tests.live.test_escalate import DONE, UP, escalate, write
from tests.live.test_review import playing, report
from tests.live.test_switching import ready

SECRET = "xsecretx"
CLAUDE = CLIS["claude"].newest
NEVER = '[carry]\nnever = [["claude", "other"]]'
ROLES = (
    "--coder",
    "claude",
    "--coder-account",
    "claude",
    "--reviewer",
    "claude",
    "--reviewer-account",
    "other",
)


@pytest.fixture(autouse=True)
def _ready() -> None:
    ready("claude", CLAUDE)


def holds(talk: Talk, word: str = SECRET) -> bool:
    """Whether a word is anywhere in the second account's home."""
    home = talk.place / "other-home"
    homes = [home] if home.is_dir() else [each for each in talk.place.rglob("other-home") if each.is_dir()]
    assert homes, "the second account has a home"
    files = (each for home in homes for each in home.rglob("*") if each.is_file())
    return any(word.encode() in each.read_bytes() for each in files)


def audit(talk: Talk) -> list[tuple[Any, ...]]:
    rows = msgspec.json.decode(talk("account", "audit", "--json").stdout)
    return sorted((row["from_account"], row["to_account"], row["mode"], row["asked_by"]) for row in rows)


def review(talk: Talk) -> Said:
    return talk("review", "../TASK.md", *ROLES, "--json")


@pytest.mark.parametrize("never", [True, False], ids=["never", "allowed"])
def test_a_review_of_two_accounts(tmp_path: Path, never: bool) -> None:
    rules = ((CODER_FULL, f"[[write words.txt one]] [[say {SECRET}]]"), (REVIEWER_FULL, APPROVE))
    with playing(tmp_path, *rules) as talk:
        second_account(talk, "claude")
        if never:
            talk.config(NEVER)
        said = review(talk)
        if never:
            assert said.code == 2, (said.stdout[-3000:], said.stderr[-3000:])
            assert "what was said under claude is never carried over to other" in said.stderr
            assert said.requests == []
            assert (holds(talk), audit(talk)) == (False, [])
            return
        assert said.code == 0, (said.stdout[-3000:], said.stderr[-3000:])
        assert report(said)["end"] == "approved"
        assert holds(talk)
        ways = [("claude", "other", "flow", "flow"), ("other", "claude", "flow", "flow")]
        assert audit(talk) == ways


@pytest.mark.parametrize("tier", ["never", "unasked", "carry"])
def test_a_tier_of_another_account(tmp_path: Path, tier: str) -> None:
    with playing(tmp_path, ("nothing plays this", "[[say no]]")) as talk:
        second_account(talk, "claude")
        if tier == "never":
            talk.config(NEVER)
        said_secret = UP.replace("the disk is full", SECRET)
        more = {"carry": True} if tier == "carry" else {}
        write(
            talk,
            {"say": f"[[say {said_secret}]]", "agent": "claude", "account": "claude"},
            {"say": f"[[say {DONE}]]", "agent": "claude", "account": "other", **more},
        )
        if tier == "never":
            said = talk("escalate", "FLOW.toml", "--json")
            assert said.code == 2, said.stderr
            assert "tier 1 (t1) and tier 2 (t2): what was said under claude is never" in said.stderr
            assert (said.requests, holds(talk)) == ([], False)
            return
        told = escalate(talk)
        assert told["end"] == "done", told
        last = msgspec.json.encode([each.body for each in talk.model.requests if not each.side][-1]).decode()
        assert (SECRET in last, holds(talk)) == ((True, True) if tier == "carry" else (False, False))
        assert audit(talk) == ([("claude", "other", "flow", "trusted file")] if tier == "carry" else [])
