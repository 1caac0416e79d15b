"""Rules about tools: which of them are for tools that may write or run something, and how much they give."""

from __future__ import annotations

import pytest

from segue.core.tools import Tools, bare, changing

TOOLS = Tools(names=("Read", "Bash", "Edit"), narrowed=("Bash", "Edit"), looking=("Read",), others="mcp__.+")


def test_a_tool_that_is_not_known_to_only_look_may_change_something() -> None:
    rules = ("Read", "Read(src/**)", "Bash(ls *)", "Edit", "mcp__tracker__get", "Tomorrow")
    assert changing(TOOLS, rules) == ("Bash(ls *)", "Edit", "mcp__tracker__get", "Tomorrow")
    assert changing(None, ("Read",)) == ("Read",), "nothing is known of the agent's tools"


@pytest.mark.parametrize("rule", ["Bash", "Edit", "Bash(*)", "Bash()", "Bash(:*)", "Edit(**)", "Edit(//**)"])
def test_a_rule_without_a_pattern_or_with_one_that_fits_everything_gives_the_whole_tool(rule: str) -> None:
    assert bare(TOOLS, (rule,)) == (rule,)


@pytest.mark.parametrize("rule", ["Read", "Read(**)", "Bash(ls *)", "Edit(docs/**)", "mcp__tracker__get"])
def test_a_rule_for_a_part_or_for_a_tool_that_looks_does_not(rule: str) -> None:
    assert bare(TOOLS, (rule,)) == ()
    assert bare(None, (rule,)) == ()
