"""The directory that a project's folder belongs to, where Gemini wrote it down; never guessed from a name."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from pathlib import Path

from segue.core.loose import table

_MARKER = ".project_root"


def directory(project: str, home: Path) -> str | None:
    """By the file in the folder; a folder of older versions is named by the hash of its directory instead."""
    found = _read(f"{project}/{_MARKER}")
    if found is not None:
        return found
    name = os.path.basename(project)
    return _read(f"{home}/.gemini/history/{name}/{_MARKER}") or _registered(home, name)


def _read(path: str) -> str | None:
    try:
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(opened, 8192).decode().strip() or None
        finally:
            os.close(opened)
    except (OSError, UnicodeDecodeError):
        return None


def _registered(home: Path, name: str) -> str | None:
    try:
        with open(f"{home}/.gemini/projects.json", "rb") as file:
            known = table(table(json.loads(file.read(4 << 20))).get("projects"))
    except (OSError, ValueError, RecursionError):
        return None
    for path, short in known.items():
        if name in (short, sha256(path.encode("utf-8", "replace")).hexdigest()):
            return str(path)
    return None
