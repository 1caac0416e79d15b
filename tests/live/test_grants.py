"""What the real CLIs are offered: the tool that asks, tools by name, and what a change of them costs."""

from __future__ import annotations

import subprocess

import pytest

from segue.agents import probe, registry
from segue.config.schema import Config
from segue.core.tools import Tools, knows
from segue.rehearsal.log import LoggedRequest
from tests.live.talk import CLAUDES, MOST, Said, Talk

ASK = "AskUserQuestion"
STAND_IN = "DeferredToolPlaceholder"
"""Claude has it in the prompt where tools are left out of it; it is none."""


def offered(request: LoggedRequest) -> set[str]:
    """The tools that a request shows to the model."""
    assert request.body is not None
    found: set[str] = set()
    for tool in request.body["tools"]:
        found |= {each.get("function", each)["name"] for each in tool.get("functionDeclarations", (tool,))}
    return found - {STAND_IN}


def first(said: Said) -> LoggedRequest:
    return next(request for request in said.requests if not request.side)


def bare(talk: Talk, prompt: str) -> LoggedRequest:
    """What the CLI itself sends, without anything of ours."""
    before = len(talk.model.requests)
    argv = [talk.env["PATH"].split(":")[0] + "/claude", "-p", "--output-format", "stream-json", "--verbose"]
    subprocess.run(
        [*argv, prompt], cwd=talk.cwd, env=talk.env, stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    return next(request for request in talk.model.requests[before:] if not request.side)


@pytest.mark.parametrize("talk", CLAUDES, indirect=True)
def test_where_nobody_answers_the_first_prompt_is_no_larger_than_the_bare_clis(talk: Talk) -> None:
    alone = bare(talk, "hello there")
    off = talk.run("hello there")
    assert off.turn["terms"]["questions"] is False
    assert ASK not in offered(first(off))
    assert first(off).bytes <= alone.bytes + 100
    on = talk.run("hello there", "--questions", "on", key="on")
    assert offered(first(on)) - offered(first(off)) == {ASK}
    assert first(on).bytes > first(off).bytes + 4_000, "what it saves"


@pytest.mark.parametrize("began", ["on", "off"])
@pytest.mark.parametrize("talk", CLAUDES[:1], indirect=True)
def test_a_session_and_its_branches_keep_the_tool_that_asks(talk: Talk, began: str) -> None:
    other = {"on": "off", "off": "on"}[began]
    asks = began == "on"
    assert (ASK in offered(first(talk.run("one", "--questions", began)))) is asks
    again = talk.run("two", "--questions", other)
    assert (again.mode, ASK in offered(first(again))) == ("resume", asks)
    assert again.new_bytes < first(again).bytes / 4, "the cache serves it"
    assert talk("edit", "t", "#3", "two, in other words").code == 0
    branch = talk.run("three", "--questions", other)
    assert (branch.mode, ASK in offered(first(branch))) == ("branch", asks)
    assert talk("fork", "t", "copy").code == 0
    fork = talk.run("four", "--questions", other, key="copy")
    assert (fork.mode, ASK in offered(first(fork))) == ("branch", asks)
    anew = talk.run("five", "--questions", other, "--fresh-session")
    assert (ASK in offered(first(anew))) is not asks


@pytest.mark.parametrize("talk", CLAUDES[:1], indirect=True)
def test_a_change_of_tools_is_told_before_and_after_with_what_it_costs(talk: Talk) -> None:
    talk.run("one")
    same = talk.run("two", "--permission", "edit")
    assert (same.mode, same.turn["notices"]) == ("resume", []), "a permission leaves the tools as they are"
    (tools,) = [each for each in talk.why("--deny-tool", "Bash")["checks"] if each["check"] == "tools"]
    assert tools["verdict"] == "fail"
    assert "(now without Bash): the prompt cache cannot be used, so about " in tools["detail"]
    changed = talk.run("three", "--deny-tool", "Bash")
    assert (changed.mode, "Bash" in offered(first(changed))) == ("resume", False)
    assert changed.new_bytes > 10 * same.new_bytes, "the tools stand at the front of the prompt"
    (notice,) = changed.turn["notices"]
    assert "(now without Bash): the prompt cache could not be used, so " in notice
    kept = talk.run("four")
    assert (kept.turn["terms"]["deny_tools"], kept.turn["notices"]) == (["Bash"], [])
    assert kept.new_bytes < changed.new_bytes / 4


@pytest.mark.parametrize("talk", CLAUDES[:1], indirect=True)
def test_a_budget_is_remembered_in_force_and_taken_back(talk: Talk) -> None:
    talk.run("one", "--budget", "5")
    plain = talk("run", "t", "two")
    assert (plain.code, " · resume · up to $5.00, remembered · " in plain.stderr) == (0, True), plain.stderr
    tight = talk("run", "t", "[[shell true]][[shell true]][[say done]]", "--budget", "0.000001", "--json")
    assert (tight.code, tight.turn["terms"]["budget_usd"]) == (124, 0.000001)
    again = talk("run", "t", "[[shell true]][[shell true]][[say done]]", "--json", "--new")
    assert (again.code, again.turn["terms"]["remembered"]) == (124, ["budget_usd"]), "it is still in force"
    free = talk.run("three", "--budget", "none").turn["terms"]
    assert (free["budget_usd"], free["remembered"]) == (None, [])


def known(talk: Talk, agent: str) -> Tools | None:
    adapter = registry.get(agent, Config())
    return probe.probe(adapter, env=talk.env, configured=None, cache=talk.place / "p.json").capabilities.tools


@pytest.mark.parametrize("talk", MOST, indirect=True)
def test_the_tools_that_are_offered_are_known_by_name_and_others_are_refused(talk: Talk) -> None:
    agent = talk.env["SEGUE_DEFAULTS_AGENT"]
    tools = known(talk, agent)
    theirs = {"claude": "run_shell_command"}.get(agent, "Bash")
    for option in ("--allow-tool", "--deny-tool"):
        for name in ("Frobnicate", theirs):
            ran = talk("run", "t", "hi", option, name)
            assert (ran.code, ran.stderr.count("\n"), ran.requests) == (2, 1, []), ran.stderr
            unable = f"does not support {option}\n" in ran.stderr
            assert unable or (tools is not None and f"ts tools: {', '.join(tools.names)}\n" in ran.stderr)
    if tools is not None:
        said = talk.run("hello", "--permission", "full", "--questions", "on")
        assert not [name for name in offered(first(said)) if not knows(tools, name)]
