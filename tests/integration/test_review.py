"""The review flow with the rehearsal agent: each answer of each role comes from a scenario."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from segue import Chain, FlowShown, InUse, Misuse, Segue, SegueError
from segue.flows.review.verdict import Verdict, parse
from tests.integration.conftest import Program
from tests.integration.test_flows import begun, polled

T = TypeVar("T")
PATIENCE_S = 120.0
CODER_FULL, CODER_DELTA = "You write the code", "has rejected the changes"
REVIEWER_FULL, REVIEWER_DELTA = "You review the changes", "has worked on your findings"
ONCE_MORE, COORDINATOR = "Your verdict could not be read", "are making no progress"
APPROVE = '[[say {"verdict": "approve", "notes": "well done"}]]'


def reject(*findings: str, **more: Any) -> str:
    """A rejection. Each finding: ``id`` or ``id:state``."""
    said = [each.partition(":")[::2] for each in findings]
    listed = [{"id": id_, "text": f"about {id_}", "state": state or "open"} for id_, state in said]
    verdict = {"verdict": "reject", "findings": listed, "notes": "not yet", **more}
    return f"[[say Look:\n```json\n{msgspec.json.encode(verdict).decode()}\n```]]"


class Stage:
    """A git repository, and a scenario for the rehearsal agent."""

    def __init__(self, segue: Program) -> None:
        self.segue, self.cwd = segue, segue.cwd
        self.scenario = segue.home.parent / "scenario.json"
        self.sessions = segue.home / "agent" / "sessions"
        self.env = {
            **segue.env,
            "REHEARSAL_HOME": str(segue.home / "agent"),
            "REHEARSAL_SCENARIO": str(self.scenario),
            "SEGUE_KEEP_ENABLED": "false",
        }
        self.git("init", "--quiet")
        (self.cwd / "start.txt").write_text("start\n")
        self.git("add", "--all")
        self.git("-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "--quiet", "-m", "first")

    def git(self, *args: str) -> str:
        command = ["git", "-C", str(self.cwd), *args]
        return subprocess.run(command, env=self.segue.env, check=True, capture_output=True, text=True).stdout

    def play(self, *rules: tuple[str, str] | tuple[str, str, int]) -> None:
        """Rules: the words of the prompt, what to do, and the how many-th time."""
        made = [{"text": text, "do": do, **({"nth": nth[0]} if nth else {})} for text, do, *nth in rules]
        self.scenario.write_bytes(msgspec.json.encode({"rule": made}))

    def within(self, work: Callable[[Segue], Awaitable[T]], **env: str) -> T:
        async def go() -> T:
            async with (
                asyncio.timeout(PATIENCE_S),
                Segue(env={**self.env, **env}, cwd=self.cwd) as library,
            ):
                return await work(library)

        return asyncio.run(go())

    def review(self, task: str = "Build it\n\nAs told.", **options: Any) -> FlowShown:
        async def work(segue: Segue) -> FlowShown:
            given = {"coder": "rehearsal", "reviewer": "rehearsal", **options}
            return await segue.flows.review(task, **given)

        return self.within(work)

    def prompts(self, shown: FlowShown) -> dict[str, str]:
        """What was sent to the agent in each step, from its own sessions."""

        async def sessions(segue: Segue) -> dict[str, str]:
            runs = {step.key: await segue.runs.show(step.run) for step in shown.steps if step.run}
            return {key: run.turn.session_id or "" for key, run in runs.items() if run.turn is not None}

        told: dict[str, str] = {}
        used: Counter[str] = Counter()
        for key, session in self.within(sessions).items():
            sent = self._sent(session)
            told[key] = sent[used[session]] if used[session] < len(sent) else ""
            used[session] += 1
        return told

    def killed(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        """Run the program with its process id in the file ``pid``."""
        return subprocess.run(
            ["sh", "-c", 'echo $$ > pid; exec "$@"', "sh", *self.segue.command, *words],
            cwd=self.cwd,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )

    def session(self, shown: FlowShown, key: str) -> str:
        """The native session of a step."""
        (run,) = (step.run for step in shown.steps if step.key == key)

        async def found(segue: Segue) -> str:
            turn = (await segue.runs.show(run or "")).turn
            return (turn.session_id if turn is not None else None) or ""

        return self.within(found)

    def _sent(self, session: str) -> list[str]:
        file = self.sessions / f"{session}.jsonl"
        said = map(msgspec.json.decode, file.read_bytes().splitlines()[1:]) if file.exists() else ()
        return [each["text"] for each in said if each["role"] == "user" and each["kind"] == "text"]


@pytest.fixture
def stage(segue: Program) -> Stage:
    return Stage(segue)


def result(shown: FlowShown) -> dict[str, Any]:
    assert shown.result is not None, shown.failure
    found: dict[str, Any] = msgspec.json.decode(shown.result)
    return found


def modes(shown: FlowShown) -> dict[str, str | None]:
    return {step.key: step.mode for step in shown.steps if step.kind == "turn"}


def states(shown: FlowShown) -> dict[str, str]:
    return {each["id"]: each["state"] for each in result(shown)["findings"]}


def test_it_is_approved_in_the_second_round_and_each_role_keeps_its_session(stage: Stage) -> None:
    stage.play(
        (CODER_FULL, "[[write code.txt one]] [[say first try]]"),
        (CODER_DELTA, "[[write code.txt two]] [[say second try]]"),
        (REVIEWER_FULL, reject("a", "b")),
        (
            REVIEWER_DELTA,
            '[[say {"verdict": "approve", "findings": [{"id": "a", "state": "resolved"}, '
            '{"id": "b", "state": "resolved"} ]}]]',
        ),
    )
    shown = stage.review(checks=["cat code.txt"])
    assert (shown.state, shown.end, shown.rounds) == ("done", "approved", 2), shown.failure
    assert [step.key for step in shown.steps] == [
        *("base", "coder/1", "look/1", "check/1/1", "reviewer/1"),
        *("coder/2", "look/2", "check/2/1", "reviewer/2"),
    ]
    assert modes(shown) == {
        "coder/1": "fresh",
        "reviewer/1": "fresh",
        "coder/2": "resume",
        "reviewer/2": "resume",
    }
    assert states(shown) == {"a": "resolved", "b": "resolved"}
    assert [each["output"] for each in result(shown)["checks"]] == ["two"]
    told = stage.prompts(shown)
    assert "As told." in told["coder/1"]
    assert "As told." in told["reviewer/1"]
    assert "+one" in told["reviewer/1"]
    assert "first try" in told["reviewer/1"]
    assert "As told." not in told["coder/2"] + told["reviewer/2"]
    assert "about a" in told["coder/2"]
    assert "Objective: Build it" in told["coder/2"]
    assert "-one" in told["reviewer/2"], "the changes since its last look"
    assert "second try" not in told["coder/2"]
    assert stage.git("status", "--short") == "?? code.txt\n"


def test_the_rounds_are_counted(stage: Stage) -> None:
    stage.play((CODER_FULL, "[[write a 1]]"), (CODER_DELTA, "[[write a 2]]"), ("", reject("a")))
    shown = stage.review(rounds=2)
    assert (shown.state, shown.end, shown.rounds) == ("done", "capped", 2)
    assert result(shown)["reason"] == "not approved within 2 rounds; 1 finding open"


def test_a_stalemate_ends_it(stage: Stage) -> None:
    stage.play((CODER_FULL, "[[write a 1]]"), (CODER_DELTA, "[[say I think it is fine]]"), ("", reject("a")))
    shown = stage.review(rounds=9)
    assert (shown.state, shown.end, shown.rounds) == ("done", "stalemate", 3)
    assert states(shown) == {"a": "open"}


def test_what_is_resolved_stays_resolved_and_other_topics_are_listed(stage: Stage) -> None:
    stage.play(
        (CODER_FULL, "[[write a 1]]"),
        (CODER_DELTA, "[[write a 2]]", 1),
        (CODER_DELTA, "[[write a 3]]", 2),
        (REVIEWER_FULL, reject("a", "b", "logo:outside")),
        (REVIEWER_DELTA, reject("a:resolved"), 1),
        (REVIEWER_DELTA, reject("a", "b:resolved"), 2),
    )
    shown = stage.review(rounds=3)
    assert states(shown) == {"a": "resolved", "b": "resolved"}
    assert [each["id"] for each in result(shown)["outside"]] == ["logo"]
    assert "logo" not in stage.prompts(shown)["coder/2"]


def test_context_reset_gives_the_coder_a_new_session_with_the_whole_task(stage: Stage) -> None:
    stage.play(
        (CODER_FULL, "[[write a 1]]", 1),
        (CODER_FULL, "[[write a 2]]", 2),
        (REVIEWER_FULL, reject("a", context_reset=True)),
        (REVIEWER_DELTA, APPROVE),
    )
    shown = stage.review()
    assert (shown.end, shown.rounds) == ("approved", 2)
    assert modes(shown)["coder/2"] == "fresh"
    assert modes(shown)["reviewer/2"] == "resume"
    told = stage.prompts(shown)["coder/2"]
    for part in ("As told.", "wants you to start over", "about a"):
        assert part in told


def test_the_turns_of_all_roles_are_one_chain(stage: Stage) -> None:
    """A role that begins a session comes from the turn before, as a part of the review."""
    stage.play(
        (CODER_FULL, "[[write a 1]]", 1),
        (CODER_FULL, "[[write a 2]]", 2),
        (REVIEWER_FULL, reject("a", context_reset=True)),
        (REVIEWER_DELTA, APPROVE),
    )
    shown = stage.review()
    runs = {step.key: step.run or "" for step in shown.steps if step.run}
    for run in runs.values():
        chain = stage.within(partial(_chain, run))
        known = {each.run: each.step for each in chain.turns}
        assert {each.step: (each.kind, known.get(each.parent or "")) for each in chain.turns} == {
            "coder/1": (None, None),
            "reviewer/1": ("review", "coder/1"),
            "coder/2": ("review", "reviewer/1"),
            "reviewer/2": ("resume", "reviewer/1"),
        }
        assert chain.cost_usd == pytest.approx(shown.cost_usd, abs=1e-9)


def test_a_verdict_that_cannot_be_read_is_asked_for_once_more(stage: Stage) -> None:
    stage.play((CODER_FULL, "[[write a 1]]"), (REVIEWER_FULL, "[[say I approve]]"), (ONCE_MORE, APPROVE))
    shown = stage.review()
    assert (shown.end, shown.rounds) == ("approved", 1)
    assert modes(shown)["reviewer/1/verdict"] == "resume"
    assert "the answer has no JSON block" in stage.prompts(shown)["reviewer/1/verdict"]


def test_a_reviewer_that_never_speaks_json_stops_it_with_the_reason(stage: Stage) -> None:
    stage.play((CODER_FULL, "[[write a 1]]"), ("", "[[say fine]]"))
    shown = stage.review()
    assert (shown.state, shown.end) == ("failed", "failed")
    assert result(shown)["reason"] == (
        "the reviewer gave no verdict that can be read: the answer has no JSON block"
    )
    assert shown.next == f"segue flow retry-step {shown.flow} reviewer/1/verdict"


def test_the_coordinator_is_asked_after_two_rejections_and_its_guidance_starts_the_coder_over(
    stage: Stage,
) -> None:
    stage.play(
        (CODER_FULL, "[[write a 1]]", 1),
        (CODER_FULL, "[[write a 3]]", 2),
        (CODER_DELTA, "[[write a 2]]"),
        (REVIEWER_FULL, reject("a")),
        (REVIEWER_DELTA, reject("a"), 1),
        (REVIEWER_DELTA, APPROVE, 2),
        (COORDINATOR, "[[say use another pool]]"),
    )
    shown = stage.review(coordinator="rehearsal")
    assert (shown.end, shown.rounds) == ("approved", 3)
    assert [key for key in modes(shown) if "coordinator" in key] == ["coordinator/2"]
    assert modes(shown)["coder/3"] == "fresh"
    told = stage.prompts(shown)
    assert "use another pool" in told["coder/3"]
    assert "As told." in told["coder/3"]
    assert "2 times in a row" in told["coordinator/2"]
    assert "+2" in told["coordinator/2"]


def test_a_turn_that_ends_by_its_own_error_begins_anew_with_a_note(stage: Stage) -> None:
    stage.play(
        (CODER_FULL, "[[shell touch done]] [[error 400]]", 1),
        (CODER_FULL, "[[write a 1]]", 2),
        (REVIEWER_FULL, APPROVE),
    )
    shown = stage.review()
    assert (shown.end, shown.rounds) == ("approved", 1), result(shown)
    assert modes(shown)["coder/1/again"] == "fresh"
    told = stage.prompts(shown)["coder/1/again"]
    assert "Your last turn ended by an error" in told
    assert "It had made 1 tool call" in told


def test_two_errors_in_a_row_end_it(stage: Stage) -> None:
    stage.play(("", "[[error 400]]"))
    shown = stage.review()
    assert (shown.state, shown.end) == ("failed", "failed")
    assert result(shown)["reason"].startswith("the coder failed twice: ")


def test_a_role_without_memory_begins_anew_in_each_round(stage: Stage) -> None:
    stage.play(
        (CODER_FULL, "[[write a 1]]", 1),
        (CODER_FULL, "[[write a 2]]", 2),
        (REVIEWER_FULL, reject("a"), 1),
        (REVIEWER_FULL, APPROVE, 2),
    )
    shown = stage.review(memory="fresh")
    assert set(modes(shown).values()) == {"fresh"}
    told = stage.prompts(shown)["reviewer/2"]
    assert "+2" in told, "all changes, not only those since its last look"
    assert "-1" not in told
    assert "about a" in told


def test_a_session_that_is_gone_means_the_whole_prompt_and_no_replay(stage: Stage) -> None:
    stage.play(
        (CODER_FULL, "[[write a 1]]", 1),
        (CODER_FULL, "[[write a 2]]", 2),
        (REVIEWER_FULL, f"[[shell rm -r {stage.sessions}]] {reject('a')}", 1),
        (REVIEWER_FULL, APPROVE, 2),
    )
    shown = stage.review(reviewer_permission="full")
    assert (shown.end, shown.rounds) == ("approved", 2)
    assert modes(shown)["coder/2"] == "fresh"
    told = stage.prompts(shown)["coder/2"]
    assert told.count("As told.") == 1
    assert "about a" in told


def test_a_changed_task_begins_both_roles_anew(stage: Stage) -> None:
    file = stage.segue.home.parent / "TASK.md"
    file.write_text("Build it\n\nAs told.\n")
    stage.play(
        (CODER_FULL, "[[write a 1]]", 1),
        (CODER_FULL, "[[write a 2]]", 2),
        (REVIEWER_FULL, reject("a"), 1),
        (REVIEWER_FULL, APPROVE, 2),
    )
    shown = stage.review(file.read_text(), task_file=file, checks=[f"echo 'Build more' > {file}"])
    assert (shown.end, shown.rounds) == ("approved", 2)
    told = stage.prompts(shown)
    for role in ("coder/2", "reviewer/2"):
        assert "Build more" in told[role]
        assert "The task has changed" in told[role]
        assert "As told." not in told[role]


def test_a_check_that_takes_too_long_is_ended(stage: Stage) -> None:
    stage.play((CODER_FULL, "[[write a 1]]"), (REVIEWER_FULL, APPROVE))
    shown = stage.review(checks=["echo begun; sleep 600", "exit 3"], check_timeout_s=0.5)
    assert [(each["code"], each["output"]) for each in result(shown)["checks"]] == [
        (None, "begun\n"),
        (3, ""),
    ]
    told = stage.prompts(shown)["reviewer/1"]
    assert "took too long" in told
    assert "exit code 3" in told


def test_checks_do_not_get_our_own_variables(stage: Stage) -> None:
    stage.play((CODER_FULL, "[[write a 1]]"), (REVIEWER_FULL, APPROVE))
    shown = stage.review(checks=["env | grep -c ^SEGUE_"])
    assert result(shown)["checks"][0]["output"] == "0\n"


def test_without_git_it_is_refused_and_no_flow_begins(segue: Program) -> None:
    env = {**segue.env, "REHEARSAL_HOME": str(segue.home / "agent")}

    async def go() -> None:
        async with asyncio.timeout(PATIENCE_S), Segue(env=env, cwd=segue.cwd) as library:
            with pytest.raises(Misuse, match="is not in a git working tree"):
                await library.flows.review("do", coder="rehearsal", reviewer="rehearsal")
            assert await library.flows.ls(every=True) == []

    asyncio.run(go())


def test_the_answer_of_a_turn_at_a_limit_is_no_verdict(stage: Stage) -> None:
    """The turn is parked until the limit is over."""
    stage.play((CODER_FULL, "[[write a 1]]"), (REVIEWER_FULL, f"{APPROVE} [[error 429 retry-after 3600]]"))

    async def work(segue: Segue) -> FlowShown:
        shown = await segue.flows.start_review("do", coder="rehearsal", reviewer="rehearsal")
        async for _ in polled():
            if any(run.state == "parked" for run in await segue.runs.queue()):
                break
        await segue.flows.cancel(shown.flow)
        return await segue.flows.join(shown.flow)

    shown = stage.within(work)
    assert (shown.end, [step.key for step in shown.steps][-1]) == ("cancelled", "reviewer/1")


def test_it_goes_on_after_a_kill_and_no_turn_runs_twice(stage: Stage) -> None:
    """Entered again from the top by another process, all that was done is taken from the record."""
    stage.play(
        (CODER_FULL, "[[shell echo one >> runs]] [[write a 1]]"),
        (CODER_DELTA, "[[shell echo two >> runs]] [[write a 2]]"),
        (REVIEWER_FULL, f"[[shell kill -9 $(cat {stage.cwd}/pid); sleep 0.1]] {reject('a')}"),
        (REVIEWER_DELTA, APPROVE),
    )
    task = stage.cwd / "TASK.md"
    task.write_text("Build it\n")
    options = ("--coder", "rehearsal", "--reviewer", "rehearsal", "--reviewer-permission", "full", "--json")
    killed = stage.killed("review", "TASK.md", *options)
    assert killed.returncode == -9, killed.stderr
    flow = stage.within(_only)
    resumed = stage.segue("flow", "resume", flow, "--json", more=stage.env)
    assert resumed.code == 0, resumed.stderr
    report = resumed.turn
    assert (report["end"], report["rounds"]) == ("approved", 2)
    assert (stage.cwd / "runs").read_text() == "one\ntwo\n"


def test_a_turn_that_starts_over_and_is_killed_after_tools_ran_is_continued(stage: Stage) -> None:
    """A new session was asked for, not a second one."""
    stage.play(
        (CODER_FULL, "[[write a 1]]", 1),
        (CODER_FULL, f"[[shell echo two >> runs; kill -9 $(cat {stage.cwd}/pid) $PPID]] [[write a 2]]", 2),
        ("Go on with what", "[[write a 2]]"),
        (REVIEWER_FULL, reject("f1", context_reset=True)),
        (REVIEWER_DELTA, APPROVE),
    )
    (stage.cwd / "TASK.md").write_text("Build it\n")
    roles = ("--coder", "rehearsal", "--reviewer", "rehearsal")
    killed = stage.killed("review", "TASK.md", *roles, "--json")
    assert killed.returncode == -9, killed.stderr
    resumed = stage.segue("flow", "resume", stage.within(_only), "--json", more=stage.env)
    assert resumed.code == 0, resumed.stderr
    assert {step["key"]: step["mode"] for step in resumed.turn["steps"]}["coder/2"] == "resume"
    assert (stage.cwd / "runs").read_text() == "two\n"


async def _chain(run: str, segue: Segue) -> Chain:
    return await segue.conversations.chain(run)


async def _only(segue: Segue) -> str:
    (shown,) = await segue.flows.ls()
    return shown.flow


def test_the_command_prints_the_end_and_its_code(stage: Stage) -> None:
    stage.play(
        (CODER_FULL, "[[write a 1]]"),
        (CODER_DELTA, "[[write a 2]]"),
        (REVIEWER_FULL, reject("a", "l:outside")),
        (REVIEWER_DELTA, APPROVE),
    )
    (stage.segue.home.parent / "TASK.md").write_text("Build it\n")
    words = ("review", "../TASK.md", "--coder", "rehearsal", "--reviewer", "rehearsal")
    first = stage.segue(*words, "--rounds", "1", "--check", "false", more=stage.env)
    assert first.code == 1, first.stderr
    assert first.stdout.splitlines() == [
        "capped: not approved within 1 round; 1 finding open",
        "  a (major, open): about a",
        "  outside the task: about l",
        "  false: exit code 1",
        "not yet",
    ]
    assert "coder/1 · coder (rehearsal) · fresh" in first.stderr
    second = stage.segue(*words, "--json", "--memory", "fresh", "--quiet", more=stage.env)
    assert second.code == 1, "each role always begins anew, so the same is said again"
    third = stage.segue(*words, "--json", "--memory", "coordinator=fresh", more=stage.env)
    assert third.code == 0, third.stderr
    report = third.turn
    assert (report["kind"], report["end"], report["rounds"]) == ("review", "approved", 2)
    assert {"flow", "kind", "end", "rounds", "cost_usd", "steps"} <= report.keys()
    step = next(each for each in report["steps"] if each["key"] == "coder/2")
    assert (step["role"], step["agent"], step["mode"]) == ("coder", "rehearsal", "resume")
    assert {"key", "role", "tier", "agent", "mode", "run", "cost_usd", "result"} <= step.keys()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("none.md",), "cannot read the task none.md: No such file or directory"),
        (("-",), "the task is empty"),
        (("TASK.md", "--memory", "often"), "--memory takes resume, fresh"),
        (("TASK.md", "--cwd", ".."), "is not in a git working tree"),
        (("TASK.md", "--cwd", "nowhere"), "nowhere does not exist"),
    ],
)
def test_what_cannot_begin_is_misuse(stage: Stage, words: tuple[str, ...], why: str) -> None:
    (stage.cwd / "TASK.md").write_text("Build it\n")
    ran = stage.segue("review", *words, "--coder", "rehearsal", "--reviewer", "rehearsal", more=stage.env)
    assert (ran.code, ran.stdout) == (2, ""), ran.stderr
    assert why in ran.stderr


def test_two_reviews_never_work_in_one_tree(stage: Stage) -> None:
    stage.play((CODER_FULL, "[[write a 1]]"), (REVIEWER_FULL, "[[error 429 retry-after 3600]]"))

    async def work(segue: Segue) -> None:
        first = await segue.flows.start_review("do", coder="rehearsal", reviewer="rehearsal")
        await begun(segue, first.flow)
        with pytest.raises(InUse):
            await segue.flows.review("more", coder="rehearsal", reviewer="rehearsal")
        await segue.flows.cancel(first.flow)
        await segue.flows.join(first.flow)

    stage.within(work)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"reviewer": "nobody"}, 'there is no agent "nobody"'),
        ({"coordinator": "nobody"}, 'there is no agent "nobody"'),
        ({"reviewer_account": "other"}, "other"),
        ({"reviewer": "codex"}, "[Cc]odex"),
    ],
)
def test_who_cannot_take_part_is_refused_before_anybody_works(
    stage: Stage, options: dict[str, str], why: str
) -> None:
    stage.env["PATH"] = "/usr/bin:/bin"  # no agent is installed there
    with pytest.raises(SegueError, match=why):
        stage.review(**options)

    async def stored(segue: Segue) -> int:
        return len(await segue.flows.ls(every=True))

    assert stage.within(stored) == 0
    assert not stage.sessions.exists()


def test_what_a_session_knows_is_not_sent_again(stage: Stage) -> None:
    stage.play(
        *((CODER_FULL, "[[write a 1]] [[say one]]"),),
        *((CODER_DELTA, f"[[write a {n + 1}]] [[say more]]", n) for n in (1, 2)),
        (REVIEWER_FULL, reject("a", "b")),
        (REVIEWER_DELTA, reject("a:resolved", "b"), 1),
        (REVIEWER_DELTA, APPROVE, 2),
    )
    shown = stage.review(checks=["echo it-is-broken; false"])
    assert (shown.end, shown.rounds) == ("approved", 3), shown.failure
    told = stage.prompts(shown)
    printed = {key: text.count("it-is-broken\n```") for key, text in told.items()}
    assert printed == {**dict.fromkeys(told, 0), "reviewer/1": 1, "coder/2": 1}, "each is shown it once"
    assert "exit code 1, with the same output as last time" in told["coder/3"]
    assert "exit code 1, with the same output as last time" in told["reviewer/2"]
    assert ("about a" in told["coder/2"], "about a" in told["coder/3"]) == (True, False)
    assert "about a" not in told["reviewer/3"]
    for key in ("coder/3", "reviewer/3"):
        assert "about b" in told[key], "what is open is said"


def test_the_reviewer_can_begin_with_a_fork_of_the_coders_session(stage: Stage) -> None:
    stage.play(
        (CODER_FULL, "[[write a 1]] [[say the-coder-knows-456]]"),
        (CODER_DELTA, "[[write a 2]] [[say second]]"),
        (REVIEWER_FULL, reject("f1")),
        (REVIEWER_DELTA, APPROVE),
    )
    shown = stage.review(fork_coder=True)
    assert (shown.end, shown.rounds) == ("approved", 2), shown.failure
    assert modes(shown) == {
        "coder/1": "fresh",
        "reviewer/1": "branch",
        "coder/2": "resume",
        "reviewer/2": "resume",
    }
    coder, reviewer = (stage.session(shown, key) for key in ("coder/2", "reviewer/2"))
    assert coder != reviewer
    held = (stage.sessions / f"{reviewer}.jsonl").read_text()
    assert held.count("the-coder-knows-456") >= 2, "natively, and as what the coder said"
    assert "You review the changes" not in (stage.sessions / f"{coder}.jsonl").read_text()


def test_a_reviewer_of_another_agent_cannot_fork_the_coders_session(stage: Stage) -> None:
    with pytest.raises(Misuse, match="same agent"):
        stage.review(reviewer="another", fork_coder=True)


def test_the_example_of_the_documentation_does_what_its_comments_say(stage: Stage) -> None:
    page = Path(__file__).parents[2] / "docs" / "review.md"
    (code,) = re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S)
    for agent in ('"claude"', '"codex"'):
        assert agent in code
        code = code.replace(agent, '"rehearsal"')
    stage.play(
        (CODER_FULL, "[[write pool.py 1]]"),
        (CODER_DELTA, "[[write pool.py 2]]"),
        (REVIEWER_FULL, reject("f1")),
        (REVIEWER_DELTA, APPROVE),
    )
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(
        command, cwd=stage.cwd, env=stage.env, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "approved 2\n"), done.stderr


def test_the_verdict_of_the_documentation_can_be_read() -> None:
    page = Path(__file__).parents[2] / "docs" / "review.md"
    found = parse(page.read_text().partition("## In the library")[0])
    assert isinstance(found, Verdict)
    assert [each.id for each in found.findings] == ["f1"]


def test_a_step_that_is_tried_again_by_hand_gets_the_whole_prompt_in_a_new_session(segue: Program) -> None:
    stage = Stage(segue)
    stage.play(
        (CODER_FULL, "[[write a.txt one]] [[say done]]"),
        (CODER_DELTA, "[[write a.txt two]] [[say done]]"),
        (REVIEWER_DELTA, APPROVE),
        (REVIEWER_FULL, reject("f1"), 1),
        (REVIEWER_FULL, APPROVE),
    )
    shown = stage.review()
    assert (shown.end, modes(shown)["reviewer/2"]) == ("approved", "resume")
    before = stage.session(shown, "reviewer/2")

    async def again(library: Segue) -> FlowShown:
        await library.flows.retry_step(shown.flow, "reviewer/2")
        return await library.flows.join(shown.flow)

    retried = stage.within(again)
    assert (retried.end, modes(retried)["reviewer/2"]) == ("approved", "fresh")
    after = stage.session(retried, "reviewer/2")
    assert after != before
    assert REVIEWER_FULL in stage.prompts(retried)["reviewer/2"]


def test_a_budget_that_is_not_raised_ends_the_review(segue: Program) -> None:
    stage = Stage(segue)
    stage.play((CODER_FULL, "[[say done]]"), (REVIEWER_FULL, reject("f1")))

    async def work(library: Segue) -> FlowShown:
        shown = await library.flows.review("Build it", coder="rehearsal", reviewer="rehearsal", budget=1e-7)
        assert (shown.state, shown.needs) == ("needs_you", "budget")
        await library.flows.answer(shown.flow, "stop")
        await library.flows.resume(shown.flow)
        return await library.flows.join(shown.flow)

    shown = stage.within(work)
    assert (shown.state, shown.end) == ("failed", "failed")
    assert "budget" in msgspec.json.decode(shown.result or b"null")["reason"]
