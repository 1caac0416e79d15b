"""The tools of Vibe by name, and what a run is allowed to do: a profile, tool switches, settings.

They are set on every call, for three reasons. A 3.x session remembers the profile that it began with and uses
it again whatever ``--agent`` says, unless that profile is disabled for the run. 3.x accepts edits by default.
And 2.x runs any command line that begins with a harmless word, even ``echo x > file``, with every profile: so
its list of harmless words is emptied.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from segue.core.errors import Misuse
from segue.core.ids import flag
from segue.core.request import Posture, Request
from segue.core.tools import Tools

PROFILES: Mapping[Posture, str] = {
    "default": "ask",
    "read": "ask",
    "edit": "accept-edits",
    "full": "auto-approve",
}
BUILTIN = ("ask", "accept-edits", "smart-approve", "auto-approve")
TOUCHING = ("bash", "edit", "run_typescript", "write_file")
"""The 3.x tools that change something, or can call one that does."""
EDITING = ("edit", "write_file")
LOOKING = ("grep", "read", "skill", "todo")
"""The only tools that 2.x gets for reading."""

_TOOL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_OTHERS = r"[A-Za-z0-9][A-Za-z0-9.-]*_[A-Za-z0-9_.-]+"
"""A tool of an MCP server is called ``server_tool``: any name with an underscore."""
_ELSEWHERE = {"shell": "bash", "run_shell_command": "bash", "write": "write_file", "replace": "edit"}
_SHELLS = tuple(
    f"{shell}{part}"
    for shell in ("bash", "git_bash", "powershell")
    for part in ("", "_log_file", "_output", "_sessions", "_stdin")
)
_LOOKERS = (
    *("ask_user_question", "grep", "read", "read_file", "search_tool_functions", "skill", "task", "todo"),
    *("wait", "web_fetch", "web_search"),
)
TOOLS = Tools(
    names=(
        *("ask_user_question", *_SHELLS, "edit", "grep", "read_file", "run_typescript"),
        *("search_tool_functions", "skill", "task", "todo", "unified_harness_scratchpad", "wait"),
        *("web_fetch", "web_search", "write_file"),
    ),
    looking=_LOOKERS,
    others=_OTHERS,
    elsewhere=_ELSEWHERE | {"read": "read_file"},
)
OLD_TOOLS = Tools(
    names=(
        *("ask_user_question", "bash", "edit", "exit_plan_mode", "grep", "read", "skill", "task", "todo"),
        *("web_fetch", "web_search", "write_file"),
    ),
    looking=_LOOKERS,
    others=_OTHERS,
    elsewhere=_ELSEWHERE | {"read_file": "read"},
)


class Permissions(msgspec.Struct, frozen=True):
    """The arguments and variables that make up a posture."""

    argv: tuple[str, ...]
    env: dict[str, str]


def permissions_of(request: Request, *, unified: bool) -> Permissions:
    """The request's posture and its allowed and denied tools; ``unified``: the 3.x protocol."""
    for tool in (*request.allow_tools, *request.deny_tools):
        if not _TOOL.fullmatch(tool):
            raise Misuse(f'"{tool}" is not the name of a Vibe tool')
    return _new(request) if unified else _old(request)


def _new(request: Request) -> Permissions:
    profile = PROFILES[request.permission]
    hidden = TOUCHING if request.permission == "read" else ()
    disabled = dict.fromkeys((*hidden, *request.deny_tools))
    argv = (flag("agent", profile), *(flag("disabled-tools", tool) for tool in disabled))
    env = {"VIBE_DISABLED_AGENTS": _json([name for name in BUILTIN if name != profile])}
    tools = {tool: {"permission": "always"} for tool in request.allow_tools if tool not in disabled}
    return Permissions(argv, env | _settings(request, tools))


def _old(request: Request) -> Permissions:
    if request.permission == "full":
        if request.deny_tools:
            raise Misuse("this version of Vibe does not support --deny-tool with --permission full")
        return Permissions(("--agent=auto-approve",), {})
    named = tuple(tool for tool in request.allow_tools if request.permission != "read" or tool in LOOKING)
    enabled = LOOKING if request.permission == "read" else ()
    tools: dict[str, dict[str, object]] = {"bash": {"allowlist": []}}
    allowed = (*(EDITING if request.permission == "edit" else ()), *named)
    for names, permission in ((allowed, "always"), (request.deny_tools, "never")):
        for name in names:
            tools[name] = {**tools.get(name, {}), "permission": permission}
    return Permissions(
        ("--agent=default", *(flag("enabled-tools", tool) for tool in enabled)), _settings(request, tools)
    )


def _settings(request: Request, tools: Mapping[str, object]) -> dict[str, str]:
    env = {"VIBE_TOOLS": _json(tools)} if tools else {}
    if request.permission in ("read", "edit"):
        env["VIBE_BYPASS_TOOL_PERMISSIONS"] = "false"
    return env


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
