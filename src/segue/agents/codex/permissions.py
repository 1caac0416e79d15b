"""What Codex's own files would add to the permissions of a run, and how it is kept out.

Measured on 0.104 and 0.166. Three kinds of files widen a read-only run:

- ``rules/*.rules`` of the home, of the system and of the directory: a command with the decision ``allow``
  runs *outside* the sandbox. 0.166 reads those of a directory only if it is trusted, and none with
  ``--ignore-rules``. 0.104 reads all of them, trusted or not, and has no such option.
- ``.codex/config.toml`` of a trusted directory: it starts MCP servers. Marking the directory as untrusted for
  the run keeps it out, and on 0.166 the rules there, too. A directory above can have such a file and be
  trusted on its own, so each is named. 0.166 then does not read AGENTS.md either. So a directory that the
  user never trusted is left as it is: there, neither version reads such a file.
- ``mcp_servers`` in the user's settings: their tools run outside the sandbox, and on 0.166 without asking if
  they say of themselves that they only read. Under ``read`` each is switched off by its name.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from segue.core.request import Posture, Request
from segue.core.toml import key_text

LOOKING: tuple[Posture, ...] = ("default", "read")
"""The permissions that run in a read-only sandbox."""
SYSTEM = Path("/etc/codex")
"""Where an administrator's settings and rules are."""
INSTRUCTIONS = ("AGENTS.override.md", "AGENTS.md")
LARGEST = 4 * 1024 * 1024
"""The largest settings file that is read, in bytes."""


def closed(request: Request, home: Path | None) -> list[str]:
    """The settings that keep out what Codex's own files would add to ``default`` and ``read``."""
    if request.permission not in LOOKING:
        return []
    found = _found(home)
    settings = []
    if home is None or any(_trusts(each, request.cwd) for each in found):
        marks = (f'{key_text(str(each))}={{trust_level="untrusted"}}' for each in _folders(request.cwd))
        settings.append(f"projects={{{','.join(marks)}}}")
    if request.permission == "read":
        names = {name for each in found for name in _table(each, "mcp_servers")}
        settings += [f"mcp_servers={{{key_text(name)}={{enabled=false}}}}" for name in sorted(names)]
    return settings


def unread(request: Request, home: Path) -> tuple[str, ...]:
    """The instructions of the directory that 0.166 does not read, because trust is taken back for the run."""
    if request.permission not in LOOKING or not any(_trusts(each, request.cwd) for each in _found(home)):
        return ()
    names = []
    for folder in (request.cwd, *request.cwd.parents):
        names += [str(folder / name) for name in INSTRUCTIONS if (folder / name).is_file()]
        if (folder / ".git").exists():
            return tuple(names)
    return tuple(str(request.cwd / name) for name in INSTRUCTIONS if (request.cwd / name).is_file())


def rules_in_force(home: Path, cwd: Path) -> Path | None:
    """A file with rules that Codex 0.104 would follow; None: there is none."""
    folders = [home / "rules", SYSTEM / "rules", *(each / ".codex" / "rules" for each in _folders(cwd))]
    return next((file for folder in folders for file in _rules(folder)), None)


def _found(home: Path | None) -> list[dict[str, Any] | None]:
    return [_settings(folder / "config.toml") for folder in (home, SYSTEM) if folder is not None]


def _rules(folder: Path) -> Iterator[Path]:
    try:
        files = sorted(folder.glob("*.rules"))
    except OSError:
        return
    yield from (file for file in files if _says_something(file))


def _says_something(file: Path) -> bool:
    try:
        with file.open("rb") as lines:
            text = lines.read(LARGEST).decode("utf-8", "replace")
    except OSError:
        return False
    return any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines())


def _trusts(settings: dict[str, Any] | None, cwd: Path) -> bool:
    """Whether the settings may trust this directory or one above it. In a linked worktree, Codex also looks
    at the main repository: then every trusted directory counts."""
    if settings is None:
        return True
    projects = _table(settings, "projects")
    trusted = {path for path, about in projects.items() if isinstance(about, dict) and _is_trusted(about)}
    above = _folders(cwd)
    if any((folder / ".git").is_file() for folder in above):
        return bool(trusted)
    return not trusted.isdisjoint(str(folder) for folder in above)


def _is_trusted(about: dict[str, Any]) -> bool:
    return about.get("trust_level") == "trusted"


def _folders(cwd: Path) -> list[Path]:
    """The directory and all above it, as they are written and with links resolved. Codex's settings cannot
    name a path that is no text, so nothing is trusted under such a name."""
    spelled = (Path(os.path.abspath(cwd)), Path(os.path.realpath(cwd)))
    found = dict.fromkeys(folder for path in spelled for folder in (path, *path.parents))
    return [folder for folder in found if _is_text(str(folder))]


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _settings(file: Path) -> dict[str, Any] | None:
    """The settings in a file; None: it cannot be read."""
    try:
        with file.open("rb") as stream:
            return tomllib.loads(stream.read(LARGEST).decode())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError):
        return None


def _table(settings: dict[str, Any] | None, name: str) -> dict[str, Any]:
    found = (settings or {}).get(name)
    return found if isinstance(found, dict) else {}
