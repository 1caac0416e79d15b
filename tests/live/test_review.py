"""The review flow with the real CLIs: one codes, another one reviews, and what each is sent is looked at."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.rehearsal.log import LoggedRequest
from tests import clis
from tests.integration.test_review import (
    APPROVE,
    CODER_DELTA,
    CODER_FULL,
    ONCE_MORE,
    REVIEWER_DELTA,
    REVIEWER_FULL,
    reject,
)
from tests.live.conftest import OBSTACLE
from tests.live.spending import listed_usd, reported_usd
from tests.live.talk import Said, Talk, talking

TASK = "Count the words\n\nThe-whole-task is told here, once.\n"
VERSIONS = {name: clis.CLIS[name].newest for name in ("claude", "codex")}
WIRES = {"coder": "anthropic", "reviewer": "responses"}
Rule = tuple[str, str] | tuple[str, str, int]


@pytest.fixture(autouse=True)
def _ready() -> None:
    if OBSTACLE:
        pytest.skip(f"no isolation: {OBSTACLE}")
    for agent, version in VERSIONS.items():
        reason = clis.install(clis.CLIS[agent], version)
        if reason:
            pytest.skip(f"{agent} {version}: {reason}")


@contextmanager
def playing(tmp: Path, *rules: Rule, versions: dict[str, str] = VERSIONS) -> Iterator[Talk]:
    """``segue`` in a git repository, with a model that plays the rules: the words of the prompt, what to do,
    and the how many-th time."""
    scenario = tmp / "scenario.json"
    made = [{"text": text, "do": do, **({"nth": nth[0]} if nth else {})} for text, do, *nth in rules]
    scenario.write_bytes(msgspec.json.encode({"rule": made}))
    with talking(tmp, versions, scenario) as talk:
        subprocess.run(["git", "init", "--quiet", str(talk.cwd)], check=True, env=talk.env)
        (tmp / "TASK.md").write_text(TASK)
        yield talk


def review(talk: Talk, *options: str) -> Said:
    return talk("review", "../TASK.md", "--coder", "claude", "--reviewer", "codex", "--json", *options)


def report(said: Said) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(said.stdout.splitlines()[-1])
    return found


def modes(told: dict[str, Any]) -> dict[str, str]:
    return {step["key"]: step["mode"] for step in told["steps"] if step["mode"] is not None}


def asked(requests: list[LoggedRequest], role: str) -> list[str]:
    """The requests of a role, in order, as text."""
    mine = [each for each in requests if not each.side and each.protocol == WIRES[role]]
    return [msgspec.json.encode(each.body).decode() for each in mine]


def test_approved_in_two_rounds_and_only_the_delta_is_sent(tmp_path: Path) -> None:
    rules: list[Rule] = [
        (CODER_FULL, "[[write words.txt one]] [[say first-try]]"),
        (CODER_DELTA, "[[write words.txt two]] [[say second-try]]"),
        (REVIEWER_FULL, reject("f1")),
        (REVIEWER_DELTA, APPROVE),
    ]
    with playing(tmp_path, *rules) as talk:
        said = review(talk, "--check", "cat words.txt")
        assert said.code == 0, (said.stdout[-3000:], said.stderr[-3000:])
        told = report(said)
        assert (told["end"], told["rounds"]) == ("approved", 2)
        assert modes(told) == {
            "coder/1": "fresh",
            "reviewer/1": "fresh",
            "coder/2": "resume",
            "reviewer/2": "resume",
        }
        coder, reviewer = (asked(said.requests, role)[-1] for role in WIRES)
        for text in (coder, reviewer):
            assert text.count("The-whole-task") == 1, "from the first turn, natively"
        assert coder.count("about f1") == 1
        assert "second-try" not in asked(said.requests, "coder")[1]
        assert reviewer.count("second-try") == 1
        assert reviewer.count("+one") == 1
        assert reviewer.count("-one") == 1, "the changes since its last look"
        assert (talk.cwd / "words.txt").read_text().strip() == "two"
        runs = [each["run"] for each in told["steps"] if each["run"] is not None]
        chain = report(talk("chain", runs[0], "--json"))
        assert sorted(each["run"] for each in chain["turns"]) == sorted(runs)
        for name in ("input", "cache_read", "cache_write", "output"):
            served = sum(getattr(each.usage, name) for each in talk.model.requests)
            assert chain["usage"][name] == served, name
        for account in (told, chain):
            assert account["cost_usd"] == pytest.approx(reported_usd(talk), abs=1e-6)
            assert account["cost_usd"] == pytest.approx(listed_usd(talk.model.requests), abs=1e-6)


def test_a_reviewer_that_wants_the_coder_to_start_over(tmp_path: Path) -> None:
    rules: list[Rule] = [
        (CODER_FULL, "[[write words.txt one]] [[say first-try]]", 1),
        (CODER_FULL, "[[write words.txt two]] [[say second-try]]", 2),
        (REVIEWER_FULL, reject("f1", context_reset=True)),
        (REVIEWER_DELTA, APPROVE),
    ]
    with playing(tmp_path, *rules) as talk:
        said = review(talk)
        assert said.code == 0, (said.stdout[-3000:], said.stderr[-3000:])
        assert modes(report(said))["coder/2"] == "fresh"
        last = asked(said.requests, "coder")[-1]
        assert last.count("The-whole-task") == 1
        assert "first-try" not in last


@pytest.mark.soak
def test_a_reviewer_that_never_speaks_json(tmp_path: Path) -> None:
    rules: list[Rule] = [
        (CODER_FULL, "[[write words.txt one]]"),
        (REVIEWER_FULL, "[[say I approve of it]]"),
        (ONCE_MORE, "[[say As I said: fine]]"),
    ]
    with playing(tmp_path, *rules) as talk:
        said = review(talk)
        assert said.code == 1, said.stderr[-3000:]
        told = report(said)
        assert told["end"] == "failed"
        assert "no verdict that can be read" in told["result"]["reason"]
        assert modes(told)["reviewer/1/verdict"] == "resume"


@pytest.mark.soak
def test_a_stalemate(tmp_path: Path) -> None:
    rules: list[Rule] = [
        (CODER_FULL, "[[write words.txt one]]"),
        (CODER_DELTA, "[[say It is right as it is]]"),
        ("", reject("f1")),
    ]
    with playing(tmp_path, *rules) as talk:
        said = review(talk, "--rounds", "5", "--stalemate", "1")
        assert said.code == 1, said.stderr[-3000:]
        told = report(said)
        assert (told["end"], told["rounds"]) == ("stalemate", 2)


def test_killed_between_two_steps_it_goes_on_and_each_turn_ran_once(tmp_path: Path) -> None:
    rules: list[Rule] = [
        (CODER_FULL, "[[write words.txt one]] [[say first-try]]"),
        (CODER_DELTA, "[[write words.txt two]] [[say second-try]]"),
        (REVIEWER_FULL, reject("f1")),
        (REVIEWER_DELTA, APPROVE),
    ]
    with playing(tmp_path, *rules) as talk:
        once = (
            f"test -e {tmp_path}/$(cat words.txt) || {{ touch {tmp_path}/$(cat words.txt); kill -9 $PPID; }}"
        )
        killed = review(talk, "--check", once, "--no-daemon")
        assert killed.code == -9, (killed.stdout, killed.stderr)
        (flow,) = msgspec.json.decode(talk("flow", "ls", "--json").stdout)
        second = talk("flow", "resume", flow["flow"], "--json")
        assert second.code == -9, "it was killed in the second round, too"
        third = talk("flow", "resume", flow["flow"], "--json")
        assert third.code == 0, (third.stdout[-3000:], third.stderr[-3000:])
        told = report(third)
        assert (told["end"], told["rounds"]) == ("approved", 2)
        began = [each for each in asked(talk.model.requests, "coder") if "tool_result" not in each]
        assert len(began) == 1, "the first turn of the coder began once"
        assert len(asked(talk.model.requests, "coder")) == 4, "two turns, each with one tool call"
        assert len(asked(talk.model.requests, "reviewer")) == 2


def test_a_fork_of_the_coders_session_leaves_it_as_it_is(tmp_path: Path) -> None:
    rules: list[Rule] = [
        (CODER_FULL, "[[write words.txt one]] [[say only-the-coder-knows]]"),
        (CODER_DELTA, "[[write words.txt two]] [[say second-try]]"),
        (REVIEWER_FULL, reject("f1")),
        (REVIEWER_DELTA, APPROVE),
    ]
    with playing(tmp_path, *rules) as talk:
        words = (
            "review",
            "../TASK.md",
            "--coder",
            "claude",
            "--reviewer",
            "claude",
            "--fork-coder",
            "--json",
        )
        said = talk(*words)
        assert said.code == 0, (said.stdout[-3000:], said.stderr[-3000:])
        assert modes(report(said)) == {
            "coder/1": "fresh",
            "reviewer/1": "branch",
            "coder/2": "resume",
            "reviewer/2": "resume",
        }
        sent = asked(said.requests, "coder")
        reviewed = [each for each in sent if REVIEWER_FULL in each]
        coded = [each for each in sent if REVIEWER_FULL not in each]
        assert reviewed[0].count("only-the-coder-knows") == 2, "natively, and as what the coder said"
        assert coded[-1].count("only-the-coder-knows") == 1


@pytest.mark.parametrize("reviewer", ["claude", "codex"])
def test_the_verdict_is_asked_for_by_the_schema_of_the_cli(tmp_path: Path, reviewer: str) -> None:
    rules: list[Rule] = [
        (CODER_FULL, "[[write words.txt one]] [[say first-try]]"),
        (CODER_DELTA, "[[write words.txt two]] [[say second-try]]"),
        (REVIEWER_FULL, reject("f1")),
        (REVIEWER_DELTA, APPROVE),
    ]
    with playing(tmp_path, *rules) as talk:
        given = ("--coder", "claude", "--reviewer", reviewer, "--json")
        said = talk("review", "../TASK.md", *given)
        told = report(said)
        assert (said.code, told["end"], told["rounds"]) == (0, "approved", 2), said.stderr[-3000:]
        assert modes(told)["reviewer/2"] == "resume"
        bodies = [each.body or {} for each in talk.model.requests if not each.side]
        reviews = [each for each in bodies if REVIEWER_FULL in msgspec.json.encode(each).decode()]
        others = [each for each in bodies if each not in reviews]
        assert reviews
        assert others
        for each in reviews:
            assert list(_schema(each)["properties"]) == ["verdict", "findings", "notes", "context_reset"]
            assert "verdict" in _schema(each)["required"]
        assert not any(map(_schema, others)), "the coder is asked for nothing"
        log = msgspec.json.decode(talk("log", f"flow/{told['flow']}/review", "--json").stdout)
        assert '"verdict"' in (log if isinstance(log, list) else log["messages"])[-1]["text"]


NO_VERDICT = " ".join(['[[tool StructuredOutput {"verdict": 7}]]'] * 6)
"""What Claude refuses each time, until it gives up."""


@pytest.mark.parametrize("how", ["never calls the tool", "never has the form"])
@pytest.mark.parametrize("then", [APPROVE, "[[say fine]]"], ids=["a block counts", "nothing helps"])
def test_a_schema_that_is_not_met_is_asked_for_once_more_as_text(tmp_path: Path, how: str, then: str) -> None:
    """In the same session, and without the option: it was of no use."""
    rules: list[Rule] = [
        (CODER_FULL, "[[write words.txt one]] [[say first-try]]"),
        (ONCE_MORE, then),
        (REVIEWER_FULL, "[[say fine]]" if how == "never calls the tool" else NO_VERDICT),
        ("You MUST call the StructuredOutput tool", "[[say fine]]"),
    ]
    with playing(tmp_path, *rules) as talk:
        said = talk("review", "../TASK.md", "--coder", "claude", "--reviewer", "claude", "--json")
        told = report(said)
        keys = ["coder/1", "reviewer/1", "reviewer/1/verdict"]
        assert modes(told) == dict(zip(keys, ["fresh", "fresh", "resume"], strict=True)), told
        bodies = [each.body or {} for each in talk.model.requests if not each.side]
        last = [each for each in bodies if ONCE_MORE in msgspec.json.encode(each["messages"][-1]).decode()]
        assert last
        assert not any(map(_schema, last))
        if then == APPROVE:
            assert (said.code, told["end"]) == (0, "approved"), told
        else:
            why = "the reviewer gave no verdict that can be read: the answer has no JSON block"
            assert (said.code, told["end"], told["result"]["reason"]) == (1, "failed", why)


def _schema(body: dict[str, Any]) -> dict[str, Any]:
    """The schema in a request: as a tool, or as the format of the text."""
    tools = {each.get("name"): each for each in body.get("tools", [])}
    found: dict[str, Any] = tools.get("StructuredOutput", {}).get("input_schema", {})
    return found or body.get("text", {}).get("format", {}).get("schema", {})
