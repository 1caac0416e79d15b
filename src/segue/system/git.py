"""Git, called so that nothing of a repository runs: no hook, no filter, no program that its settings name.

A look at a working tree has a git directory of its own, with our configuration, our attributes, our index and
our objects. Of the user's repository, git reads only the objects. The user's configuration, hooks, attributes
and index have no effect, and none of them is changed. The working tree is found by its ``.git``, because
``core.worktree`` could name another directory. No other module calls git.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from segue.core.errors import Misuse
from segue.system import clock
from segue.system.files import make_folder, which, whole_tree

PATIENCE_S = 600.0
FATAL = 128
"""The exit code of git if it did nothing. Below it, it may have passed over files that cannot be read."""
ATTRIBUTES = b"* -filter -text -ident -working-tree-encoding !diff !merge\n"
"""They count more than those of the tree. ``!diff``: git judges by the content whether a file is text."""
CONFIG = {
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.untrackedCache": "false",
    "core.attributesFile": "/dev/null",
    "core.excludesFile": "/dev/null",
    "core.autocrlf": "false",
    "core.safecrlf": "false",
    "core.quotePath": "false",
    "core.logAllRefUpdates": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "advice.addEmbeddedRepo": "false",
    "submodule.recurse": "false",
}
MOST_LIST = 1024 * 1024
"""The longest file of patterns, or of a configuration, that is read."""
MOST_INDEX = 1024 * 1024 * 1024
MOST_INSIDE = 200
"""Of so many repositories inside the tree, each is looked at by itself."""
LINK = "160000"
"""The mode of an entry that is another repository's commit."""
LEFT_S = 24 * 3600.0
"""What a look has left behind that was killed is removed after this time."""
NOTHING: Mapping[str, str] = {}
_AUTHOR = {f"GIT_{role}_{what}": "segue" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
_UNOPENED = re.compile(r"^warning: could not open directory '(.*?)/?': ", re.MULTILINE)


class Seen(msgspec.Struct, frozen=True):
    """A working tree as git objects. ``unseen``: what could not be taken."""

    tree: str
    unseen: tuple[str, ...] = ()


class GitFailed(Misuse):
    """A call of git failed."""


class WorkTree:
    """A working tree, and our git directory for it, below ``home``.

    ``env``: the caller's environment, for the search path and for the user's own list of ignored files.
    """

    def __init__(self, directory: Path, home: Path, env: Mapping[str, str]) -> None:
        top = working_tree(directory)
        if top is None:
            hint = "a review needs to see what changes: run git init there first"
            raise Misuse(f"{directory} is not in a git working tree; {hint}")
        self.top, self._env = top, env
        self.git_dir = _git_dir(top)
        self.common = _common_dir(self.git_dir)
        self._path = _search_path(env, top)
        self._config = _read(self.common / "config")
        found = os.stat(top)
        named = (found.st_dev, found.st_ino, top, self.common, self._object_format)
        self.ours = (
            home / sha256("\0".join(map(str, named)).encode(errors="surrogateescape")).hexdigest()[:24]
        )

    def ignores(self) -> bytes:
        """The patterns of files that are ignored, as they are now: the user's own list, then that of the
        repository. The lists in ``.gitignore`` are not among them."""
        users, its = _users_list(self._env, self._path), self.common / "info" / "exclude"
        lines = (_read(users, follow=True) + b"\n" + _read(its)).split(b"\n")
        return b"".join(line + b"\n" for line in lines if line.strip() and not line.startswith(b"#"))

    def recorded(self) -> dict[str, str | None]:
        """What the user's index names, with the commit of each submodule.

        What else it says of a file does not count: it was made by the user's filters, and can hide changes.
        """
        index = _read(self.git_dir / "index", MOST_INDEX)
        if not index:
            return {}
        with self._scratch() as scratch:
            (scratch / "theirs").write_bytes(index)
            try:
                return self._entries(scratch / "theirs")
            except GitFailed:  # it is damaged, or split
                return {}

    def in_tree(self, tree: str) -> dict[str, str | None] | None:
        """What a tree names, like ``recorded``. None: it cannot be read."""
        with self._held():
            try:
                said = self._run("ls-tree", "-r", "-z", "--full-tree", tree)
            except GitFailed:
                return None
        return _named(said)

    def look(self, known: Mapping[str, str | None], ignores: bytes, *, anew: bool = False) -> Seen:
        """Write the working tree as a tree. ``known``: names that are taken even if they are ignored.
        ``anew``: all files are read, so that no object of it is missing."""
        with self._scratch() as scratch:
            (scratch / "ignores").write_bytes(ignores + self._own_pattern())
            kept, index = self.ours / "index", scratch / "index"
            if not anew and kept.exists():
                shutil.copy2(kept, index)  # its time counts: git compares it with that of files
            try:
                seen = self._taken(scratch, known)
            except GitFailed:
                if not index.exists():
                    raise
                index.unlink()  # objects that it names are gone: read all files
                seen = self._taken(scratch, known)
            index.replace(kept)
            return seen

    def diff(
        self, since: str, tree: str, *args: str, paths: tuple[str, ...] = (), output: int | None = None
    ) -> bytes:
        """``git diff-tree`` of two trees."""
        with self._held():
            return self._run("diff-tree", "-r", *args, since, tree, "--", *paths, output=output)

    def changed(self, since: str, tree: str) -> tuple[list[str], list[str]] | None:
        """The names of the files that differ, and of those whose content is gone from one of the trees. None:
        a tree is gone itself."""
        with self._held():
            try:
                raw = self._run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", since, tree)
            except GitFailed:
                return None
            parts = raw.split(b"\0")
            rows = [
                (row.decode().lstrip(":").split(), os.fsdecode(name))
                for row, name in zip(parts[::2], parts[1::2], strict=False)
            ]
            blobs = {
                id_
                for (old, new, was, is_, _), _ in rows
                for mode, id_ in ((old, was), (new, is_))
                if mode not in (LINK, "000000")
            }
            said = self._run(
                "cat-file", "--batch-check", stdin="".join(f"{each}\n" for each in blobs).encode()
            )
        gone = {line.split()[0] for line in said.decode().splitlines() if line.endswith(" missing")}
        return [name for _, name in rows], [name for (_, _, was, is_, _), name in rows if {was, is_} & gone]

    def is_there(self, tree: str) -> bool:
        """Whether the tree exists."""
        with self._held():
            try:
                return self._run("cat-file", "-t", tree).strip() == b"tree"
            except GitFailed:
                return False

    def write_whole(self) -> str:
        """Write the working tree as a tree of the user's repository: all its objects are there then."""
        known, ignores = self.recorded(), self.ignores()
        with self._scratch() as scratch:
            (scratch / "ignores").write_bytes(ignores + self._own_pattern())
            return self._taken(scratch, known, self._theirs_objects).tree

    def add_worktree(self, tree: str, place: Path) -> None:
        """Check out a tree of the user's repository at ``place``, as a worktree without a branch. One that is
        there already is left as it is."""
        theirs = self._theirs_objects
        make_folder(place.parent)
        with self._scratch() as scratch, _locked(place.parent / ".lock"):
            self._tidy_worktrees(place)
            if place.exists():
                return
            parents = [word for each in self._head() for word in ("-p", each)]
            said = self._run(
                "commit-tree", tree, *parents, "-m", "The tree before a review", env={**theirs, **_AUTHOR}
            )
            commit = said.decode().strip()
            half = place.with_name(f".{place.name}.part")
            half.mkdir(mode=0o700)
            index = scratch / "index"
            out = {"GIT_INDEX_FILE": str(index), "GIT_WORK_TREE": str(half)}
            self._run("read-tree", "-u", "--reset", tree, cwd=half, env={**theirs, **out})
            self._run(
                "worktree",
                "add",
                "--quiet",
                "--force",
                "--detach",
                "--no-checkout",
                str(scratch / "new"),
                commit,
                env=theirs,
            )
            made = _git_dir(scratch / "new")
            shutil.copy2(index, made / "index")
            (made / "gitdir").write_bytes(os.fsencode(place / ".git") + b"\n")
            admin = self._admin(made, place.name)
            shutil.rmtree(made)
            (half / ".git").write_bytes(b"gitdir: " + os.fsencode(admin) + b"\n")
            half.rename(place)

    def checked_out(self) -> str:
        """The tree of the commit that is checked out here."""
        return self._theirs("rev-parse", "HEAD^{tree}").decode().strip()

    def _head(self) -> list[str]:
        """The commit that is checked out in the user's tree; none in a new repository."""
        return (
            self._theirs("rev-parse", "--quiet", "--verify", "HEAD^{commit}", may_fail=True).decode().split()
        )

    def _theirs(self, *args: str, may_fail: bool = False) -> bytes:
        """Ask the user's repository for a commit. It runs nothing, whatever its configuration says."""
        off = [
            word for name in ("core.hooksPath", "core.attributesFile") for word in ("-c", f"{name}=/dev/null")
        ]
        there = {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self.top)}
        return _git(
            self._path, (*off, "-c", "core.fsmonitor=false", *args), self.top, there, may_fail=may_fail
        )

    def _admin(self, made: Path, name: str) -> Path:
        """Move what git keeps about a worktree to the user's repository."""
        folder = self.common / "worktrees"
        folder.mkdir(exist_ok=True)
        for n in range(1000):
            place = folder / (f"{name}{n}" if n else name)
            with suppress(FileExistsError):
                shutil.copytree(made, place)
                return place
        raise Misuse(f"{folder} has too many worktrees named {name}")

    def _tidy_worktrees(self, place: Path) -> None:
        """Remove what is left of a checkout at ``place`` that was interrupted."""
        shutil.rmtree(place.with_name(f".{place.name}.part"), ignore_errors=True)
        if place.exists():
            return
        for each in (self.common / "worktrees").glob("*/gitdir"):
            if _read(each).rstrip(b"\n") == os.fsencode(place / ".git"):
                shutil.rmtree(each.parent, ignore_errors=True)

    def _taken(
        self, scratch: Path, known: Mapping[str, str | None], env: Mapping[str, str] = NOTHING
    ) -> Seen:
        """Take the working tree into the index of this look."""
        index = scratch / "index"
        run = {"GIT_INDEX_FILE": str(index), **env}
        ignoring = ("-c", f"core.excludesFile={scratch / 'ignores'}")
        if index.exists():
            self._forget(index, known, ignoring, run)
        hidden, unread = self._add(ignoring, run)
        entries = self._entries(index, env)
        links = {name for name, commit in entries.items() if commit is not None}
        for name, commit in known.items():
            if commit is not None and name not in entries and _is_empty(self.top / name):
                # a submodule that was never fetched
                link = f"{LINK},{commit},{name}"
                self._said("update-index", "--add", "--cacheinfo", link, env=run)
        missing = {name for name, commit in known.items() if commit is None}
        if not env:
            missing |= self._lists(ignoring, run)
        missing = {each for each in missing - set(entries) if self._is_here(each, {*links, *hidden})}
        if missing:
            argv = ("add", "--force", "--ignore-errors", "--pathspec-from-file=-", "--pathspec-file-nul")
            given = b"\0".join(map(os.fsencode, missing))
            self._said(*argv, stdin=given, env={**run, "GIT_LITERAL_PATHSPECS": "1"})
            unread |= missing - set(self._entries(index, env))
        tree = self._run("write-tree", env=run).decode().strip()
        inside = {name for name in links if os.path.lexists(self.top / name / ".git")}
        return Seen(tree, tuple(sorted({f"{name}/" for name in inside | hidden} | unread)))

    def _lists(self, ignoring: tuple[str, ...], run: Mapping[str, str]) -> set[str]:
        """Untracked ``.gitignore`` files, also those that ignore themselves: they hide other files, so they
        must be seen."""
        wanted = ("-x", "!.gitignore", "--", ".gitignore", "**/.gitignore")
        others = (*ignoring, "ls-files", "-z", "--others", "--exclude-standard")
        return _names(self._run(*others, *wanted, env=run))

    def _own_pattern(self) -> bytes:
        """What we keep ourselves is no part of the tree, even if it is inside."""
        home = Path(os.path.realpath(self.ours.parent))
        if self.top not in home.parents:
            return b""
        return b"\n/" + re.sub(rb"([\\*?\[\] ])", rb"\\\1", os.fsencode(home.relative_to(self.top))) + b"/\n"

    def _forget(
        self,
        index: Path,
        known: Mapping[str, str | None],
        ignoring: tuple[str, ...],
        run: Mapping[str, str],
    ) -> None:
        """Take out of the index files that are ignored and not known; and repositories inside, because ``git
        add`` would run ``git status`` in those that the index has."""
        links = {name for name, commit in self._entries(index).items() if commit is not None}
        said = self._run(*ignoring, "ls-files", "-z", "--cached", "--ignored", "--exclude-standard", env=run)
        gone = links | {name for name in _names(said) if name not in known}
        if gone:
            given = b"\0".join(map(os.fsencode, gone)) + b"\0"
            self._run("update-index", "--force-remove", "-z", "--stdin", stdin=given, env=run)

    def _add(self, ignoring: tuple[str, ...], run: Mapping[str, str]) -> tuple[set[str], set[str]]:
        """Add all files. Returns the repositories inside that git does not take, and what cannot be read."""
        hidden: set[str] = set()
        argv = (*ignoring, "add", "--all", "--ignore-errors", "--")
        code, said = self._said(*argv, ".", env=run)
        if code == 0 and not said.strip():
            return hidden, set()
        others = (*ignoring, "ls-files", "-z", "--others", "--exclude-standard")
        inside = [name.rstrip("/") for name in _names(self._run(*others, env=run)) if name.endswith("/")]
        if inside:  # one without a commit makes git give up
            but = b"\0".join(map(os.fsencode, (".", *(f":(exclude,literal){name}" for name in inside))))
            from_stdin = ("--pathspec-from-file=-", "--pathspec-file-nul")
            code, said = self._said(*argv[:-1], *from_stdin, stdin=but, env=run)
            for n, name in enumerate(inside):
                if n >= MOST_INSIDE or self._said(*argv, f":(literal){name}", env=run)[0] != 0:
                    hidden.add(name)
        if code >= FATAL:
            raise GitFailed(_last(said) or "git add failed")
        left = _names(self._run(*others, env=run))
        left |= _names(self._run("ls-files", "-z", "--modified", env=run))
        unread = {name for name in left if not name.endswith("/") and os.path.lexists(self.top / name)}
        return hidden, unread | {f"{name}/" for name in _UNOPENED.findall(said)}

    def _is_here(self, name: str, inside: Iterable[str]) -> bool:
        """Whether a file of that name can be added: it is there, behind no link, in no repository."""
        path = self.top / name
        try:
            mode = path.lstat().st_mode
        except OSError:
            return False
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)) or any(
            name.startswith(f"{each}/") for each in inside
        ):
            return False
        return os.path.realpath(path.parent) == os.path.normpath(path.parent)

    def _entries(self, index: Path, env: Mapping[str, str] = NOTHING) -> dict[str, str | None]:
        return _named(self._run("ls-files", "-z", "--stage", env={"GIT_INDEX_FILE": str(index), **env}))

    def _run(
        self,
        *args: str,
        env: Mapping[str, str] = NOTHING,
        cwd: Path | None = None,
        stdin: bytes | None = None,
        may_fail: bool = False,
        output: int | None = None,
    ) -> bytes:
        given = {**self._there, **env}
        return _git(self._path, args, cwd or self.top, given, stdin=stdin, may_fail=may_fail, output=output)

    def _said(
        self, *args: str, env: Mapping[str, str] = NOTHING, stdin: bytes | None = None
    ) -> tuple[int, str]:
        """The exit code, and what git says about files that it passes over."""
        done = _call(self._path, args, self.top, {**self._there, **env}, stdin=stdin)
        return done.returncode, done.stderr.decode(errors="surrogateescape")

    @property
    def _there(self) -> dict[str, str]:
        return {"GIT_DIR": str(self.ours), "GIT_WORK_TREE": str(self.top)}

    @property
    def _theirs_objects(self) -> dict[str, str]:
        """New objects are written to the user's repository."""
        return {"GIT_OBJECT_DIRECTORY": str(self.common / "objects")}

    @property
    def _object_format(self) -> str:
        return self._setting("extensions.objectformat", ("sha1", "sha256"))

    def _setting(self, name: str, values: tuple[str, ...]) -> str:
        """A setting that says how the user's repository is stored. The first value is git's own."""
        if name.partition(".")[2].encode() not in self._config.lower():
            return values[0]
        argv = ("config", "--file", "-", "--no-includes", "--get", name)
        said = (
            _git(self._path, argv, Path("/"), {}, stdin=self._config, may_fail=True).decode().strip().lower()
        )
        return said if said in values else values[0]

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Our git directory is there, and is not removed meanwhile."""
        lock = self._lock()
        try:
            os.utime(lock)
            yield
        finally:
            os.close(lock)

    def _lock(self) -> int:
        """Make our git directory, if it is not there, and lock it against removal."""
        for _ in range(100):
            self.prepare()
            with suppress(FileNotFoundError):
                lock = os.open(self.ours / "lock", os.O_RDWR | os.O_CLOEXEC)
                fcntl.flock(lock, fcntl.LOCK_SH)
                if (self.ours / "lock").exists():
                    return lock
                os.close(lock)  # it was removed meanwhile
        raise Misuse(f"{self.ours} is removed again and again")

    def prepare(self) -> None:
        """Make our git directory, if it is not there. It appears as a whole: if several processes make it,
        the first one stays."""
        if (self.ours / "lock").exists():
            return
        try:
            with whole_tree(self.ours, durable=False) as half:
                self._fill(half)
        except OSError:
            if not (self.ours / "lock").exists():
                raise

    def _fill(self, half: Path) -> None:
        form, refs = self._object_format, self._setting("extensions.refstorage", ("files", "reftable"))
        forms = [f"--object-format={form}"] if form != "sha1" else []
        forms += [f"--ref-format={refs}"] if refs != "files" else []
        there = {"GIT_DIR": str(half), "GIT_WORK_TREE": str(self.top)}
        _git(self._path, ("init", "--quiet", "--template=", *forms), self.top, there)
        with (half / "config").open("a") as config:
            for name, value in CONFIG.items():
                section, _, key = name.partition(".")
                config.write(f"[{section}]\n\t{key} = {value}\n")
        for folder in (half / "info", half / "objects" / "info"):
            folder.mkdir(parents=True, exist_ok=True)
        (half / "info" / "attributes").write_bytes(ATTRIBUTES)
        (half / "objects" / "info" / "alternates").write_bytes(_as_alternate(self.common / "objects"))
        (half / "tree").write_bytes(os.fsencode(self.top))
        (half / "lock").touch(mode=0o600)

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        """A directory for the files of one call, in our git directory."""
        with self._held():
            for each in self.ours.glob("call-*"):
                with suppress(OSError):
                    if clock.now_s() - each.stat().st_mtime > LEFT_S:
                        shutil.rmtree(each, ignore_errors=True)
            with tempfile.TemporaryDirectory(
                prefix="call-", dir=self.ours, ignore_cleanup_errors=True
            ) as place:
                yield Path(place)


def working_tree(directory: Path) -> Path | None:
    """The root of the git working tree that contains the directory."""
    real = Path(os.path.realpath(directory))
    for each in (real, *real.parents):
        if os.path.lexists(each / ".git"):
            place = _git_dir(each)
            if (place / "HEAD").exists() and (_common_dir(place) / "objects").is_dir():
                return each
    return None


def version(env: Mapping[str, str]) -> str | None:
    """The version of git; None: it is not installed."""
    path = _search_path(env, None)
    if which("git", path) is None:
        return None
    said = _git(path, ("--version",), Path("/"), {}).decode(errors="replace")
    return said.removeprefix("git version ").strip()


def tidy(home: Path, used: Iterable[Path], days: float) -> list[Path]:
    """Remove git directories whose tree is gone, or that were not used for so many days.

    ``used``: directories where work is under way; their trees keep theirs. Returns what was removed.
    """
    real = [Path(os.path.realpath(each)) for each in used]
    removed = []
    for each in sorted(home.iterdir()) if home.is_dir() else ():
        top = Path(os.fsdecode(_read(each / "tree")))
        idle_s = clock.now_s() - _used_s(each)
        if each.name.startswith("."):
            goes = idle_s > LEFT_S  # what is left of one that was never completed
        else:
            kept = any(one == top or top in one.parents for one in real)
            goes = not kept and (idle_s >= days * 24 * 3600 or not (top / ".git").exists())
        if goes and _remove(each):
            removed.append(each)
    return removed


@contextmanager
def _locked(path: Path, *, wait: bool = True) -> Iterator[None]:
    """Hold a lock on a file. Raises ``BlockingIOError`` if it is taken and ``wait`` is false."""
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(file)


def _remove(place: Path) -> bool:
    """Remove one of our git directories, unless a look uses it."""
    try:
        if place.name.startswith("."):
            shutil.rmtree(place)
            return True
        with _locked(place / "lock", wait=False):
            gone = place.with_name(f".{place.name}.{os.getpid()}.gone")
            place.rename(gone)
            shutil.rmtree(gone)
    except OSError:
        return False
    return True


def _used_s(place: Path) -> float:
    for each in (place / "lock", place):
        with suppress(OSError):
            return each.stat().st_mtime
    return clock.now_s()


def _git_dir(top: Path) -> Path:
    """The git directory of a working tree."""
    place = top / ".git"
    if place.is_dir():
        return Path(os.path.realpath(place))
    _, _, path = _read(place).partition(b"gitdir:")
    return Path(os.path.realpath(top / os.fsdecode(path.strip())))


def _common_dir(place: Path) -> Path:
    """What the git directory of a linked worktree shares with the others."""
    named = os.fsdecode(_read(place / "commondir").strip())
    return Path(os.path.realpath(place / named)) if named else place


def _read(path: Path | None, most: int = MOST_LIST, *, follow: bool = False) -> bytes:
    """A regular file, as far as it is read; empty if there is none. A longer list ends with a whole line."""
    if path is None:
        return b""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    except OSError:
        return b""
    with os.fdopen(file, "rb") as opened:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return b""
        data = opened.read(most + 1)
    return data if len(data) <= most else data[: data.rfind(b"\n", 0, most) + 1]


def _users_list(env: Mapping[str, str], path: str) -> Path | None:
    """The user's own list of files that git ignores."""
    names = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
    mine = {name: env[name] for name in names if env.get(name)}
    for scope in ("--global", "--system"):
        argv = ("config", scope, "--includes", "--type=path", "core.excludesFile")
        done = _call(path, argv, Path("/"), mine, users=True)
        if done.returncode == 0 and done.stdout.strip():
            return Path("/", os.fsdecode(done.stdout.rstrip(b"\n")))
    if mine.get("XDG_CONFIG_HOME"):
        return Path(mine["XDG_CONFIG_HOME"]) / "git" / "ignore"
    return Path(mine["HOME"]) / ".config" / "git" / "ignore" if "HOME" in mine else None


