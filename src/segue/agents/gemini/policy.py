"""What the agent may do, in Gemini's own terms: a policy file where it reads one, else its flags.

Without a terminal, Gemini 0.61 lets the model enter and leave its plan mode by itself, and leaving it
switches to "yolo": every tool runs unasked. So plan mode is closed unless everything is allowed anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from segue.core.keys import flag
from segue.core.request import Request

_PLAN = ("enter_plan_mode", "exit_plan_mode")
_TOUCHING = (
    "run_shell_command",
    "write_file",
    "replace",
    "save_memory",
    "activate_skill",
    "discovered_tool_*",
)
_FIRST, _SECOND = 999, 990
"""Priorities among the user's rules (0 to 999): refusals before permissions, both before all others."""


def rules(request: Request) -> str:
    """The policy file (TOML) for a request; empty where nothing needs to be said."""
    found: list[str] = []
    if request.permission != "full":
        found.append(_rule(_names(_PLAN), "deny", _FIRST))
    if request.permission == "read":
        found.append(_rule(_names(_TOUCHING), "deny", _FIRST))
        found.append(_rule('toolName = "*"\nmcpName = "*"', "deny", _FIRST))
    found += [_rule(_tool(tool), "deny", _FIRST) for tool in request.deny_tools]
    found += [_rule(_tool(tool), "allow", _SECOND) for tool in request.allow_tools]
    return "\n".join(found)


def flags(request: Request) -> list[str]:
    """The same for versions without policy files.

    Naming allowed tools replaces those of the user's settings: so that reading stays reading, one is named.
    """
    tools = request.allow_tools
    if request.permission == "read":
        tools = tuple(tool for tool in tools if tool.partition("(")[0] not in _TOUCHING) or ("read_file",)
    return [flag("allowed-tools", ",".join(tools))] if tools else []


def _rule(matches: str, decision: str, priority: int) -> str:
    return f'[[rule]]\n{matches}\ndecision = "{decision}"\npriority = {priority}\n'


def _tool(tool: str) -> str:
    """``name``, or ``run_shell_command(git status)`` for commands that begin so."""
    narrowed = re.fullmatch(r"([\w*.-]+)\((.*)\)", tool, re.S)
    if narrowed is None:
        return f"toolName = {_quoted(tool)}"
    return f"toolName = {_quoted(narrowed[1])}\ncommandPrefix = {_quoted(narrowed[2])}"


def _names(tools: Iterable[str]) -> str:
    return f"toolName = [{', '.join(map(_quoted, tools))}]"


def _quoted(text: str) -> str:
    """A JSON string is a TOML string."""
    return msgspec.json.encode(text).decode()
