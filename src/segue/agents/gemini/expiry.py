"""When Gemini's own clean-up will take a session away: ``general.sessionRetention`` in the home's settings.

Each start in a project deletes what was last updated longer ago than ``maxAge``, and all but the newest
``maxCount``. Versions that write lines do it by default after 30 days; older ones only when told to.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from segue.agents.gemini.listing import short_id
from segue.agents.reader import Stored
from segue.core.loose import table, whole
from segue.core.transcript import Brief

_HOUR = 3_600_000
_UNITS = {"h": _HOUR, "d": 24 * _HOUR, "w": 7 * 24 * _HOUR, "m": 30 * 24 * _HOUR}
_DEFAULTS = {"enabled": True, "maxAge": "30d"}
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.S)

_settings: dict[str, tuple[int, dict[str, Any]]] = {}
_newer: dict[str, tuple[int, bool]] = {}


def expires_ms(stored: Stored, brief: Brief) -> int | None:
    rules = _retention(stored.home)
    if stored.appends or _is_newer(stored.path.parent):
        rules = _DEFAULTS | rules
    used = brief.last_used_ms or stored.changed_ns // 1_000_000
    age, least = _period(rules.get("maxAge")), _period(rules.get("minRetention")) or _UNITS["d"]
    count = whole(rules.get("maxCount"))
    wrong = (rules.get("maxAge") and age is None) or (age is not None and age < least)
    if not rules.get("enabled") or wrong or (count is not None and count < 1):
        return None
    if count is not None and _newer_ones(stored) >= count:
        return used
    return used + age if age is not None else None


def _period(text: Any) -> int | None:
    found = re.fullmatch(r"(\d+)([dhwm])", text) if isinstance(text, str) else None
    return int(found[1]) * _UNITS[found[2]] or None if found else None


def _retention(home: Path) -> dict[str, Any]:
    """Read again only when the settings have changed: it is asked for every session of a list."""
    path = f"{home}/.gemini/settings.json"
    try:
        changed = os.stat(path).st_mtime_ns
        known = _settings.get(path)
        if known is None or known[0] != changed:
            with open(path, encoding="utf-8") as file:
                text = _COMMENT.sub(lambda found: found[1] or "", file.read(1 << 20))
            found = table(table(table(json.loads(text)).get("general")).get("sessionRetention"))
            known = _settings[path] = (changed, found)
        return known[1]
    except (OSError, ValueError, RecursionError):
        return {}


def _is_newer(chats: Path) -> bool:
    """Whether a version that writes lines has been here: it cleans up older sessions too."""
    try:
        changed = os.stat(chats).st_mtime_ns
        known = _newer.get(str(chats))
        if known is None or known[0] != changed:
            known = _newer[str(chats)] = (changed, any(name.endswith(".jsonl") for name in os.listdir(chats)))
        return known[1]
    except OSError:
        return False


def _newer_ones(stored: Stored) -> int:
    newer: set[str] = set()
    try:
        with os.scandir(stored.path.parent) as listing:
            for item in listing:
                mine = not item.name.startswith("session-") or short_id(item.name) == stored.id[:8]
                if not mine and item.stat().st_mtime_ns > stored.changed_ns:
                    newer.add(short_id(item.name))
    except OSError:
        return 0
    return len(newer)
