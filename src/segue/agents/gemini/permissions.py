"""What Gemini is allowed to do: by a policy file, or by its flags; and what could widen that.

Measured on 0.29 and 0.61, with settings, policies, servers and hooks planted in the home and the directory:

- A rule that allows beats one that denies if its tier is higher, or its priority in the same tier. A policy
  named by ``--policy`` has the user's tier: there, a rule of the user's own with priority 999 wins. One named
  by ``--admin-policy`` beats all policies and settings, which stay loaded. It is ignored if the system has
  policies of its own.
- A denial of the user's own loses to what our file allows, so it is repeated in a second file.
- 0.29 has no such option. ``--allowed-tools`` replaces the tools that settings allow, but a rule of the
  user's own wins; and a server that settings trust runs its tools in any mode: so no server is started.
- Both run the servers, hooks and discovery commands of a directory's settings, before any rule is asked.
- Without a terminal, 0.61 lets the model enter and leave plan mode without asking, and leaving it switches to
  "yolo": every tool runs unasked. So plan mode is denied unless everything is allowed anyway.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.gemini.tools import LOOKING
from segue.core.errors import Misuse
from segue.core.ids import flag
from segue.core.request import Posture, Request, Runtime, refuse_owned
from segue.core.toml import value_text

MODES: Mapping[Posture, tuple[str, ...]] = {
    "default": ("--approval-mode=default",),
    "read": ("--approval-mode=default",),
    "edit": ("--approval-mode=auto_edit",),
    "full": ("--approval-mode=yolo",),
}
"""Always named: otherwise a directory's settings could choose another one."""
SYSTEM = Path("/etc/gemini-cli/policies")
OWN = "~/.gemini/policies"
_PLAN = ("enter_plan_mode", "exit_plan_mode")
_READING = tuple(sorted(set(LOOKING) - {"ask_user", "web_fetch"}))
"""What ``read`` lets run. The other two would ask."""
_NO_SERVER = "none-in-this-run"
"""The only server that may be started: there is none of this name."""
_REFUSED, _NAMED, _READ, _REST = 999, 998, 997, 996
"""Priorities, from 0 to 999: refusals before permissions, both before what ``read`` is made of."""
_MATCHES = ("toolName", "mcpName", "subagent", "argsPattern", "commandPrefix", "commandRegex", "modes")
_RUN_AT_START = ("hooks", "toolDiscoveryCommand", "toolCallCommand")
_RUN_IN_TOOLS = ("discoveryCommand", "callCommand")
_NOT_WITH_READ = frozenset({"--allowed-mcp-server-names"})
"""Native options that would grant more than ``read``."""
INSTEAD = "use --permission default to run it with what Gemini's own settings allow"
LARGEST = 4 * 1024 * 1024


def options(request: Request, runtime: Runtime, run_dir: Path, home: Path | None) -> list[str]:
    """The arguments that set what may be done, except for the mode; ``files`` must be there."""
    argv = [flag("allowed-mcp-server-names", name) for name in _servers(request)]
    if not runtime.capabilities.deny_tools:
        return [*argv, *_allowed(request)]
    paths = [str(path) for path in files(request, runtime, run_dir, home)]
    if paths and _beats_all(runtime):
        return [*argv, flag("admin-policy", ",".join(paths))]
    # naming a policy replaces the user's own, so theirs is named too
    return [*argv, *(flag("policy", each) for each in (*paths, OWN))] if paths else argv


def files(request: Request, runtime: Runtime, run_dir: Path, home: Path | None) -> dict[Path, str]:
    """The policy files to be written."""
    rules = _rules(request)
    if not runtime.capabilities.deny_tools or not rules:
        return {}
    written = {run_dir / "policy.toml": rules}
    refusals = _refusals(home) if home is not None and _beats_all(runtime) else ""
    return written | ({run_dir / "own-refusals.toml": refusals} if refusals else {})


def not_in_force(request: Request, runtime: Runtime, home: Path) -> str | None:
    """Why what the request shows would not be in force."""
    if request.permission != "read":
        return None
    name = f"Gemini {runtime.version or ''}".rstrip()
    try:
        refuse_owned("Gemini with --permission read", _NOT_WITH_READ, request.native_args)
    except Misuse as refused:
        return str(refused)
    if (file := _runs_something(home, request.cwd)) is not None:
        return f"{file} names commands that {name} would run with any permission: remove them, or {INSTEAD}"
    if _beats_all(runtime):
        return None
    if not runtime.capabilities.unable_to_read:
        return (
            f"{name} keeps to the policies in {SYSTEM} only, so --permission read would not be in force:"
            f" have them removed, or {INSTEAD}"
        )
    foreign = next((tool for tool in request.allow_tools if "__" in tool or tool.startswith("mcp_")), None)
    if foreign is not None:
        return f"{name} cannot allow {foreign} with --permission read: update it, or {INSTEAD}"
    for file, rule in _own_rules(home):
        if rule.get("decision") == "allow":
            return f"{file} allows tools, which {name} prefers to --permission read: update it, or {INSTEAD}"
    return None


