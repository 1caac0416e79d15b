"""A review and an escalation with the real Claude, killed again and again. What each turn did, and how often
it was asked for, is counted by the model's own log."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.config.home import home_of
from segue.config.trust import trust
from segue.rehearsal.log import LoggedRequest
from segue.turns.composer import GO_ON
from tests import clis
from tests.integration.test_review import (
    APPROVE,
    CODER_DELTA,
    CODER_FULL,
    REVIEWER_DELTA,
    REVIEWER_FULL,
    reject,
)
from tests.live.conftest import OBSTACLE
from tests.live.talk import Talk, talking
from tests.live.test_claude_kills import CLAUDE, agents, effects, kill, until

KILLS, SOAK_KILLS, OF_ONE_TURN = 3, 8, 5
"""A turn whose agent is killed six times has failed."""
SIGNAL = r'\{"escalate": \w+, "reason": "tier-\d"\}'


def work(mark: str) -> str:
    return f"[[shell echo {mark} >> effects; echo {mark} > words.txt; sleep 0.2]] [[slow 0.4 4]]"


RULES = {
    "review": [
        {"text": GO_ON, "do": "[[shell tail -n 1 effects > words.txt]] [[say went on]]"},
        {
            "pattern": f"{CODER_FULL}[^#]*Round 2|{CODER_DELTA}",
            "do": f"{work('coder-2')} [[say did coder-2]]",
        },
        {"text": CODER_FULL, "do": f"{work('coder-1')} [[say did coder-1]]"},
        {"pattern": f"{REVIEWER_FULL}[^#]*Round 2|{REVIEWER_DELTA}", "do": f"[[slow 0.4 4]] {APPROVE}"},
        {"text": REVIEWER_FULL, "do": f"[[slow 0.4 4]] {reject('f1')}"},
    ],
    # What it was to say is in the prompt that it was interrupted in.
    "escalate": [{"text": GO_ON, "do": f"[[recall {SIGNAL}]]"}],
}
TOOLS = {"review": ("coder-1", "coder-2"), "escalate": ("tier-1", "tier-2", "tier-3")}
ENDS = {"review": ("approved", 2), "escalate": ("done", 3)}
REQUESTS = {"review": 6, "escalate": 6}
"""Two for each turn with a tool, one for each of the others: an answer in a form is a tool call, too."""


@contextmanager
def playing(tmp: Path, kind: str) -> Iterator[Talk]:
    if OBSTACLE:
        pytest.skip(f"no isolation: {OBSTACLE}")
    reason = clis.install(CLAUDE, CLAUDE.newest)
    if reason:
        pytest.skip(f"claude {CLAUDE.newest}: {reason}")
    scenario = tmp / "scenario.json"
    scenario.write_bytes(msgspec.json.encode({"rule": RULES[kind]}))
    with talking(tmp, {"claude": CLAUDE.newest}, scenario) as talk:
        subprocess.run(["git", "init", "--quiet", str(talk.cwd)], check=True, env=talk.env)
        (tmp / "TASK.md").write_text("Build it\n\nAs told.\n")
        text = ""
        for n in (1, 2, 3):
            signal = f'{{"escalate": {"true" if n < 3 else "false"}, "reason": "tier-{n}"}}'
            (tmp / f"{n}.md").write_text(f"{work(f'tier-{n}')} [[say {signal}]]")
            text += f'[[tier]]\nname = "t{n}"\nagent = "claude"\nprompt = "{n}.md"\nfull = "{n}.md"\n'
            text += 'permission = "full"\n'
        (tmp / "FLOW.toml").write_text(text)
        trust(home_of(talk.env), tmp)
        yield talk
        for pid in agents(talk):
            kill(pid)


def words(kind: str) -> list[str]:
    if kind == "escalate":
        return ["escalate", "../FLOW.toml", "--key", "k", "--json"]
    roles = ["--coder", "claude", "--reviewer", "claude", "--permission", "full"]
    return ["review", "../TASK.md", *roles, "--key", "k", "--json"]


def asked(talk: Talk) -> list[LoggedRequest]:
    return [each for each in talk.model.requests if not each.side]


def tool_calls(talk: Talk) -> Counter[str]:
    """How often the model called the tool of each turn."""
    return Counter(each.last_user_text for each in asked(talk) if each.action.startswith("tool:Bash"))


def shown(talk: Talk) -> dict[str, Any] | None:
    said = talk("flow", "show", "k", "--json")
    return msgspec.json.decode(said.stdout) if said.code == 0 else None


@pytest.mark.parametrize(
    ("kind", "struck"),
    [
        ("review", "everybody"),
        ("escalate", "segue"),
        pytest.param("review", "segue", marks=pytest.mark.soak),
        pytest.param("escalate", "everybody", marks=pytest.mark.soak),
    ],
)
def test_each_turn_runs_once_whatever_is_killed(
    tmp_path: Path, seed: int, soak: bool, kind: str, struck: str
) -> None:
    dice, kills = random.Random(f"{seed} {kind} {struck}"), SOAK_KILLS if soak else KILLS
    with playing(tmp_path, kind) as talk:
        finished: dict[str, str] = {}
        for _ in range(kills if struck == "segue" else min(kills, OF_ONE_TURN)):
            flow = shown(talk)
            if flow is not None and flow["end"] is not None:
                break
            started, before = talk.start(*words(kind)), len(talk.model.requests)
            until(
                lambda: len(talk.model.requests) > before or started.poll() is not None,  # noqa: B023
                "the model is asked",
            )
            time.sleep(dice.random())
            started.kill()
            started.communicate()
            if struck == "everybody":
                for pid in agents(talk):
                    kill(pid)
            flow = shown(talk)
            steps = flow["steps"] if flow is not None else []
            finished |= {each["key"]: each["run"] for each in steps if each["state"] == "done"}
        said = talk(*words(kind))
        told = said.turn
        assert (said.code, told["end"], told["rounds"]) == (0, *ENDS[kind]), (told, said.stderr[-3000:])
        now = {each["key"]: each["run"] for each in told["steps"]}
        assert {key: now[key] for key in finished} == finished, "what is finished stays as it was"
        done = Counter(effects(talk))
        assert set(done.values()) == {1}, done
        assert set(done) <= set(TOOLS[kind])
        if struck == "segue":
            assert set(done) == set(TOOLS[kind])
            assert set(tool_calls(talk).values()) == {1}
            assert len(asked(talk)) == REQUESTS[kind], [each.action for each in asked(talk)]
            flow = shown(talk)
            assert flow is not None
            spent = sum(each.usage.output or 0 for each in talk.model.requests)
            assert flow["usage"]["output"] == spent, "what was spent is what is told"
        assert agents(talk) == []
