"""A git repository with everything planted that git can be made to run. Each leaves a mark when it runs."""

from __future__ import annotations

import os
import subprocess
from hashlib import sha256
from pathlib import Path

WHO = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "a"), ("EMAIL", "a@b.c"), ("DATE", "2026-01-01T00:00:00Z"))
}
RUN = {
    "filter.x.clean": "clean",
    "filter.x.smudge": "smudge",
    "filter.p.process": "process",
    "diff.x.textconv": "textconv",
    "diff.x.command": "diff-command",
    "diff.external": "external",
    "core.fsmonitor": "fsmonitor",
    "core.pager": "pager",
    "core.editor": "editor",
    "core.sshCommand": "ssh",
    "core.gitProxy": "proxy",
    "core.alternateRefsCommand": "alternate-refs",
    "merge.x.driver": "merge",
    "uploadpack.packObjectsHook": "pack-objects",
    "remote.origin.uploadpack": "uploadpack",
    "credential.helper": "credential",
    "gpg.program": "gpg",
    "hook.planted.command": "configured-hook",
}
SET = {
    "filter.x.required": "true",
    "hook.planted.event": "post-index-change",
    "gc.auto": "1",
    "core.autocrlf": "input",
    "core.untrackedCache": "true",
    "remote.origin.promisor": "true",
    "commit.gpgSign": "true",
    "status.submoduleSummary": "true",
    "diff.submodule": "diff",
    "submodule.recurse": "true",
}
HOOKS = (
    *("post-index-change", "post-checkout", "reference-transaction", "pre-commit", "post-commit"),
    *("fsmonitor-watchman", "query-watchman", "pre-auto-gc", "post-rewrite", "post-merge"),
)


def plain_git(cwd: Path, *args: str, **env: str) -> str:
    """git with the repository's own settings, and without any of the machine's."""
    given = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", **WHO, **env}
    done = subprocess.run(["git", *args], cwd=cwd, env=given, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def tree_of(top: Path) -> str:
    """The tree of all files, as git itself writes it."""
    index = str(top.parent / f"{top.name}.index")
    plain_git(top, "add", "--all", GIT_INDEX_FILE=index)
    return plain_git(top, "write-tree", GIT_INDEX_FILE=index)


def make(top: Path) -> Path:
    """Files of all kinds, and a submodule; some are not committed."""
    module = top.parent / "module"
    for each in (module, top):
        each.mkdir(parents=True, exist_ok=True)
        plain_git(each, "init", "--quiet")
    (module / "m.txt").write_text("m\n")
    plain_git(module, "add", "--all")
    plain_git(module, "commit", "--quiet", "-m", "m")
    files = {
        "a.txt": b"one\n",
        "crlf.txt": b"one\r\ntwo\r\n",
        "bin.dat": bytes(range(256)),
        "below/deep.py": b"print(1)\n",
        "ident.c": b"$Id$\n",
        ".gitignore": b"ignored\n",
    }
    for name, data in files.items():
        (top / name).parent.mkdir(exist_ok=True)
        (top / name).write_bytes(data)
    (top / "link").symlink_to("a.txt")
    (top / "run.sh").write_text("#!/bin/sh\n")
    (top / "run.sh").chmod(0o755)
    add = ("submodule", "--quiet", "add", "../module", "mod")
    plain_git(top, "-c", "protocol.file.allow=always", *add)
    plain_git(top, "add", "--all")
    plain_git(top, "commit", "--quiet", "-m", "one")
    (top / "a.txt").write_text("one\nmore\n")
    (top / "new.txt").write_text("new\n")
    (top / "ignored").write_text("x")
    (top / "mod" / "m.txt").write_text("dirty\n")
    macro = "[attr]planted filter=x diff=x\n*.md planted\n"
    (top / ".gitattributes").write_text(f"{macro}*.txt filter=x diff=x merge=x\n*.py filter=p\n*.c ident\n")
    (top / "read.md").write_text("text\n")
    return top


def plant(top: Path, marks: Path) -> None:
    """Plant all of it, in the repository and in its submodule."""
    marks.mkdir(exist_ok=True)
    script = marks.parent / "planted.sh"
    filter_ = 'case "$1" in v) printf "x\\0";; *) cat 2>/dev/null;; esac'
    script.write_text(f'#!/bin/sh\ntouch "{marks}/$1"\nshift\n{filter_}\n')
    script.chmod(0o755)
    included = marks.parent / "included"
    included.write_text(f"[core]\n\tfsmonitor = {script} included\n")
    inner = top / ".git" / "modules" / "mod"
    for place in filter(Path.is_dir, (top / ".git", inner)):
        for name, value in {**{name: f"{script} {mark}" for name, mark in RUN.items()}, **SET}.items():
            plain_git(top.parent, "config", "--file", str(place / "config"), name, value)
        plain_git(top.parent, "config", "--file", str(place / "config"), "include.path", str(included))
        (place / "hooks").mkdir(exist_ok=True)
        for name in HOOKS:
            hook = place / "hooks" / name
            hook.write_text(f'#!/bin/sh\ntouch "{marks}/hook-{name}"\n')
            hook.chmod(0o755)
        (place / "info").mkdir(exist_ok=True)
        (place / "info" / "attributes").write_text("* filter=x diff=x\n")


def mislead(top: Path) -> None:
    """Plant what makes git look elsewhere or fail, rather than run something."""
    plain_git(top.parent, "config", "--file", str(top / ".git" / "config"), "core.worktree", "/usr/share")
    with (top / ".git" / "info" / "attributes").open("a") as file:
        file.write("new.txt working-tree-encoding=UTF-16 -diff\n")
    (top / ".git" / "objects" / "info").mkdir(exist_ok=True)
    (top / ".git" / "objects" / "info" / "alternates").write_text("/dev/zero\n")


def content(place: Path) -> dict[str, str]:
    """All files of a directory, byte for byte."""
    files = (each for each in sorted(place.rglob("*")) if each.is_file() or each.is_symlink())
    return {str(each.relative_to(place)): sha256(each.read_bytes()).hexdigest() for each in files}


def ran(marks: Path) -> list[str]:
    return sorted(each.name for each in marks.iterdir())
