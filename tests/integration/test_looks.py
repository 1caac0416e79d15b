"""Looks at a repository run nothing of it, and change nothing in it."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from segue import Misuse
from segue.flows.review.diff import Base, Look, difference, first_look, look
from segue.system.git import WorkTree, tidy
from tests.integration import planted
from tests.integration.planted import content, plain_git, ran, tree_of


class Place:
    """A repository, and where our git directories are."""

    def __init__(self, top: Path, env: dict[str, str]) -> None:
        self.top, self.env = top, env
        self.home = top.parent / "home" / "git"

    @property
    def tree(self) -> WorkTree:
        return WorkTree(self.top, self.home, self.env)

    def first(self) -> Base:
        return first_look(self.top, self.home, self.env)

    def look(self, base: Base, since: str | None = None) -> Look:
        return look(base, since or base.tree, self.top, self.home, self.env)

    def git(self, *args: str) -> str:
        return plain_git(self.top, *args)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """A user with settings of their own: a list of ignored files, and attributes."""
    user = tmp_path / "user"
    (user / ".config" / "git").mkdir(parents=True)
    (user / ".config" / "git" / "attributes").write_text("* filter=x\n")
    (user / ".config" / "git" / "ignore").write_text("*.swp\n")
    return {"PATH": os.environ["PATH"], "HOME": str(user)}


@pytest.fixture
def plain(tmp_path: Path, env: dict[str, str]) -> Place:
    """One file, committed."""
    top = tmp_path / "plain"
    top.mkdir()
    plain_git(top, "init", "--quiet")
    (top / "kept.txt").write_text("one\n")
    plain_git(top, "add", "--all")
    plain_git(top, "commit", "--quiet", "-m", "one")
    return Place(top, env)


@pytest.fixture
def hostile(tmp_path: Path, env: dict[str, str]) -> Place:
    top = planted.make(tmp_path / "hostile" / "repo")
    planted.plant(top, tmp_path / "marks")
    (top / "x.swp").write_text("x")
    return Place(top, env)


@pytest.fixture
def marks(tmp_path: Path) -> Path:
    return tmp_path / "marks"


def test_what_is_planted_runs_if_git_is_called_plainly(hostile: Place, marks: Path) -> None:
    hostile.git("add", "--all")
    hostile.git("checkout", "--quiet", "--force", "HEAD")
    hostile.git("diff", "HEAD")
    found = set(ran(marks))
    assert {"clean", "smudge", "hook-post-checkout", "hook-post-index-change"} <= found, found
    assert {"fsmonitor", "included"} & found, found


@pytest.mark.parametrize("misled", [False, True], ids=["it-runs", "it-misleads"])
def test_a_look_runs_nothing_that_is_planted(
    hostile: Place, marks: Path, tmp_path: Path, misled: bool
) -> None:
    twin = planted.make(tmp_path / "twin" / "repo")
    (twin / ".gitattributes").unlink()
    wanted = tree_of(twin)
    attributes = (hostile.top / ".gitattributes").read_text()
    (hostile.top / ".gitattributes").unlink()
    if misled:
        planted.mislead(hostile.top)
    before = content(hostile.top / ".git")
    base = hostile.first()
    assert base.tree == wanted, "what git itself writes of the same files, where nothing is planted"
    (hostile.top / ".gitattributes").write_text(f"{attributes}new.txt -diff\n*.py binary\n")
    (hostile.top / "a.txt").write_text("one\nmore\nand more\n")
    (hostile.top / "new.txt").write_text("changed\n")
    (hostile.top / "below" / "deep.py").write_text("print(2)\n")
    seen = hostile.look(base)
    for words in ("+and more", "-new\n+changed", "-print(1)\n+print(2)"):
        assert words in seen.diff
    assert "Binary files" not in seen.diff, "attributes cannot hide what a file contains"
    assert seen.unseen == ("mod/",)
    again = difference(base, base.tree, seen.tree, hostile.top, hostile.home, hostile.env)
    assert again == seen.diff
    assert ran(marks) == []
    assert content(hostile.top / ".git") == before, "byte for byte"


@pytest.mark.parametrize("misled", [False, True], ids=["it-runs", "it-misleads"])
def test_a_worktree_is_made_without_running_anything(
    hostile: Place, marks: Path, tmp_path: Path, misled: bool
) -> None:
    if misled:
        planted.mislead(hostile.top)
    config = (hostile.top / ".git" / "config").read_bytes()
    refs = content(hostile.top / ".git" / "refs")
    place = tmp_path / "compare" / "full"
    tree = hostile.tree.write_whole()
    hostile.tree.add_worktree(tree, place)
    assert ran(marks) == []
    assert (place / "a.txt").read_text() == "one\nmore\n"
    assert (place / "new.txt").read_text() == "new\n", "what is not committed is there, too"
    assert os.access(place / "run.sh", os.X_OK)
    assert (place / "link").is_symlink()
    assert not (place / "ignored").exists()
    assert first_look(place, hostile.home, hostile.env).tree == tree
    assert ran(marks) == []
    assert (hostile.top / ".git" / "config").read_bytes() == config
    assert content(hostile.top / ".git" / "refs") == refs
    hostile.tree.add_worktree(tree, place)  # it is there already
    assert ran(marks) == []
    assert not list(place.parent.glob(".*.part"))


def test_the_worktree_is_one_for_git_itself(plain: Place, tmp_path: Path) -> None:
    (plain.top / "new.txt").write_text("new\n")
    place = tmp_path / "compare" / "full"
    plain.tree.add_worktree(plain.tree.write_whole(), place)
    assert f"worktree {place}\n" in plain.git("worktree", "list", "--porcelain")
    assert plain_git(place, "status", "--porcelain") == ""
    assert plain_git(place, "log", "--format=%s") == "The tree before a review\none"
    plain.git("fsck", "--strict")
    plain.git("worktree", "remove", "--force", str(place))
    assert not place.exists()
    assert len(plain.git("worktree", "list").splitlines()) == 1


def test_a_worktree_of_a_repository_without_a_commit(tmp_path: Path, env: dict[str, str]) -> None:
    top = tmp_path / "empty"
    top.mkdir()
    plain_git(top, "init", "--quiet")
    (top / "new.txt").write_text("new\n")
    at, place = Place(top, env), tmp_path / "compare" / "full"
    at.tree.add_worktree(at.tree.write_whole(), place)
    assert (place / "new.txt").read_text() == "new\n"
    assert plain_git(place, "log", "--format=%s") == "The tree before a review"


def test_a_worktree_is_made_from_a_linked_worktree_too(plain: Place, tmp_path: Path) -> None:
    second = tmp_path / "second"
    plain.git("worktree", "add", "--quiet", str(second))
    (second / "new.txt").write_text("new\n")
    at, place = Place(second, plain.env), tmp_path / "compare" / "full"
    at.tree.add_worktree(at.tree.write_whole(), place)
    assert plain_git(place, "status", "--porcelain") == ""
    assert (place / "new.txt").exists()
    assert len(plain.git("worktree", "list").splitlines()) == 3


def test_a_checkout_that_was_interrupted_is_begun_anew(plain: Place, tmp_path: Path) -> None:
    place = tmp_path / "compare" / "full"
    tree = plain.tree.write_whole()
    half = place.with_name(".full.part")
    half.mkdir(parents=True)
    (half / "kept.txt").write_text("half")
    left = plain.top / ".git" / "worktrees" / "full"
    left.mkdir(parents=True)
    (left / "gitdir").write_text(f"{place}/.git\n")
    plain.tree.add_worktree(tree, place)
    assert (place / "kept.txt").read_text() == "one\n"
    assert [each.name for each in (plain.top / ".git" / "worktrees").iterdir()] == ["full"]
    assert not half.exists()


def test_a_repository_with_sha256(tmp_path: Path, env: dict[str, str]) -> None:
    top = tmp_path / "odd"
    top.mkdir()
    plain_git(top, "init", "--quiet", "--object-format=sha256")
    (top / "a").write_text("a\n")
    at = Place(top, env)
    base = at.first()
    assert base.tree == tree_of(top)
    assert len(base.tree) == 64
    (top / "a").write_text("b\n")
    assert "+b" in at.look(base).diff
    place = tmp_path / "compare" / "full"
    at.tree.add_worktree(at.tree.write_whole(), place)
    assert plain_git(place, "status", "--porcelain") == ""


def test_a_linked_worktree_is_looked_at_like_any_other(plain: Place, tmp_path: Path) -> None:
    second = tmp_path / "second"
    plain.git("worktree", "add", "--quiet", str(second))
    at = Place(second, plain.env)
    base = at.first()
    assert base.tree == plain.first().tree
    (second / "kept.txt").write_text("two\n")
    assert "+two" in at.look(base).diff
    assert plain.first().tree == base.tree


def test_files_that_a_filter_stores_elsewhere_show_only_what_has_changed(plain: Place) -> None:
    """As Git LFS does it: the repository has a pointer where the tree has the file."""
    plain.git("config", "filter.store.clean", "sed -n 1p | sed s/^/pointer-to-/")
    plain.git("config", "filter.store.smudge", "cat")
    (plain.top / ".gitattributes").write_text("*.big filter=store\n")
    (plain.top / "large.big").write_text("first\n" + "large\n" * 50)
    (plain.top / "other.big").write_text("other\n" + "large\n" * 50)
    plain.git("add", "--all")
    plain.git("commit", "--quiet", "-m", "stored elsewhere")
    assert plain.git("show", "HEAD:large.big") == "pointer-to-first"
    base = plain.first()
    assert plain.look(base) == Look(base.tree)
    with (plain.top / "large.big").open("a") as file:
        file.write("one more line\n")
    seen = plain.look(base)
    assert "+one more line" in seen.diff
    assert seen.diff.count("\n-") + seen.diff.count("\n+") == 3, "the names, and the new line"
    assert "other.big" not in seen.diff


@pytest.mark.parametrize("old", [False, True], ids=["just-written", "old"])
def test_a_change_of_the_same_size_and_time_is_seen(plain: Place, old: bool) -> None:
    """Of a file that was written some time ago git compares when its entry changed, by the second."""
    file = plain.top / "kept.txt"
    if old:
        written_before(plain.top)
    base = plain.first()
    plain.look(base)
    for n in range(3 if old else 20):
        if old:
            time.sleep(1.1)
        before = file.stat()
        file.write_text(f"{n:03}\n")
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        seen = plain.look(base)
        assert f"+{n:03}" in seen.diff


def test_an_entry_that_is_added_later_to_a_list_of_ignored_files_hides_nothing(plain: Place) -> None:
    (plain.top / "a.swp").write_text("x")
    base = plain.first()
    (plain.top / ".git" / "info").mkdir(exist_ok=True)
    (plain.top / ".git" / "info" / "exclude").write_text("hidden.py\n")
    users = Path(plain.env["HOME"]) / ".config" / "git" / "ignore"
    users.write_text("*.swp\nhidden-too.py\n")
    for name in ("hidden.py", "hidden-too.py", "b.swp"):
        (plain.top / name).write_text("import os\n")
    seen = plain.look(base)
    assert "b/hidden.py" in seen.diff
    assert "b/hidden-too.py" in seen.diff
    assert ".swp" not in seen.diff, "the user's own list counts"
    other = plain.first()
    assert plain.look(other).diff == "", "a later flow has the lists as they are then"
    assert "hidden" in plain.look(base).diff, "and the first flow still has its own"
    (plain.top / "hidden.py").write_text("import sys\n")
    assert plain.look(other).diff == ""


def test_a_file_that_is_committed_although_it_is_ignored_is_seen(plain: Place) -> None:
    (plain.top / ".gitignore").write_text("*.gen\n")
    (plain.top / "kept.gen").write_text("one\n")
    (plain.top / "other.gen").write_text("one\n")
    plain.git("add", "--force", "kept.gen", ".gitignore")
    plain.git("commit", "--quiet", "-m", "generated")
    base = plain.first()
    (plain.top / "kept.gen").write_text("two\n")
    (plain.top / "other.gen").write_text("two\n")
    seen = plain.look(base)
    assert "+two" in seen.diff
    assert "other.gen" not in seen.diff
    (plain.top / ".gitignore").write_text("*.gen\nkept.txt\n")
    (plain.top / "kept.txt").write_text("ignored now\n")
    assert "+ignored now" in plain.look(base, seen.tree).diff
    shutil.rmtree(plain.home)
    assert "+two" in plain.look(Base(plain.git("rev-parse", "HEAD^{tree}"))).diff


def test_a_list_of_ignored_files_that_ignores_itself_is_seen(plain: Place) -> None:
    (plain.top / ".gitignore").write_text("cache/\n")
    (plain.top / "below").mkdir()
    base = plain.first()
    for name in ("below", "cache", "new/deep"):
        (plain.top / name).mkdir(exist_ok=True, parents=True)
        (plain.top / name / ".gitignore").write_text("*\n")
        (plain.top / name / "code.py").write_text("1\n")
    seen = plain.look(base)
    assert "b/below/.gitignore" in seen.diff
    assert "b/new/deep/.gitignore" in seen.diff
    assert "cache" not in seen.diff
    assert plain.look(base) == seen
    assert plain.look(plain.first()).diff == "", "a later flow finds it there"


def test_a_submodule_that_is_replaced_by_files_is_seen(hostile: Place, marks: Path) -> None:
    (hostile.top / ".gitattributes").unlink()
    base = hostile.first()
    shutil.rmtree(hostile.top / "mod")
    (hostile.top / "mod").mkdir()
    (hostile.top / "mod" / "new.txt").write_text("new\n")
    seen = hostile.look(base)
    assert "-Subproject commit" in seen.diff
    assert "b/mod/new.txt" in seen.diff
    (hostile.top / "mod" / "new.txt").unlink()
    assert hostile.look(base).diff == "", "one that is not fetched"
    (hostile.top / "mod").rmdir()
    assert "-Subproject commit" in hostile.look(base).diff
    assert ran(marks) == []


def test_flags_in_the_users_index_hide_nothing(plain: Place) -> None:
    base = plain.first()
    plain.git("update-index", "--assume-unchanged", "kept.txt")
    (plain.top / "kept.txt").write_text("changed\n")
    assert "+changed" in plain.look(base).diff
    shutil.rmtree(plain.home)
    assert plain.first().tree == tree_of_files(plain.top)


def tree_of_files(top: Path) -> str:
    """The tree of the files, in a copy without an index."""
    copy = top.parent / "copy"
    shutil.copytree(top, copy, symlinks=True)
    (copy / ".git" / "index").unlink()
    return tree_of(copy)


def test_repositories_inside_are_named(plain: Place) -> None:
    base = plain.first()
    for name in ("with", "without"):
        plain_git(plain.top, "init", "--quiet", name)
        (plain.top / name / "code.py").write_text("1\n")
    plain_git(plain.top / "with", "add", "--all")
    plain_git(plain.top / "with", "commit", "--quiet", "-m", "x")
    (plain.top / "seen.py").write_text("1\n")
    seen = plain.look(base)
    assert seen.unseen == ("with/", "without/")
    assert "b/seen.py" in seen.diff
    assert "Subproject commit" in seen.diff
    assert plain.look(base) == seen, "and again"


def test_a_repository_that_is_made_around_the_flows_directory_does_not_change_the_tree(plain: Place) -> None:
    below = plain.top / "below"
    below.mkdir()
    (below / "x.txt").write_text("x\n")
    base = first_look(below, plain.home, plain.env)
    plain_git(below, "init", "--quiet")
    (plain.top / "kept.txt").write_text("changed\n")
    (below / "new.txt").write_text("new\n")
    seen = look(base, base.tree, below, plain.home, plain.env)
    assert "+changed" in seen.diff
    assert "b/below/new.txt" in seen.diff, "files that were there are no repository's"


def test_unreadable_files_and_directories_are_named(plain: Place, tmp_path: Path) -> None:
    """Looked at by a process that may not read everything, whoever runs the tests."""
    base = plain.first()
    for name in ("secret.txt", "closed/inside.txt", "seen.txt"):
        (plain.top / name).parent.mkdir(exist_ok=True)
        (plain.top / name).write_text("text\n")
    (plain.top / "secret.txt").chmod(0)
    (plain.top / "closed").chmod(0)
    try:
        seen = as_somebody_else(plain, base, tmp_path)
    finally:
        (plain.top / "closed").chmod(0o755)
    assert seen.unseen == ("closed/", "secret.txt")
    assert "b/seen.txt" in seen.diff


def as_somebody_else(at: Place, base: Base, tmp_path: Path) -> Look:
    if os.geteuid() != 0:
        return at.look(base)
    found: multiprocessing.Queue[Look] = multiprocessing.get_context("fork").Queue()
    everything = [at.top.parent, *at.top.parent.rglob("*")]
    for each in everything:
        os.chown(each, 65534, 65534, follow_symlinks=False)
    above = [each for each in tmp_path.parents if each.stat().st_mode & 0o001 == 0]
    modes = {each: each.stat().st_mode for each in above}
    for each in above:
        each.chmod(modes[each] | 0o011)

    def work() -> None:
        os.setgid(65534)
        os.setuid(65534)
        found.put(at.look(base))

    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    try:
        return found.get(timeout=60)
    finally:
        child.join()
        for each in above:
            each.chmod(modes[each])


def written_before(top: Path) -> None:
    """The files were written some time ago: git does not read again what it has seen."""
    for each in top.rglob("*.txt"):
        os.utime(each, (1e9, 1e9))


def test_content_that_is_gone_from_the_repository_is_named(plain: Place) -> None:
    (plain.top / "staged.txt").write_text("staged\n")
    plain.git("add", "staged.txt")
    base = plain.first()
    plain.git("rm", "--quiet", "--cached", "staged.txt")
    plain.git("gc", "--quiet", "--prune=now")
    (plain.top / "staged.txt").write_text("other\n")
    (plain.top / "kept.txt").write_text("two\n")
    seen = plain.look(base)
    assert "-one\n+two" in seen.diff
    assert "1 file changed, too, whose earlier content is gone from the repository" in seen.diff
    assert '"staged.txt". Read them.' in seen.diff
    assert not seen.anew
    (plain.top / "staged.txt").write_text("third\n")
    assert "-other\n+third" in plain.look(base, seen.tree).diff, "the next look has what it needs"


def test_after_content_was_gone_the_next_look_has_that_of_all_files(plain: Place) -> None:
    (plain.top / "below").mkdir()
    names = ("a.txt", "below/b.txt")
    for name in names:
        (plain.top / name).write_text(f"staged {name}\n")
    written_before(plain.top)
    plain.git("add", *names)
    base = plain.first()
    plain.git("rm", "--quiet", "--cached", *names)
    plain.git("gc", "--quiet", "--prune=now")
    (plain.top / "a.txt").write_text("other\n")
    seen = plain.look(base)
    assert "1 file changed, too" in seen.diff
    (plain.top / "below" / "b.txt").write_text("other\n")
    assert "-staged below/b.txt\n+other" in plain.look(base, seen.tree).diff


def test_line_ends_and_keywords_are_shown_as_they_are_on_disk(plain: Place) -> None:
    (plain.top / ".gitattributes").write_text("*.txt text eol=lf\n*.c ident\n")
    (plain.top / "lines.txt").write_bytes(b"one\ntwo\n")
    (plain.top / "word.c").write_text("$Id$\n")
    base = plain.first()
    (plain.top / "lines.txt").write_bytes(b"one\r\ntwo\n")
    (plain.top / "word.c").write_text("$Id: something else $\n")
    told = plain.look(base).diff
    assert "-one\n+one\r\n" in told
    assert "+$Id: something else $" in told


def test_a_tree_that_is_gone_from_the_repository_is_a_new_base(plain: Place) -> None:
    base = plain.first()
    (plain.top / "kept.txt").write_text("two\n")
    shutil.rmtree(plain.home)
    plain.git("commit", "--quiet", "--all", "--amend", "-m", "other")
    plain.git("reflog", "expire", "--expire=now", "--all")
    plain.git("gc", "--quiet", "--prune=now")
    seen = plain.look(base)
    assert (seen.diff, seen.anew) == ("", True)
    (plain.top / "kept.txt").write_text("three\n")
    assert "-two\n+three" in plain.look(base, seen.tree).diff


def test_unchanged_files_whose_content_is_gone_are_read_again(plain: Place) -> None:
    """The index of the looks still names it, so it must not be believed."""
    (plain.top / "staged.txt").write_text("staged\n")
    written_before(plain.top)
    plain.git("add", "staged.txt")
    base = plain.first()
    plain.git("rm", "--quiet", "--cached", "staged.txt")
    plain.git("gc", "--quiet", "--prune=now")
    (plain.top / "kept.txt").write_text("two\n")
    seen = plain.look(base)
    assert "+two" in seen.diff
    (plain.top / "staged.txt").write_text("other\n")
    assert "-staged\n+other" in plain.look(base, seen.tree).diff


def test_a_program_in_the_tree_is_not_taken_for_git(plain: Place, marks: Path) -> None:
    marks.mkdir()
    folder = plain.top / "bin"
    folder.mkdir()
    (folder / "git").write_text(f"#!/bin/sh\ntouch {marks}/git\n")
    (folder / "git").chmod(0o755)
    plain.env["PATH"] = os.pathsep.join((str(folder), "bin", plain.env["PATH"]))
    plain.look(plain.first())
    assert ran(marks) == []


def test_special_files_in_the_place_of_lists_are_not_read(plain: Place) -> None:
    (plain.top / ".git" / "info").mkdir(exist_ok=True)
    (plain.top / ".git" / "info" / "exclude").unlink(missing_ok=True)
    os.mkfifo(plain.top / ".git" / "info" / "exclude")
    (plain.top / ".git" / "commondir").symlink_to("/dev/zero")
    assert plain.first().ignores == "*.swp\n"


def test_a_tree_that_is_no_repository_any_more_is_refused(plain: Place) -> None:
    base = plain.first()
    shutil.rmtree(plain.top / ".git")
    with pytest.raises(Misuse, match="not in a git working tree"):
        plain.look(base)


def test_our_own_directory_inside_the_tree_is_no_part_of_it(plain: Place) -> None:
    plain.home = plain.top / "our [home]" / "git"
    base = plain.first()
    assert plain.look(base) == Look(base.tree)
    assert base.tree == plain.git("rev-parse", "HEAD^{tree}")


def test_several_looks_at_once_make_one_git_directory(plain: Place) -> None:
    def at_once(n: int) -> str:
        code = (
            "import sys, os; from pathlib import Path; from segue.flows.review.diff import first_look;"
            "sys.stdin.read(); print(first_look(Path(sys.argv[1]), Path(sys.argv[2]), dict(os.environ)).tree)"
        )
        argv = [sys.executable, "-c", code, str(plain.top), str(plain.home)]
        done = subprocess.run(argv, env=plain.env, input="", capture_output=True, text=True, check=True)
        return done.stdout.strip()

    with ThreadPoolExecutor(6) as pool:
        found = set(pool.map(at_once, range(6)))
    assert found == {plain.git("rev-parse", "HEAD^{tree}")}
    assert len(list(plain.home.iterdir())) == 1, "nothing half made is left"


def test_two_flows_in_one_tree_do_not_disturb_each_other(plain: Place) -> None:
    one, other = plain.first(), plain.first()

    def looks(base: Base) -> set[str]:
        return {plain.look(base).diff for _ in range(10)}

    (plain.top / "kept.txt").write_text("two\n")
    with ThreadPoolExecutor(2) as pool:
        (first,), (second,) = pool.map(looks, (one, other))
    assert first == second
    assert "+two" in first


WORK = """
import os, sys
from pathlib import Path
from segue.flows.review.diff import first_look
from segue.system.git import WorkTree
top, home, place = map(Path, sys.argv[1:])
if not place.name:
    first_look(top, home, dict(os.environ))
