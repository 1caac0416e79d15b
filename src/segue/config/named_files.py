"""Which files may be read when somebody names them.

A path that the user types is the user's word. But a link on it may be somebody else's: one that leads out of
its project is refused, unless the user trusts the directory. A path inside a project's file stays below the
root of the working tree, links resolved. Both are read once, by ``segue.system.named_files``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from segue.config.home import home_of, user_home
from segue.config.trust import is_covered, way_to_trust
from segue.core.errors import Misuse
from segue.system.named_files import (
    LARGEST,
    Link,
    follow,
    is_below,
    read_unlinked,
    version_controlled,
)


class TypedFile(NamedTuple):
    """A file that the user named."""

    path: Path
    """Where it is, without links."""
    data: bytes
    is_link: bool
    """What the user named is a link to it."""


def read_typed(
    path: str | Path,
    env: Mapping[str, str],
    here: Path,
    *,
    said: str | None = None,
    hint: str = "",
    most: int = LARGEST,
) -> TypedFile:
    """Read a file that the user named; a relative path is below ``here``. ``said``: the beginning of the
    error message. ``hint``: added if it is not a regular file. Raises ``Misuse``, caused by the ``OSError``
    if there was one."""
    path = here / os.path.expanduser(path)
    said = said or f"cannot read {path}"
    try:
        found = follow(path.absolute())
        for link in found.links:
            _refuse_leaving(link, env, here)
        return TypedFile(found.path, read_unlinked(found.path, most), found.is_link)
    except Misuse as error:
        raise Misuse(f"{said}: {error.message}{hint if 'regular' in error.message else ''}") from None
    except FileNotFoundError as error:
        if os.path.exists(path):  # a pipe of a shell: <(command)
            raise Misuse(f"{said}: it is not a regular file{hint}") from None
        raise Misuse(f"{said}: {error.strerror}") from error
    except OSError as error:
        raise Misuse(f"{said}: {error.strerror}") from error


def read_inside(folder: Path, name: str, root: Path, most: int = LARGEST) -> bytes:
    """Read a file that a project's file in ``folder`` names. It must be below ``root``, links resolved.
    Neither folder has links. Raises ``OutsideProject``, or another ``Misuse``."""
    path = folder / name
    try:
        real = follow(path).path
        if not is_below(real, root):
            raise OutsideProject(real, root)
        return read_unlinked(real, most)
    except OutsideProject:
        raise
    except Misuse as error:
        raise Misuse(f"cannot read {path}: {error.message}") from None
    except OSError as error:
        raise Misuse(f"cannot read {path}: {error.strerror}") from error


class OutsideProject(Misuse):
    """A project's file names a file that is not below the root of the project."""

    def __init__(self, path: Path, root: Path) -> None:
        super().__init__(f"{path} is outside {root}")
        self.path, self.root = path, root


def _refuse_leaving(link: Link, env: Mapping[str, str], here: Path) -> None:
    """Raise ``Misuse`` if the link leads out of its project, and the directory is not trusted."""
    root = _project_of(link, user_home(env), here.resolve())
    if root is None or is_below(link.target, root) or is_covered(home_of(env), link.folder, root):
        return
    raise Misuse(
        f"the link {link.folder / link.name} leads out of {root}, to {link.target}; name that file itself,"
        f" or trust the directory: {way_to_trust(root)}"
    )


def _project_of(link: Link, home: Path, here: Path) -> Path | None:
    """The root of the project that a link belongs to; None: to none.

    Without version control that is the directory the user is in, if the link is there, else the link's
    folder. The user's home and what is above it is no project, nor is what the administrator has linked."""
    if (root := version_controlled(link.folder)) is not None:
        return root
    home = home.resolve()
    if is_below(home, link.folder) or _is_of_administrator(link):
        return None
    return here if is_below(link.folder, here) and not is_below(home, here) else link.folder


def _is_of_administrator(link: Link) -> bool:
    return os.getuid() != 0 and os.lstat(link.folder / link.name).st_uid == 0