def _as_alternate(objects: Path) -> bytes:
    """A line of ``alternates``. A name that would not be read as it is stands in quotes."""
    raw = os.fsencode(objects)
    if raw.startswith((b'"', b"#")) or b"\n" in raw:
        quoted = raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
        raw = b'"' + quoted + b'"'
    return raw + b"\n"


def _search_path(env: Mapping[str, str], top: Path | None) -> str:
    """The caller's search path, without what is relative or inside the working tree: anybody may have put a
    program there."""
    kept = []
    for each in env.get("PATH", os.defpath).split(os.pathsep):
        real = Path(os.path.realpath(each))
        if os.path.isabs(each) and top not in (real, *real.parents):
            kept.append(each)
    return os.pathsep.join(kept)


def _named(said: bytes) -> dict[str, str | None]:
    """The names in the output of ``ls-files --stage`` or ``ls-tree``, with the commits of repositories."""
    found: dict[str, str | None] = {}
    for row in said.split(b"\0"):
        what, _, name = row.partition(b"\t")
        if name:
            mode, *words = what.decode().split()
            commit = next((word for word in words if len(word) >= 40), None)
            found[os.fsdecode(name)] = commit if mode == LINK else None
    return found


def _is_empty(place: Path) -> bool:
    """Whether it is an empty directory."""
    try:
        return not place.is_symlink() and not any(place.iterdir())
    except OSError:
        return False


