"""A look at the working tree: what it contains now, and what has changed since an earlier look.

The tree is written with an index of its own, untracked files included. The user's index, stash and branches
are not touched.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from shutil import copyfile

import msgspec

from segue.core.errors import Misuse

MOST_BYTES = 96 * 1024
"""The longest diff that is shown."""
MOST_OF_FILE = 24 * 1024
"""How much of it is shown of one file."""
READ_BYTES = 16 * 1024 * 1024
"""The rest of a longer diff is not read."""
PATIENCE_S = 600.0
FATAL = 128
"""The exit code of git if it did nothing. Below it, it may have passed over files that cannot be read."""
_OURS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX")
_QUIET = ("-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "-c", "advice.addEmbeddedRepo=false")
_SHOWN = ("--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", "--submodule=short")
_PIECE = re.compile(rb"^(?=diff --git )", re.MULTILINE)


class Look(msgspec.Struct, frozen=True):
    """What was seen. ``diff``: the changes since the look before, without what is too long."""

    tree: str
    diff: str = ""


def snapshot(directory: Path, env: Mapping[str, str]) -> str:
    """Write the working tree that contains the directory as a tree, and return its id."""
    top = _top(directory, env)
    index = Path(_text(_git(top, env, "rev-parse", "--git-path", "index")))
    with tempfile.TemporaryDirectory(prefix="segue-look-") as place:
        private = Path(place) / "index"
        mine = {**env, "GIT_INDEX_FILE": str(private)}
        if (top / index).exists():
            copyfile(top / index, private)  # it knows which files have not changed
        _git(top, mine, "add", "--all", "--ignore-errors", ".", may_fail=True)
        return _text(_git(top, mine, "write-tree"))


def worktree(directory: Path, tree: str, place: Path, env: Mapping[str, str]) -> Path:
    """Check out a tree of this repository at ``place``: a worktree without a branch. Returns where the
    directory is in it. If it is there already, it is left as it is."""
    top = _top(directory, env)
    inside = place / directory.resolve().relative_to(top.resolve())
    if place.exists():
        return inside
    parent = _git(top, env, "rev-parse", "--quiet", "--verify", "HEAD", may_fail=True).decode().split()
    who = {f"GIT_{role}_{what}": "segue" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    parents = [part for each in parent for part in ("-p", each)]
    commit = _text(_git(top, {**env, **who}, "commit-tree", tree, *parents, "-m", "The tree before a review"))
    place.parent.mkdir(parents=True, exist_ok=True)
    half = place.with_name(f"{place.name}.part")  # so that an interrupted checkout is not used
    if half.exists():
        _git(top, env, "worktree", "remove", "--force", "--force", str(half), may_fail=True)
    _git(top, env, "worktree", "add", "--quiet", "--force", "--detach", str(half), commit)
    _git(top, env, "worktree", "move", str(half), str(place))
    return inside


def checked_out(place: Path, env: Mapping[str, str]) -> str:
    """The tree that a worktree was made from."""
    return _text(_git(place, env, "rev-parse", "HEAD^{tree}"))


def look(directory: Path, since: str, env: Mapping[str, str]) -> Look:
    """Look at the tree, and at what has changed since the tree ``since``."""
    tree = snapshot(directory, env)
    return Look(tree, difference(directory, since, tree, env))


def difference(directory: Path, since: str, tree: str, env: Mapping[str, str]) -> str:
    """The changes between two trees, without what is too long."""
    if since == tree:
        return ""
    top = _top(directory, env)
    with tempfile.TemporaryFile() as file:
        _git(top, env, "diff", *_SHOWN, since, tree, output=file.fileno())
        size = file.tell() or file.seek(0, 2)
        file.seek(0)
        raw = file.read(READ_BYTES)
    text = bounded(raw)
    if size > len(raw):
        text += f"\n(The diff has {size:,} bytes; the rest was left out.)"
    return text


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


def _top(directory: Path, env: Mapping[str, str]) -> Path:
    """The root of the working tree. Raises ``Misuse`` if there is none."""
    try:
        return Path(_text(_git(directory, env, "rev-parse", "--show-toplevel")))
    except Misuse as error:
        hint = "a review needs to see what changes: run git init there first"
        raise Misuse(f"{directory} is not in a git working tree ({error}); {hint}") from None


def _git(
    directory: Path, env: Mapping[str, str], *args: str, may_fail: bool = False, output: int | None = None
) -> bytes:
    """Run git. Only the index that is named here counts, whatever the environment says."""
    mine = env.get("GIT_INDEX_FILE") if args[0] in ("add", "write-tree") else None
    clean = {name: value for name, value in env.items() if name not in _OURS}
    clean |= {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C.UTF-8"} | ({"GIT_INDEX_FILE": mine} if mine else {})
    try:
        done = subprocess.run(
            ["git", *_QUIET, "-C", str(directory), *args],
            env=clean,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if output is None else output,
            stderr=subprocess.PIPE,
            timeout=PATIENCE_S,
            check=False,
        )
    except FileNotFoundError:
        raise Misuse("git is not installed") from None
    except subprocess.TimeoutExpired:
        raise Misuse(f"git {args[0]} took longer than {PATIENCE_S:.0f} seconds in {directory}") from None
    if done.returncode > (FATAL - 1 if may_fail else 0):
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise Misuse(said[-1] if said else f"git {args[0]} failed with exit code {done.returncode}")
    return done.stdout or b""


def _text(output: bytes) -> str:
    return output.decode(errors="surrogateescape").rstrip("\n")
