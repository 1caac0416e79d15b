"""The wall between two accounts of a real CLI: in a review, between tiers, and by way of a third account."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.integration.test_review import APPROVE, CODER_FULL, REVIEWER_FULL
from tests.live.talk import EVERY, Talk
from tests.live.test_account_switch import second_account
from tests.live.test_escalate import DONE, UP, escalate, write
from tests.live.test_review import playing, report
from tests.live.test_switching import ready

SECRET = "xsecretx"
BOTH = [each for each in EVERY if str(each.id).startswith(("claude", "codex"))]


@dataclass(frozen=True)
class Cli:
    """One version of an agent. Its account is named as the agent; the second one is ``other``."""

    agent: str
    version: str

    @property
    def versions(self) -> dict[str, str]:
        return {self.agent: self.version}

    @property
    def never(self) -> str:
        return f'[carry]\nnever = [["{self.agent}", "other"]]'

    @property
    def roles(self) -> tuple[str, ...]:
        coder = ("--coder", self.agent, "--coder-account", self.agent)
        return (*coder, "--reviewer", self.agent, "--reviewer-account", "other")


@pytest.fixture(params=BOTH)
def cli(request: pytest.FixtureRequest) -> Cli:
    agent, version = request.param
    ready(agent, version)
    return Cli(agent, version)


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


@pytest.mark.parametrize("never", [True, False], ids=["never", "allowed"])
def test_a_review_of_two_accounts(tmp_path: Path, cli: Cli, never: bool) -> None:
    rules = ((CODER_FULL, f"[[say {SECRET}]]"), (REVIEWER_FULL, APPROVE))
    with playing(tmp_path, *rules, versions=cli.versions) as talk:
        second_account(talk, cli.agent)
        if never:
            talk.config(cli.never)
        said = talk("review", "../TASK.md", *cli.roles, "--json")
        if never:
            assert said.code == 2, (said.stdout[-3000:], said.stderr[-3000:])
            assert f"what was said under {cli.agent} is never carried over to other" in said.stderr
            assert said.requests == []
            assert (holds(talk), audit(talk)) == (False, [])
            return
        assert said.code == 0, (said.stdout[-3000:], said.stderr[-3000:])
        assert report(said)["end"] == "approved"
        assert holds(talk)
        ways = [(cli.agent, "other", "flow", "flow"), ("other", cli.agent, "flow", "flow")]
        assert audit(talk) == ways


@pytest.mark.parametrize("tier", ["never", "unasked", "carry"])
def test_a_tier_of_another_account(tmp_path: Path, cli: Cli, tier: str) -> None:
    with playing(tmp_path, ("nothing plays this", "[[say no]]"), versions=cli.versions) as talk:
        second_account(talk, cli.agent)
        if tier == "never":
            talk.config(cli.never)
        said_secret = UP.replace("the disk is full", SECRET)
        more = {"carry": True} if tier == "carry" else {}
        write(
            talk,
            {"say": f"[[say {said_secret}]]", "agent": cli.agent, "account": cli.agent},
            {"say": f"[[say {DONE}]]", "agent": cli.agent, "account": "other", **more},
        )
        if tier == "never":
            said = talk("escalate", "FLOW.toml", "--json")
            assert said.code == 2, said.stderr
            assert f"tier 1 (t1) and tier 2 (t2): what was said under {cli.agent} is never" in said.stderr
            assert (said.requests, holds(talk)) == ([], False)
            return
        told = escalate(talk)
        assert told["end"] == "done", told
        last = msgspec.json.encode([each.body for each in talk.model.requests if not each.side][-1]).decode()
        assert (SECRET in last, holds(talk)) == ((True, True) if tier == "carry" else (False, False))
        assert audit(talk) == ([(cli.agent, "other", "flow", "trusted file")] if tier == "carry" else [])


def test_words_are_not_passed_on_by_a_third_account(tmp_path: Path, cli: Cli) -> None:
    """They were carried to the second account with consent. That is no consent for the next one."""
    with playing(tmp_path, ("nothing plays this", "[[say no]]"), versions=cli.versions) as talk:
        second_account(talk, cli.agent)
        second_account(talk, cli.agent, "third")
        talk.config(f'[carry]\nnever = [["{cli.agent}", "third"]]')
        talk.run(f"[[say {SECRET}]]", "--agent", cli.agent, "--account", cli.agent)
        assert talk("account", "switch", "t", "other", "--carry").code == 0
        assert SECRET in talk.run("[[say it is known here]]").sent
        refused = talk("account", "switch", "t", "third", "--carry")
        assert refused.code == 2, (refused.stdout, refused.stderr)
        assert f"what was said under {cli.agent} is never carried over to third" in refused.stderr
        assert refused.requests == []
        begun = talk.run("[[say new here]]", "--account", "third")
        assert SECRET not in begun.sent