def _beats_all(runtime: Runtime) -> bool:
    """Whether our policy can be set above all others."""
    if runtime.capabilities.unable_to_read:
        return False
    try:
        return not any(SYSTEM.glob("*.toml"))
    except OSError:
        return False


# --- our rules -------------------------------------------------------------------------------------


def _rules(request: Request) -> str:
    """The policy file (TOML) for a request; empty if it needs no rules."""
    rules: list[str] = []
    if request.permission != "full":
        rules.append(_rule(_names(_PLAN), "deny", _REFUSED))
    rules += [_rule(_tool(tool), "deny", _REFUSED) for tool in request.deny_tools]
    rules += [_rule(_tool(tool), "allow", _NAMED) for tool in request.allow_tools]
    if request.permission == "read":
        rules.append(_rule(_names(_READING), "allow", _READ))
        rules.append(_rule('toolName = "*"', "deny", _REST))
        rules.append(_rule('toolName = "*"\nmcpName = "*"', "deny", _REST))
    return "\n".join(rules)


def _allowed(request: Request) -> list[str]:
    """The flag of versions without policy files.

    Naming allowed tools replaces those in the user's settings: so that ``read`` only reads, one is named.
    """
    tools = request.allow_tools or (("read_file",) if request.permission == "read" else ())
    return [flag("allowed-tools", ",".join(tools))] if tools else []


def _servers(request: Request) -> list[str]:
    """The only servers to start with ``read``. A tool's name does not show where its server's name ends."""
    if request.permission != "read":
        return []
    parts = [tool.split("_") for tool in request.allow_tools if tool.startswith("mcp_")]
    named = ["_".join(each[1:end]) for each in parts for end in range(2, len(each))]
    return list(dict.fromkeys(named)) or [_NO_SERVER]


def _rule(matches: str, decision: str, priority: int) -> str:
    return f'[[rule]]\n{matches}\ndecision = "{decision}"\npriority = {priority}\n'


def _tool(tool: str) -> str:
    """``name``, or ``run_shell_command(git status)`` for commands with this beginning."""
    narrowed = re.fullmatch(r"([\w*.-]+)\((.*)\)", tool, re.S)
    if narrowed is None:
        return f"toolName = {_quoted(tool)}"
    return f"toolName = {_quoted(narrowed[1])}\ncommandPrefix = {_quoted(narrowed[2])}"


def _names(tools: Iterable[str]) -> str:
    return f"toolName = [{', '.join(map(_quoted, tools))}]"


def _quoted(text: str) -> str:
    """A JSON string is a TOML string."""
    return msgspec.json.encode(text).decode()


# --- the user's rules, and the directory's settings ------------------------------------------------


def _refusals(home: Path) -> str:
    """What the user's own policies deny, as rules that come before what ours allow."""
    return "\n".join(
        _rule("\n".join(matches), "deny", _REFUSED)
        for _, rule in _own_rules(home)
        if rule.get("decision") == "deny"
        and (matches := [f"{key} = {value_text(rule[key])}" for key in _MATCHES if key in rule])
    )


def _own_rules(home: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The rules in the user's own policies, each with its file."""
    try:
        found = sorted((home / ".gemini" / "policies").glob("*.toml"))
    except OSError:
        return
    for file in found:
        rules = _toml(file).get("rule")
        yield from ((file, rule) for rule in rules or () if isinstance(rule, dict))


def _toml(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            return tomllib.loads(stream.read(LARGEST).decode())
    except (OSError, ValueError):  # Gemini does not follow a file that it cannot read
        return {}


def _runs_something(home: Path, cwd: Path) -> Path | None:
    """The directory's settings file, if it names commands that run when Gemini starts."""
    file = cwd / ".gemini" / "settings.json"
    if file == home / ".gemini" / "settings.json":
        return None
    try:
        with file.open("rb") as stream:
            text = stream.read(LARGEST).decode()
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return file
    try:
        settings = json.loads(text)
    except ValueError:  # it can have comments
        named = (*_RUN_AT_START, *_RUN_IN_TOOLS, "\\u")
        return file if any(name in text for name in named) else None
    tools = settings.get("tools") if isinstance(settings, dict) else None
    runs = _any(settings, _RUN_AT_START) or _any(tools, _RUN_IN_TOOLS)
    return file if runs else None


def _any(table: Any, keys: Iterable[str]) -> bool:
    return isinstance(table, dict) and any(table.get(key) for key in keys)
