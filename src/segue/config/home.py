"""Where Segue keeps its own files (``SEGUE_HOME``, or the user directories), and which host this is.

A host has a name, and an id that stays when the name changes.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from segue.core.errors import ConfigError
from segue.core.model import Host
from segue.system import clock
from segue.system.files import write_new

if TYPE_CHECKING:
    from collections.abc import Mapping


PRIVATE = 0o700


class Home:
    """The paths. Nothing is created until ``make`` is called."""

    def __init__(self, root: Path, config_dir: Path | None = None) -> None:
        self.root = root
        self.config_file = (config_dir or root) / "config.toml"

    @property
    def runs(self) -> Path:
        """One directory per attempt: its stream, its prompt file."""
        return self.root / "runs"

    @property
    def store(self) -> Path:
        """The conversations, unless a database URL is configured."""
        return self.root / "segue.db"

    @property
    def host(self) -> Path:
        """The id of this home among those that share a store."""
        return self.root / "host"

    @property
    def locks(self) -> Path:
        """File locks for everything that has one writer on this machine."""
        return self.root / "locks"

    @property
    def probes(self) -> Path:
        """What is known about the programs on this machine."""
        return self.root / "probes.json"

    @property
    def runners(self) -> Path:
        """Private homes of agents whose session ids can only be found on disk."""
        return self.root / "runners"

    @property
    def briefs(self) -> Path:
        """What was read from the files of native sessions, so that they need not be read a second time."""
        return self.root / "briefs"

    @property
    def kept(self) -> Path:
        """Our own copies of native sessions."""
        return self.root / "kept"

    @property
    def index(self) -> Path:
        """The search index of the native sessions on this machine."""
        return self.root / "index.db"

    @property
    def git(self) -> Path:
        """Our own git directories for looks at working trees."""
        return self.root / "git"

    @property
    def trust(self) -> Path:
        """The directories the user trusts."""
        return self.root / "trust.json"

    def make(self, directory: Path) -> Path:
        """Create a directory here, and its parents up to the root, for this user alone."""
        missing = [
            d for d in (directory, *directory.parents) if d.is_relative_to(self.root) and not d.exists()
        ]
        if missing and not self.root.parent.exists():
            self.root.parent.mkdir(parents=True, exist_ok=True)
        for path in reversed(missing):
            path.mkdir(mode=PRIVATE, exist_ok=True)
        return directory


def home_of(env: Mapping[str, str], cwd: Path | None = None) -> Home:
    """The home that the environment names; a relative ``SEGUE_HOME`` is relative to ``cwd``."""
    if named := env.get("SEGUE_HOME"):
        return Home((cwd or Path()) / expand(named, env))
    user = user_home(env)
    if sys.platform == "darwin":
        return Home(user / "Library" / "Application Support" / "segue")
    data = _xdg(env, "XDG_DATA_HOME", user / ".local" / "share")
    return Home(data / "segue", _xdg(env, "XDG_CONFIG_HOME", user / ".config") / "segue")


def user_home(env: Mapping[str, str]) -> Path:
    """``HOME``, else the home that the system knows. A relative ``HOME`` is ignored."""
    named = env.get("HOME", "")
    found = named if named.startswith("/") else _passwd_home()
    if found is None:
        raise ConfigError("your home directory is not known; set HOME to its absolute path")
    return Path(found)


def at_home(env: Mapping[str, str]) -> dict[str, str]:
    """The environment with an absolute ``HOME``, if one is known."""
    found = None if env.get("HOME", "").startswith("/") else _passwd_home()
    return {**env, "HOME": found} if found is not None else dict(env)


def settled_environment(env: Mapping[str, str], cwd: Path, home: str | Path | None = None) -> dict[str, str]:
    """The environment with an absolute ``HOME`` and ``SEGUE_HOME``, so that nothing depends on the process's
    own directory. ``home``: the ``SEGUE_HOME`` to use."""
    settled = at_home(env)
    if home is not None:
        settled["SEGUE_HOME"] = str(cwd / Path(home).expanduser())
    elif settled.get("SEGUE_HOME"):
        settled["SEGUE_HOME"] = str(home_of(settled, cwd).root)
    return settled


def _passwd_home() -> str | None:
    import pwd

    try:
        found = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None
    return found if found.startswith("/") else None


def expand(path: str, env: Mapping[str, str]) -> Path:
    """The path with ``~`` for the user's home."""
    if path == "~" or path.startswith("~/"):
        return user_home(env) / path[2:]
    return Path(path)


def _xdg(env: Mapping[str, str], name: str, default: Path) -> Path:
    """The directory that the variable names. The specification says to ignore a relative path."""
    value = env.get(name, "")
    return Path(value) if value.startswith("/") else default


def this_host(configured: str | None, home: Home) -> Host:
    """The id belongs to the home: containers of one image share a machine id, and often a name."""
    return Host(configured or os.uname().nodename, _id(home))


def _id(home: Home) -> str | None:
    """The id in the home, made when it is first needed; None if the home cannot be written."""
    with suppress(OSError):
        if not home.host.exists():
            home.make(home.root)
            write_new(home.host, f"{clock.random_hex(16)}\n".encode())
        return home.host.read_text("ascii", "replace").strip() or None
    return None