def _names(said: bytes) -> set[str]:
    return {os.fsdecode(each) for each in said.split(b"\0") if each}


def _last(said: str) -> str:
    lines = said.strip().splitlines()
    return lines[-1].encode(errors="surrogateescape").decode(errors="replace") if lines else ""


def _git(
    path: str,
    args: tuple[str, ...],
    cwd: Path,
    env: Mapping[str, str],
    *,
    stdin: bytes | None = None,
    may_fail: bool = False,
    output: int | None = None,
) -> bytes:
    done = _call(path, args, cwd, env, stdin=stdin, output=output)
    if done.returncode > (FATAL - 1 if may_fail else 0) or done.returncode < 0:
        said = _last(done.stderr.decode(errors="surrogateescape"))
        raise GitFailed(said or f"git {_command(args)} failed with exit code {done.returncode}")
    return done.stdout or b""


def _call(
    path: str,
    args: tuple[str, ...],
    cwd: Path,
    env: Mapping[str, str],
    *,
    users: bool = False,
    stdin: bytes | None = None,
    output: int | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run git in an environment that is made from nothing. ``users``: it may read the user's own settings."""
    program = which("git", path)
    if program is None:
        raise Misuse("git is not installed")
    alone = {
        "HOME": "/nonexistent",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_ATTR_NOSYSTEM": "1",
    }
    made = {
        "PATH": path,
        "LC_ALL": "C.UTF-8",
        "GIT_ALLOW_PROTOCOL": "none",  # a repository may name a program that fetches what is missing
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        **({} if users else alone),
        **env,
    }
    try:
        return subprocess.run(
            [program, *args],
            cwd=cwd,
            env=made,
            stdin=subprocess.DEVNULL if stdin is None else None,
            input=stdin,
            stdout=subprocess.PIPE if output is None else output,
            stderr=subprocess.PIPE,
            timeout=PATIENCE_S,
            check=False,
        )
    except FileNotFoundError:
        raise Misuse(f"{cwd} does not exist") from None
    except subprocess.TimeoutExpired:
        raise Misuse(f"git {_command(args)} took longer than {PATIENCE_S:.0f} seconds in {cwd}") from None


def _command(args: tuple[str, ...]) -> str:
    """The command, after options such as ``-c``."""
    words = iter(args)
    for word in words:
        if word == "-c":
            next(words)
        elif not word.startswith("-"):
            return word
    return ""
