"""A look at the working tree: what it contains now, and what has changed since an earlier look.

Looks run nothing of the repository and change nothing in it (``system.git``). Untracked files are included.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from segue.core.errors import Misuse
from segue.core.usage import count_in_words
from segue.system.git import GitFailed, WorkTree

MOST_BYTES = 96 * 1024
"""The longest diff that is shown."""
MOST_OF_FILE = 24 * 1024
"""How much of it is shown of one file."""
READ_BYTES = 16 * 1024 * 1024
"""The rest of a longer diff is not read."""
MOST_NAMES = 20
LONGEST_NAME = 200
MOST_GONE = 200
"""If the content of more files is gone, no file is shown."""
_SHOWN = ("-p", "--no-color", "--no-ext-diff", "--no-textconv", "--submodule=short")
_PIECE = re.compile(rb"^(?=diff --git )", re.MULTILINE)
REMOVED = "for example by `git gc --prune=now`"


class Base(msgspec.Struct, frozen=True):
    """A flow's first look. Its later looks are at the same tree, and ignore the same files."""

    tree: str
    top: str = ""
    """The root of the working tree; empty: it was not recorded."""
    ignores: str | None = None
    """Patterns of the files that are ignored, in Latin-1; None: they were not recorded."""


class Look(msgspec.Struct, frozen=True):
    """What was seen."""

    tree: str
    diff: str = ""
    """The changes since the look before, without what is too long."""
    unseen: tuple[str, ...] = ()
    """Repositories inside (with a slash at the end) and unreadable files: changes in them are not shown."""
    anew: bool = False
    """The look before is gone from the repository: what has changed since then is not known."""


def first_look(directory: Path, home: Path, env: Mapping[str, str]) -> Base:
    """Look at the working tree that contains the directory. ``home``: where our git directories are."""
    at = WorkTree(directory, home, env)
    ignores = at.ignores()
    seen = at.look(at.recorded(), ignores)
    return Base(seen.tree, _printable(str(at.top)), ignores.decode("latin-1"))


def look(base: Base, since: str, directory: Path, home: Path, env: Mapping[str, str]) -> Look:
    """Look at the tree, and at what has changed since the tree ``since``. ``directory``: it is inside."""
    at = _again(base, directory, home, env)
    ignores = at.ignores() if base.ignores is None else base.ignores.encode("latin-1")
    known = at.in_tree(since)
    seen = at.look(known if known is not None else at.recorded(), ignores)
    found = _difference(at, since, seen.tree)
    if found is None or found.missing:
        seen = at.look(known or {}, ignores, anew=True)  # so that the next look has all objects
    diff, unseen = (found.diff, seen.unseen) if found is not None else ("", seen.unseen)
    return Look(seen.tree, diff, tuple(map(_printable, unseen)), found is None)


def difference(
    base: Base, since: str, tree: str, directory: Path, home: Path, env: Mapping[str, str]
) -> str | None:
    """The changes between two trees, without what is too long. None: one of the trees is gone."""
    found = _difference(_again(base, directory, home, env), since, tree)
    return None if found is None else found.diff


def named(unseen: Iterable[str]) -> str:
    """What a look did not see, as a list."""
    names = sorted(unseen)
    lines = [
        f"- {_short(name)}: {'a git repository' if name.endswith('/') else 'unreadable'}" for name in names
    ]
    more = len(lines) - MOST_NAMES
    return "\n".join([*lines[:MOST_NAMES], *([f"- and {more} more"] if more > 0 else [])])


class _Found(msgspec.Struct, frozen=True):
    diff: str = ""
    missing: bool = False
    """The earlier content of some files is gone."""


def _again(base: Base, directory: Path, home: Path, env: Mapping[str, str]) -> WorkTree:
    """The tree of the first look: a repository that was made inside it since then does not count."""
    if not base.top or not os.path.isdir(base.top):
        return WorkTree(directory, home, env)
    found = WorkTree(Path(base.top), home, env)
    if str(found.top) != base.top:
        raise Misuse(f"{base.top} is no git working tree any more; restore its .git, or begin a new review")
    return found


def _difference(at: WorkTree, since: str, tree: str) -> _Found | None:
    """The changes; None: one of the trees is gone."""
    if since == tree:
        return _Found()
    try:
        return _Found(_text(at, since, tree, "--find-renames"))
    except GitFailed:
        changed = at.changed(since, tree)
        if changed is None:
            return None
        names, gone = changed
        if not gone:
            raise
    text = ""
    if len(gone) <= MOST_GONE:
        but = (f":(exclude,literal){name}" for name in gone)
        text = _text(at, since, tree, "--no-renames", paths=(".", *but))
        names = gone
    listed = ", ".join(_short(_printable(name)) for name in names[:MOST_NAMES])
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    count = count_in_words(len(names), "file")
    gone_from = f"whose earlier content is gone from the repository, {REMOVED}"
    note = f"({count} changed, too, {gone_from}: {listed}{more}. Read them.)"
    return _Found(f"{text}{note}\n", True)


def _text(at: WorkTree, since: str, tree: str, *args: str, paths: tuple[str, ...] = ()) -> str:
    with tempfile.TemporaryFile() as file:
        at.diff(since, tree, *_SHOWN, *args, paths=paths, output=file.fileno())
        size = file.seek(0, 2)
        file.seek(0)
        raw = file.read(READ_BYTES)
    text = bounded(raw)
    if size > len(raw):
        text += f"\n(The diff has {size:,} bytes; the rest was left out.)"
    return text


def _printable(name: str) -> str:
    """A name without bytes that are no text."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


def _short(name: str) -> str:
    """A name in quotes, on one line."""
    return json.dumps(name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}…", ensure_ascii=False)


def bounded(raw: bytes) -> str:
    """A diff without what is too long. It says what was left out."""
    shown: list[str] = []
    left_out: list[str] = []
    room = MOST_BYTES
    for piece in filter(None, _PIECE.split(raw)):
        text = _piece(piece)
        if len(text) > room:
            left_out.append(_name(piece))
            continue
        room -= len(text)
        shown.append(text)
    if left_out:
        names = ", ".join(left_out[:20]) + (f" and {len(left_out) - 20} more" if len(left_out) > 20 else "")
        shown.append(f"(The diff is long. These files have changed, too; read them: {names})\n")
    return "".join(shown)


def _piece(piece: bytes) -> str:
    """The diff of one file."""
    text = piece[:MOST_OF_FILE].decode(errors="replace")
    if len(piece) <= MOST_OF_FILE:
        return text
    text = text[: text.rfind("\n") + 1]
    lines = piece.count(b"\n") - text.count("\n")
    return f"{text}({lines:,} more lines of the diff of this file are left out; read the file)\n"


def _name(piece: bytes) -> str:
    """The file of a piece, as its first line names it."""
    first = piece.split(b"\n", 1)[0].decode(errors="replace")
    return first.rpartition(" b/")[2] or first