else:
    tree = WorkTree(top, home, dict(os.environ))
    tree.add_worktree(tree.write_whole(), place)
"""


def killed_at(at: Place, command: str, moment: str, tmp_path: Path, place: Path = Path("/")) -> None:
    """Run it in a process that is killed before or after it calls this command of git."""
    folder = tmp_path / "bin"
    folder.mkdir(exist_ok=True)
    git = shutil.which("git")
    call = f'"{git}" "$@"'
    then = {"before": "kill -9 $PPID", "after": f"{call}; kill -9 $PPID"}[moment]
    (folder / "git").write_text(
        f'#!/bin/sh\ncase " $* " in *" {command} "*) {then};; *) exec {call};; esac\n'
    )
    (folder / "git").chmod(0o755)
    env = {**at.env, "PATH": f"{folder}{os.pathsep}{at.env['PATH']}"}
    argv = [sys.executable, "-c", WORK, str(at.top), str(at.home), str(place)]
    done = subprocess.run(argv, env=env, capture_output=True, check=False)
    assert done.returncode == -9, done.stderr


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("command", ["init", "add", "write-tree"])
def test_a_look_that_is_killed_leaves_nothing_in_the_way(
    plain: Place, command: str, moment: str, tmp_path: Path
) -> None:
    (plain.top / "new.txt").write_text("new\n")
    before = content(plain.top / ".git")
    killed_at(plain, command, moment, tmp_path)
    assert plain.tree.ours.exists() == (command != "init"), "it appears as a whole"
    assert plain.first().tree == tree_of_files(plain.top)
    assert content(plain.top / ".git") == before


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("command", ["add", "commit-tree", "read-tree", "worktree"])
def test_a_worktree_whose_making_is_killed_is_made_by_the_next(
    plain: Place, command: str, moment: str, tmp_path: Path
) -> None:
    (plain.top / "new.txt").write_text("new\n")
    place = tmp_path / "compare" / "full"
    killed_at(plain, command, moment, tmp_path, place)
    assert not place.exists(), "it appears as a whole"
    plain.tree.add_worktree(plain.tree.write_whole(), place)
    assert plain_git(place, "status", "--porcelain") == ""
    assert (place / "new.txt").read_text() == "new\n"
    assert len(plain.git("worktree", "list").splitlines()) == 2
    assert sorted(os.listdir(place.parent)) == [".lock", "full"]


def aged(place: Path, days: float) -> None:
    for each in (place / "lock", place):
        if each.exists():
            moment = time.time() - days * 86_400
            os.utime(each, (moment, moment))


def made(tmp_path: Path, env: dict[str, str], name: str, home: Path) -> Place:
    top = tmp_path / name
    top.mkdir()
    plain_git(top, "init", "--quiet")
    at = Place(top, env)
    at.home = home
    at.first()
    return at


def test_git_directories_are_removed_when_nobody_needs_them(tmp_path: Path, env: dict[str, str]) -> None:
    home = tmp_path / "home" / "git"
    names = ("fresh", "old", "at-work", "held", "gone")
    at = {name: made(tmp_path, env, name, home) for name in names}
    ours = {name: each.tree.ours for name, each in at.items()}
    for name in ("old", "at-work", "held"):
        aged(ours[name], 8)
    shutil.rmtree(at["gone"].top)
    half = home / ".half.1-0.part"
    half.mkdir()
    aged(half, 2)
    (home / ".young.1-0.part").mkdir()
    held = at["held"].tree
    with held._held():
        aged(ours["held"], 8)
        removed = tidy(home, [at["at-work"].top / "below"], 7)
    assert set(removed) == {ours["old"], ours["gone"], half}
    left = {ours["fresh"], ours["at-work"], ours["held"], home / ".young.1-0.part"}
    assert set(home.iterdir()) == left
    assert at["old"].first().tree, "it is made again when it is needed"


def test_what_a_killed_look_leaves_is_removed_later(plain: Place) -> None:
    plain.first()
    left = plain.tree.ours / "call-left"
    left.mkdir()
    (left / "index").touch()
    plain.first()
    assert left.exists(), "it may be at work"
    aged(left, 2)
    plain.first()
    assert not left.exists()


def test_what_is_recorded_of_a_first_look_is_plain_json(plain: Place) -> None:
    import msgspec

    users = Path(plain.env["HOME"]) / ".config" / "git" / "ignore"
    users.write_bytes("gr\xfc\xdfe\n".encode("latin-1") + "größe\n".encode())
    base = plain.first()
    again = msgspec.json.decode(msgspec.json.encode(base), type=Base)
    assert again == base
    for name in ("gr\xfc\xdfe".encode("latin-1"), "größe".encode()):
        Path(os.fsdecode(os.fsencode(plain.top) + b"/" + name)).write_text("x\n")
    assert plain.look(again) == Look(base.tree)
    assert json.loads(msgspec.json.encode(base))["top"] == str(plain.top)
