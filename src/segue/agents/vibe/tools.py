"""The tools of Vibe by name, and what a run is allowed to do: a profile, tool switches, settings.

They are set on every call, for three reasons. A 3.x session remembers the profile that it began with and uses
it again whatever ``--agent`` says, unless that profile is disabled for the run. 3.x accepts edits by default.
And 2.x runs any command line that begins with a harmless word, even ``echo x > file``, with every profile: so
its list of harmless words is emptied.

With ``read``, only the tools that look are enabled, so no settings can give another one: measured with
settings of the user and of a trusted directory in which the shell, writing and a server's tool are always
allowed. 3.x runs those commands that a rule such as ``bash(git log)`` names: each part of a command line must
begin with it, without a redirection or a substitution, whatever settings say of the shell. The model's own
programs (``run_typescript``) can call no more than that. The servers that settings name are started all the
same; of their tools, only those that a rule names can be called.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path

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
EDITING = ("edit", "write_file")
LOOKING = ("grep", "read", "skill", "todo")
"""The only tools that 2.x gets for reading."""

SHELL = "bash"
_TOOL = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.-]{0,99})(?:\((.*)\))?", re.S)
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
    narrowed=(SHELL,),
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
    part = next((tool for tool in request.deny_tools if "(" in tool), None)
    if part is not None:
        raise Misuse(
            f"Vibe refuses tools only as a whole, so --deny-tool {part} has no effect; name the tool"
        )
    return _new(request) if unified else _old(request)


def _new(request: Request) -> Permissions:
    profile = PROFILES[request.permission]
    enabled = _enabled(request) if request.permission == "read" else ()
    argv = (
        flag("agent", profile),
        *(flag("enabled-tools", tool) for tool in enabled),
        *(flag("disabled-tools", tool) for tool in dict.fromkeys(request.deny_tools)),
    )
    env = {"VIBE_DISABLED_AGENTS": _json([name for name in BUILTIN if name != profile])}
    return Permissions(argv, env | _settings(request, _allowed(request)))


def _enabled(request: Request) -> tuple[str, ...]:
    """With ``read``: the tools that look, those that a rule names, and what the model plans with."""
    named = (_name(rule) for rule in request.allow_tools)
    looking = (tool for tool in TOOLS.names if tool in TOOLS.looking)
    found = dict.fromkeys((*looking, "unified_harness_scratchpad", *named))
    return tuple(tool for tool in found if tool not in request.deny_tools)


def _allowed(request: Request) -> dict[str, dict[str, object]]:
    """The settings of the allowed tools. The shell is asked for each command that no rule names."""
    tools: dict[str, dict[str, object]] = {}
    for rule in request.allow_tools:
        if _name(rule) not in request.deny_tools:
            tools.setdefault(_name(rule), {"permission": "always"} if "(" not in rule else {})
    parts = [found[2] for rule in request.allow_tools if (found := _TOOL.fullmatch(rule)) and found[2]]
    if parts and SHELL in tools and SHELL not in request.allow_tools:
        tools[SHELL] = {"permission": "ask", "allowlist": parts}
    return tools if request.permission != "full" else {}


def _name(rule: str) -> str:
    return rule.partition("(")[0]


def _old(request: Request) -> Permissions:
    if request.permission == "full":
        if request.deny_tools:
            raise Misuse("this version of Vibe does not support --deny-tool with --permission full")
        return Permissions(("--agent=auto-approve",), {})
    enabled: tuple[str, ...] = ()
    if request.permission == "read":
        beyond = next((tool for tool in request.allow_tools if tool not in OLD_TOOLS.looking), None)
        if beyond is not None:
            raise Misuse(
                f"this version of Vibe cannot allow {beyond} with --permission read; leave it out, update"
                " Vibe, or use --permission default"
            )
        enabled = tuple(dict.fromkeys((*LOOKING, *request.allow_tools)))
    tools: dict[str, dict[str, object]] = {SHELL: {"allowlist": []}}
    allowed = (*(EDITING if request.permission == "edit" else ()), *request.allow_tools)
    for names, permission in ((allowed, "always"), (request.deny_tools, "never")):
        for name in names:
            tools[name] = {**tools.get(name, {}), "permission": permission}
    return Permissions(
        ("--agent=default", *(flag("enabled-tools", tool) for tool in enabled)), _settings(request, tools)
    )


def not_in_force(request: Request, home: Path) -> str | None:
    """Why an allowed tool would not be there: what the user's own settings refuse stays refused."""
    file = home / "config.toml"
    try:
        settings = tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    own = settings.get("tools")
    for rule in request.allow_tools:
        about = own.get(_name(rule)) if isinstance(own, dict) else None
        if isinstance(about, dict) and about.get("permission") == "never":
            return (
                f"{file} refuses {_name(rule)}, so it cannot be allowed: change it there, or leave {rule} out"
            )
    return None


def _settings(request: Request, tools: Mapping[str, object]) -> dict[str, str]:
    env = {"VIBE_TOOLS": _json(tools)} if tools else {}
    if request.permission in ("read", "edit"):
        env["VIBE_BYPASS_TOOL_PERMISSIONS"] = "false"
    return env


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
