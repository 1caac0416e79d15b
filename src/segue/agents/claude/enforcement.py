"""Whether Claude would keep to what it is told to: judged before it is started."""

from __future__ import annotations

from pathlib import Path

from segue.agents.claude import settings
from segue.agents.claude.tools import PATTERNS, TOOLS
from segue.core.errors import Misuse
from segue.core.request import Request, Runtime, refuse_owned
from segue.core.tools import changing

INSTEAD = "use --permission default to run it with what Claude's own settings allow"
NOT_WITH_READ = frozenset(
    {"--settings", "--setting-sources", "--tools", "--plugin-dir", "--plugin-url", "--worktree", "-w"}
    | {"--add-dir", "--agent", "--agents", "--bare", "--restricted", "--safe-mode", "--ide", "--chrome"}
)
"""Native options that would grant more than the posture ``read``, or take away what keeps Claude to it."""


def not_in_force(request: Request, runtime: Runtime, home: Path) -> str | None:
    """Why the posture ``read`` would not be in force."""
    name = f"Claude {runtime.version or ''}".rstrip()
    if runtime.capabilities.unable_to_read:
        lacks = ", ".join(runtime.capabilities.unable_to_read)
        return f"{name} cannot keep to --permission read: it has no {lacks}; update it, or {INSTEAD}"
    try:
        refuse_owned("Claude with --permission read", NOT_WITH_READ, request.native_args)
    except Misuse as refused:
        return str(refused)
    own = [rule for rule in changing(TOOLS, request.allow_tools) if not rule.startswith("mcp__")]
    whole = next((rule for rule in own if rule.partition("(")[0] not in PATTERNS), None)
    if whole is not None:
        tools = " and ".join(PATTERNS)
        return (
            f"{name} cannot allow {whole} with --permission read: of the tools that write or run it can allow"
            f" only parts of {tools}; leave the rule out, or {INSTEAD}"
        )
    servers = next((rule for rule in request.allow_tools if rule.startswith("mcp__")), None)
    if servers is not None and not any(each.startswith("--mcp-config") for each in request.native_args):
        return (
            f"{name} starts no MCP servers of settings files with --permission read, so {servers} would not"
            f" be there: name the servers (-- --mcp-config FILE), or {INSTEAD}"
        )
    if (broken := settings.broken_settings(home)) is not None:
        return f"{broken} cannot be read, so its denials would not be in force: mend it"
    for file, rule in settings.managed_rules(home):
        if changing(TOOLS, (rule,)) and rule not in request.allow_tools:
            return f"{file} allows {rule}, which --permission read does not: have it removed, or {INSTEAD}"
    if (path := settings.managed_hooks(home)) is not None:
        return f"{path} has hooks that can allow more than --permission read: have them removed, or {INSTEAD}"
    return None


def overruled(request: Request, runtime: Runtime, home: Path) -> str | None:
    """Why a denial of a part of a tool would not be in force with a version in which hooks overrule it. A
    tool that is denied as a whole is not there at all."""
    part = next((rule for rule in request.deny_tools if "(" in rule), None)
    path = settings.hooks_before_tools(home, request.cwd) if part is not None else None
    if path is None:
        return None
    return (
        f"Claude {runtime.version} cannot deny {part}: {path} has hooks whose answer overrules it; update"
        " Claude, or have the hooks removed"
    )
