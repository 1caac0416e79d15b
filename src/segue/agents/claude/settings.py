"""Claude's settings files, as far as they decide what a run may do.

With the posture ``read``, Claude reads no settings file of its own accord: one with an allow rule, a hook or
another permission mode would grant more than was asked for. Login, routing and retention of the user's own
settings are copied to a file for the run, together with the denials of all settings files: a denial never
grants anything.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.claude.schema import raw
from segue.agents.decoding import DAMAGE
from segue.core.environment import SECRET_LENGTH, looks_secret
from segue.core.json_values import decode

KEPT = (
    *("apiKeyHelper", "awsAuthRefresh", "awsCredentialExport", "cleanupPeriodDays", "env"),
    *("forceLoginMethod", "forceLoginOrgUUID", "model", "otelHeadersHelper"),
)
"""What is kept of the user's own settings: who pays, where requests go, how long sessions stay."""
PROJECT = (".claude/settings.json", ".claude/settings.local.json")
MANAGED = Path("/Library/Application Support/ClaudeCode" if sys.platform == "darwin" else "/etc/claude-code")
"""The administrator's settings, which Claude always reads."""
_ALLOWING = frozenset({"PermissionRequest", "PreToolUse"})
_BY_PATH = frozenset(
    {"Edit", "Glob", "Grep", "LS", "MultiEdit", "NotebookEdit", "NotebookRead", "Read", "Write"}
)
"""The tools whose rules hold for paths."""
MEMORIES = ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md")


class Permissions(msgspec.Struct, frozen=True):
    """``permissions`` in a settings file, as far as it is used here."""

    allow: Any = None
    deny: Any = None


class SettingsFile(msgspec.Struct, frozen=True):
    permissions: Permissions | None = None
    hooks: Any = None


def own_settings(home: Path | None, cwd: Path) -> dict[str, msgspec.Raw]:
    """What a run with the posture ``read`` is given in place of the settings files."""
    user = _fields(home / "settings.json") if home is not None else {}
    kept = {name: user[name] for name in KEPT if name in user}
    denied = dict.fromkeys(_denials(home, cwd))
    return kept | ({"permissions": raw({"deny": list(denied)})} if denied else {})


def secrets_in(settings: Mapping[str, msgspec.Raw]) -> tuple[str, ...]:
    """The values of the settings' variables that no output may show."""
    try:
        variables = decode(settings.get("env", raw({})), dict[str, Any])
    except DAMAGE:
        return ()
    found = {
        value
        for name, value in variables.items()
        if isinstance(value, str) and len(value) >= SECRET_LENGTH and _is_secret(name)
    }
    return tuple(sorted(found, key=lambda value: (-len(value), value)))


def broken_settings(home: Path) -> Path | None:
    """The user's settings file, if it cannot be read: its login and its denials would be lost."""
    path = home / "settings.json"
    try:
        decode(path.read_bytes(), dict[str, msgspec.Raw])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, *DAMAGE):
        return path
    return None


def managed_rules(home: Path) -> Iterator[tuple[Path, str]]:
    """The allow rules of the settings that Claude always reads, each with its file."""
    for path in _managed(home):
        for rule in _rules(path, "allow"):
            yield path, rule


def managed_hooks(home: Path) -> Path | None:
    """A file of these settings with hooks that are asked before a tool runs: they can allow it."""
    return next((path for path in _managed(home) if _hooks(path) & _ALLOWING), None)


def hooks_before_tools(home: Path, cwd: Path) -> Path | None:
    """The settings file, of all that there are, with hooks that are asked before a tool runs."""
    files = (home / "settings.json", *(cwd / name for name in PROJECT), *_managed(home))
    return next((path for path in files if _hooks(path) & _ALLOWING), None)


def unread_memories(home: Path, cwd: Path) -> tuple[str, ...]:
    """The files with instructions that a run with the posture ``read`` does not get: those of the user, of
    the directories above, and the local one."""
    above = [each / name for each in cwd.parents for name in MEMORIES]
    found = (home / "CLAUDE.md", cwd / "CLAUDE.local.md", *above)
    return tuple(
        dict.fromkeys(str(path) for path in found if path.is_file() and path.parent != cwd / ".claude")
    )


def _managed(home: Path) -> tuple[Path, ...]:
    parts = sorted((MANAGED / "managed-settings.d").glob("*.json"))
    return MANAGED / "managed-settings.json", *parts, home / "remote-settings.json"


def _hooks(path: Path) -> set[str]:
    try:
        hooks = decode(path.read_bytes(), SettingsFile).hooks
    except (OSError, *DAMAGE):
        return set()
    return {name for name, hook in hooks.items() if hook} if isinstance(hooks, dict) else set()


def _denials(home: Path | None, cwd: Path) -> Iterator[str]:
    if home is not None:
        yield from _rooted(_rules(home / "settings.json", "deny"), home)
    for name in PROJECT:
        yield from _rooted(_rules(cwd / name, "deny"), cwd)


def _rooted(rules: Iterable[str], root: Path) -> Iterator[str]:
    """The rules with paths from the folder of their settings file made absolute: the copy is elsewhere."""
    for rule in rules:
        tool, bracket, rest = rule.partition("(")
        if bracket and tool in _BY_PATH and rest.startswith("/") and not rest.startswith("//"):
            rule = f"{tool}(/{os.fspath(root)}{rest}"
        yield rule


def _rules(path: Path, kind: str) -> tuple[str, ...]:
    """The rules of a settings file; none if Claude would not read them either."""
    try:
        permissions = decode(path.read_bytes(), SettingsFile).permissions
    except (OSError, *DAMAGE):
        return ()
    rules = getattr(permissions, kind, None)
    return tuple(rule for rule in rules if isinstance(rule, str)) if isinstance(rules, list) else ()


def _fields(path: Path) -> dict[str, msgspec.Raw]:
    try:
        return decode(path.read_bytes(), dict[str, msgspec.Raw])
    except (OSError, *DAMAGE):
        return {}


def _is_secret(name: str) -> bool:
    return looks_secret(name) or name.upper().endswith("_HEADERS")
