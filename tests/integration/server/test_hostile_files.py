"""Files of a repository that somebody else made, at every door: the command line, the library, HTTP."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue import Segue
from segue.app.reviews import read_task
from segue.core.errors import Misuse
from tests.chaos.scenes import until
from tests.integration.conftest import Program
from tests.integration.server.conftest import Daemon

SECRET = "the secret of the user"
DONE = '[[say {"escalate": false, "reason": "fine"}]]'
UP = '[[say {"escalate": true, "reason": "look"}]]'
HUMAN = '[[tier]]\nname = "person"\nhuman = true\n'
Answered = tuple[bool, str]
"""Whether it was accepted, and what was said if not."""


class Doors:
    """A repository with traps, and the ways to name its files. Nobody listens to what is started."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon, self.segue, self.cwd = daemon, daemon.segue, daemon.segue.cwd
        self.secrets = self.cwd.parent / "private"
        self.secrets.mkdir()
        (self.secrets / "key").write_text(SECRET)
        git = ["git", "init", "--quiet", str(self.cwd)]
        subprocess.run(git, check=True, env=self.segue.env)
        self.flows = self.cwd / "ops"
        (self.flows / "prompts").mkdir(parents=True)
        (self.flows / "look.md").write_text(f"Look. {UP}")
        (self.cwd / "shared.md").write_text(f"Look. {UP}")
        for place in (self.cwd, self.flows):
            self.traps(place)

    def traps(self, place: Path) -> None:
        (place / "out").symlink_to(self.secrets)
        (place / "out.md").symlink_to(self.secrets / "key")
        (place / "again.md").symlink_to("out.md")
        (place / "zero.md").symlink_to("/dev/zero")
        os.mkfifo(place / "pipe.md")
        (place / "huge.md").write_bytes(b"x" * (2 << 20))
        (place / "latin.md").write_bytes(b"caf\xe9")
        (place / "folder.md").mkdir()

    def flow(self, keys: str, top: str = "") -> Path:
        """A FLOW.toml with one tier, which has these keys, and a person after it."""
        file = self.flows / "FLOW.toml"
        tier = f'[[tier]]\nname = "look"\nagent = "rehearsal"\n{keys}\n'
        file.write_text(f"{top}\n{tier}{HUMAN}")
        return file

    def escalate(self, door: str, file: str | Path, key: str | None = None) -> Answered:
        return self.post(
            door,
            ("escalate", str(file), *(("--key", key) if key else ())),
            lambda segue: segue.flows.escalate(file, key=key),
            ("/api/v1/escalations", {"file": str(file), **({"key": key} if key else {})}),
        )

    def post(
        self,
        door: str,
        words: tuple[str, ...],
        call: Callable[[Segue], Awaitable[object]],
        order: tuple[str, dict[str, Any]],
    ) -> Answered:
        if door == "command line":
            said = self.segue(*words)
            assert said.code != 2 or len(said.stderr.splitlines()) == 1, said.stderr
            return said.code != 2, said.stderr
        if door == "library":
            return asyncio.run(self._call(call))
        ask = self.daemon.ask if door == "HTTP" else self.daemon.ask_local
        answer = ask("POST", *order)
        assert answer.status in (202, 422), answer.body
        if answer.status == 202:
            until(lambda: all(each["state"] != "running" for each in self.started()), "it stops")
        return answer.status == 202, answer.body.decode()

    async def _call(self, call: Callable[[Segue], Awaitable[object]]) -> Answered:
        try:
            async with asyncio.timeout(60), Segue(env=self.segue.env, cwd=self.cwd) as segue:
                await call(segue)
        except Misuse as error:
            return False, error.message
        return True, ""

    def started(self) -> list[Any]:
        found: list[Any] = msgspec.json.decode(self.segue("flow", "ls", "--all", "--json").stdout)
        return found

    def told(self) -> str:
        """All that agents were told."""
        homes = (self.segue.home.parent / "agent").rglob("*.jsonl")
        return "\n".join(each.read_text() for each in homes)


@pytest.fixture
def segue(segue: Program) -> Program:
    segue.env |= {"REHEARSAL_HOME": str(segue.home.parent / "agent"), "SEGUE_KEEP_ENABLED": "false"}
    return segue


@pytest.fixture
def doors(daemon: Daemon) -> Doors:
    return Doors(daemon)


DOORS = ("command line", "library", "HTTP")
OUTSIDE = "is not below"
NAMED = [
    ("/etc/passwd", OUTSIDE),
    ("../../private/key", OUTSIDE),
    ("~/private/key", "No such file or directory"),
    ("out/key", OUTSIDE),
    ("prompts/../out/../private/key", OUTSIDE),
    ("out.md", OUTSIDE),
    ("again.md", OUTSIDE),
    ("zero.md", OUTSIDE),
    ("/dev/zero", OUTSIDE),
    ("pipe.md", "it is not a regular file"),
    ("huge.md", "it has more than 1 MB"),
    ("latin.md", "is not UTF-8"),
    ("folder.md", "it is a directory"),
    ("gone.md", "No such file or directory"),
    ("look.md/x", "Not a directory"),
    (r"nul\u0000.md", "NUL"),
]


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("door", DOORS)
def test_a_flow_file_names_only_files_of_its_project(doors: Doors, door: str, trusted: bool) -> None:
    if trusted:
        doors.segue.trust()
    for name, why in NAMED:
        for keys, top in (
            (f'full = "{name}"', ""),
            ('full = "look.md"', f'environment_file = "{name}"'),
        ):
            accepted, said = doors.escalate(door, doors.flow(keys, top))
            assert not accepted, name
            assert why in said, (name, said)
            assert "FLOW.toml: " in said
            assert SECRET not in said
    assert doors.started() == []
    accepted, said = doors.escalate(door, doors.flow('full = "prompts/../look.md"'))
    assert accepted, said
    assert "Look." in doors.told() or door == "HTTP"


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("keys", "top", "place"),
    [
        ('permission = "default"', "", "[[tier]] 1 permission: default is more than read"),
        ('permission = "edit"', "", "[[tier]] 1 permission: edit is more than read"),
        ('permission = "full"', "", "[[tier]] 1 permission: full is more than read"),
        ('allow = ["read", "shell"]', "", "[[tier]] 1 (look) allow: shell may write or run something"),
        ('account = "work"', "", "[[tier]] 1 account: it chooses an account"),
        (
            "",
            '[policy]\nsignal = "exit_code"\ncommand = "touch made"',
            "[policy] command: it runs a command",
        ),
        ("", 'environment_file = "../shared.md"', "shared.md is outside the folder of the file"),
    ],
)
def test_a_flow_file_that_is_not_trusted_may_only_look(
    doors: Doors, door: str, keys: str, top: str, place: str
) -> None:
    doors.segue.config('[accounts.work]\nagent = "rehearsal"\nhome = "~/work"\n')
    file = doors.flow(f'full = "look.md"\n{keys}', top)
    accepted, said = doors.escalate(door, file)
    assert not accepted
    assert place in said
    assert f"segue trust {doors.flows}" in said
    assert doors.started() == []
    assert not (doors.cwd / "made").exists()
    doors.segue.trust()  # the root of its working tree
    assert doors.escalate(door, file)[0]


def test_a_tier_that_names_no_permission_reads_unless_the_file_is_trusted(doors: Doors) -> None:
    (doors.flows / "look.md").write_text(f"[[shell touch made]] [[write written]] {DONE}")
    file = doors.flow('full = "look.md"\nallow = ["read"]\ncarry = true')
    assert doors.segue("escalate", str(file), "--no-daemon").code == 0
    assert not {"made", "written"} & {each.name for each in doors.cwd.iterdir()}
    doors.segue.trust(doors.flows)
    file = doors.flow('full = "look.md"\nallow = ["shell"]\ncarry = true')
    assert doors.segue("escalate", str(file), "--no-daemon").code == 0
    assert (doors.cwd / "made").exists()
    assert _plans(doors) == [("read", False), ("default", True)]


def _plans(doors: Doors) -> list[tuple[str, bool]]:
    """Permission and carry of the first tier of each flow, as stored, the oldest first."""
    import sqlite3

    with sqlite3.connect(doors.segue.home / "segue.db") as db:
        rows = db.execute("SELECT input FROM flows ORDER BY id").fetchall()
    tiers = [msgspec.json.decode(row[0])["plan"]["tiers"][0] for row in rows]
    return [(each.get("permission", "default"), each.get("carry", False)) for each in tiers]


def test_the_example_is_trusted_until_it_is_changed(doors: Doors) -> None:
    watch = doors.cwd / "watch"
    init = doors.segue("init", "escalate", "watch", "--agent", "rehearsal")
    assert init.code == 0, init.stderr
    (watch / "prompts" / "observe.md").write_text(DONE)

    def run(place: Path = watch) -> Answered:
        return doors.escalate("command line", place / "FLOW.toml")

    assert run()[0], "a prompt may be changed"
    copy = doors.cwd / "copy"
    subprocess.run(["cp", "-r", str(watch), str(copy)], check=True)
    assert "segue trust" in run(copy)[1], "the same file elsewhere"
    watch.rename(doors.cwd / "old")
    copy.rename(watch)
    assert not run()[0], "another directory at the same place"
    watch.rename(copy)
    (doors.cwd / "old").rename(watch)
    assert run()[0]
    before = (watch / "FLOW.toml").read_text()
    (watch / "FLOW.toml").write_text(f"{before}# changed\n")
    accepted, said = run()
    assert (accepted, f"segue trust {watch}" in said) == (False, True)
    assert "it has changed since Segue wrote it" in said
    (watch / "FLOW.toml").write_text(before)
    assert doors.segue("trust", "--remove", "watch").code == 0
    assert not run()[0]
    assert doors.segue("trust", "watch").code == 0
    assert run()[0]


def test_the_example_is_not_written_through_a_link(doors: Doors) -> None:
    (doors.cwd / "made").mkdir()
    (doors.cwd / "made" / "prompts").symlink_to(doors.secrets)
    init = doors.segue("init", "escalate", "made", "--agent", "rehearsal")
    assert (init.code, "prompts is a link; nothing was written" in init.stderr) == (2, True)
    assert [each.name for each in doors.secrets.iterdir()] == ["key"]


def test_nothing_is_written_through_a_link_for_the_cooldowns(doors: Doors) -> None:
    (doors.cwd / ".segue").symlink_to(doors.secrets)
    cooldown = '[[cooldown]]\nkind = "restart"\nlimit = 1\nhours = 1\ndeny = ["shell"]\n'
    (doors.flows / "look.md").write_text(f"[[shell echo written >> ../made]] {DONE}")
    doors.segue.trust()
    file = doors.flow('full = "look.md"\npermission = "full"')
    file.write_text(file.read_text() + cooldown)
    assert doors.segue("escalate", str(file), "--no-daemon").code == 0
    assert (doors.cwd.parent / "made").exists()
    assert [each.name for each in doors.secrets.iterdir()] == ["key"]


def test_what_was_accepted_goes_on_as_it_was_judged(doors: Doors) -> None:
    """What is stored is text: neither the file nor its prompts are read again, also for a step that is
    repeated."""
    doors.segue.trust()
    (doors.flows / "mend.md").write_text(f"[[shell echo mended >> {doors.cwd}/made]] {DONE}")
    file = doors.flow('full = "look.md"')
    mend = '[[tier]]\nname = "mend"\nagent = "rehearsal"\nprompt = "mend.md"\nfull = "mend.md"\n'
    file.write_text(file.read_text() + mend + 'permission = "full"\n')
    began = doors.segue("escalate", str(file), "--key", "k", "--no-daemon")
    assert began.code == 1, began.stderr
    assert doors.segue("trust", "--remove").code == 0
    file.write_text("[[tier]]")
    (doors.flows / "mend.md").unlink()
    (doors.flows / "mend.md").symlink_to(doors.secrets / "key")
    assert doors.segue("answer", "k", "go on").code == 0
    made = doors.cwd / "made"
    until(lambda: made.exists() and doors.started()[0]["state"] == "done", "the last tier is done")
    assert doors.segue("flow", "retry-step", "k", "tier-3").code == 0
    until(lambda: made.read_text() == "mended\nmended\n", "it was done again")
    assert SECRET not in doors.told()


@pytest.mark.parametrize("door", DOORS)
def test_a_flow_file_itself_is_no_link_out_of_the_project(doors: Doors, door: str) -> None:
    theirs = doors.secrets / "FLOW.toml"
    theirs.write_text(HUMAN)
    (doors.cwd / "link.toml").symlink_to(theirs)
    (doors.cwd / "inside.toml").symlink_to("ops/FLOW.toml")
    doors.flow('full = "look.md"')
    for name, why in {
        "link.toml": f"leads out of {doors.cwd}, to {theirs}",
        "out/FLOW.toml": f"leads out of {doors.cwd}",
        "zero.md": "leads out",
        "pipe.md": "it is not a regular file",
        "huge.md": "it has more than 1 MB",
        "latin.md": "is not UTF-8",
        "folder.md": "it is a directory",
        "gone.toml": "segue init escalate writes an example",
    }.items():
        accepted, said = doors.escalate(door, doors.cwd / name)
        assert not accepted, name
        assert why in said, (name, said)
    assert doors.escalate(door, theirs)[0], "the user names it"
    assert doors.escalate(door, doors.cwd / "inside.toml")[0]
    doors.segue.trust()
    assert doors.escalate(door, doors.cwd / "link.toml")[0]


def _review(doors: Doors, door: str, name: str, task: str = "Build it", **more: Any) -> Answered:
    role = {"agent": "rehearsal"}
    order = {"task": task, "task_file": name, "coder": role, "reviewer": role, **more}

    async def call(segue: Segue) -> None:
        file = {"task_file": name, **more}
        await segue.flows.review(task, coder="rehearsal", reviewer="rehearsal", **file)

    words = ("review", name, "--coder", "rehearsal", "--reviewer", "rehearsal")
    rounds = ("--rounds", str(more["rounds"])) if "rounds" in more else ()
    checks = (("--check", each) for each in more.get("checks", ()))
    command = (*words, *rounds, *(word for pair in checks for word in pair))
    return doors.post(door, command, call, ("/api/v1/reviews", order))


@pytest.mark.parametrize("door", DOORS)
def test_a_task_is_no_link_out_of_the_project(doors: Doors, door: str) -> None:
    (doors.secrets / "plain.md").write_text("Build it")
    for name, why in {
        "out.md": "cannot read the task out.md: the link ",
        "again.md": f"leads out of {doors.cwd}, to {doors.secrets / 'key'}",
        "out/key": f"leads out of {doors.cwd}, to {doors.secrets}",
        "zero.md": "leads out",
        "/dev/zero": "it is not a regular file",
        "pipe.md": "it is not a regular file; - reads stdin",
        "huge.md": "it has more than 1 MB",
        "latin.md": "is not UTF-8",
        "folder.md": "it is a directory",
        "gone.md": "No such file or directory",
    }.items():
        accepted, said = _review(doors, door, name, rounds=1)
        assert not accepted, name
        assert why in said, (name, said)
    assert doors.started() == []
    assert _review(doors, door, str(doors.secrets / "plain.md"), rounds=1)[0], "the user names it"
    assert SECRET not in doors.told()
    until(lambda: doors.started()[0]["state"] == "failed", "there is no verdict")
    doors.segue.trust()
    assert _review(doors, door, "out.md", rounds=1)[0]


REJECT = '{"verdict": "reject", "findings": [{"id": "a", "severity": "major", "text": "about a"}]}'


@pytest.mark.parametrize("door", [*DOORS, "a flow of its own"])
@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_task_that_becomes_a_link_is_not_read_again(doors: Doors, door: str, what: str) -> None:
    """Whoever works there can put a link in its place."""
    tasks = doors.cwd / "tasks"
    tasks.mkdir()
    task = tasks / "key"
    task.write_text(f"Build it\n\nAs told. [[say {REJECT}]]")
    where = task if what == "file" else tasks
    target = doors.secrets / ("key" if what == "file" else "")
    swap = f"rm -r {where}; ln -sT {target} {where}; echo x >> {doors.cwd}/new"
    if door == "a flow of its own":
        role = {"agent": "rehearsal"}
        given = {"task": task.read_text(), "task_file": str(task), "checks": [swap], "rounds": 3}
        order = {"kind": "review", "input": {**given, "coder": role, "reviewer": role}, "cwd": str(doors.cwd)}
        assert doors.daemon.ask("POST", "/api/v1/flows", order).status == 202
    else:
        assert _review(doors, door, str(task), task.read_text(), rounds=3, checks=[swap])[0]
    until(lambda: doors.started()[0]["state"] in ("done", "failed"), "it ends")
    assert (tasks / "key").read_text() == SECRET
    assert "Build it" in doors.told()
    assert SECRET not in doors.told()


@pytest.mark.parametrize("door", ["command line", "library"])
def test_a_system_prompt_is_no_link_out_of_the_project(doors: Doors, door: str) -> None:
    (doors.cwd / "plain.md").write_text("Be brief.")
    (doors.cwd / "inside.md").symlink_to("plain.md")

    def run(name: str) -> Answered:
        async def call(segue: Segue) -> None:
            await segue.run("t", "hi", agent="rehearsal", system_prompt_file=name)

        words = ("run", "t", "hi", "--agent", "rehearsal", "--system-prompt-file", name)
        return doors.post(door, words, call, ("", {}))

    for name, why in {
        "out.md": "cannot read the system prompt file",
        "out/key": f"leads out of {doors.cwd}, to {doors.secrets}",
        "zero.md": "leads out",
        "pipe.md": "it is not a regular file",
        "huge.md": "it has more than 1 MB",
        "latin.md": "is not UTF-8",
        "gone.md": "No such file",
    }.items():
        accepted, said = run(name)
        assert not accepted, name
        assert why in said, (name, said)
    assert doors.told() == ""
    assert run("inside.md")[0]
    doors.segue.trust()
    assert run("out.md")[0]


@pytest.mark.parametrize("door", ["command line", "library", "the socket"])
def test_an_attachment_is_no_link_out_of_the_project(doors: Doors, door: str) -> None:
    (doors.cwd / "plain.md").write_text("fine")

    def run(name: str) -> Answered:
        async def call(segue: Segue) -> None:
            await segue.run("t", "hi", agent="rehearsal", attachments=[name])

        words = ("run", "t", "hi", "--agent", "rehearsal", "--attach", name)
        order = {"message": "hi", "agent": "rehearsal", "attachments": [{"path": str(doors.cwd / name)}]}
        return doors.post(door, words, call, ("/api/v1/conversations/t/runs", order))

    for name, why in {
        "out.md": f"leads out of {doors.cwd}, to {doors.secrets / 'key'}",
        "out/key": f"leads out of {doors.cwd}, to {doors.secrets}",
        "zero.md": "leads out",
        "/dev/zero": "it is not a regular file",
        "pipe.md": "it is not a regular file",
        "folder.md": "it is a directory",
    }.items():
        accepted, said = run(name)
        assert not accepted, name
        assert why in said, (name, said)
    assert run("plain.md")[0]
    doors.segue.trust()
    assert run("out.md")[0]


def test_a_conversation_is_not_imported_through_a_link_out_of_the_project(doors: Doors) -> None:
    doors.segue("run", "t", "hi", "--agent", "rehearsal")
    (doors.secrets / "export.json").write_text(doors.segue("export", "t", "--json").stdout)
    (doors.cwd / "export.json").symlink_to(doors.secrets / "export.json")
    for name, why in {"export.json": "leads out", "pipe.md": "- reads stdin", "zero.md": "leads out"}.items():
        said = doors.segue("import", name, "--key", "new")
        assert (said.code, why in said.stderr) == (2, True), said
    assert doors.segue("import", str(doors.secrets / "export.json"), "--key", "new").code == 0


def test_a_segue_toml_is_no_link_out_of_the_project(doors: Doors) -> None:
    (doors.secrets / "segue.toml").write_text("[defaults]\nmodel = 'large'\n")
    file = doors.cwd / "segue.toml"
    for target, why in {
        doors.secrets / "segue.toml": f"leads out of {doors.cwd}, to {doors.secrets / 'segue.toml'}",
        doors.cwd / "huge.md": "it has more than 1 MB",
    }.items():
        file.symlink_to(target)
        said = doors.segue("ls")
        assert (said.code, why in said.stderr, len(said.stderr.splitlines())) == (2, True, 1), said
        file.unlink()
    file.symlink_to(doors.secrets / "segue.toml")
    assert doors.segue("trust").code == 0
    assert doors.segue("ls").code == 0


def test_links_of_the_user_are_followed(segue: Program) -> None:
    """The user's home may be a link, and what is in it, and directories elsewhere; a project may be in it."""
    disk = segue.cwd.parent / "disk"
    (disk / "home" / "project").mkdir(parents=True)
    (disk / "data").mkdir()
    (disk / "data" / "prompt.md").write_text("Be brief.")
    (disk / "home" / "project" / "prompt.md").write_text("Be brief.")
    home = segue.cwd.parent / "link"
    home.symlink_to(disk / "home")
    (disk / "home" / "data").symlink_to(disk / "data")
    (disk / "home" / "mine.md").symlink_to(disk / "data" / "prompt.md")
    (disk / "home" / "project" / "same.md").symlink_to("prompt.md")
    segue.env["HOME"] = str(home)
    segue.cwd = disk / "home" / "project"
    for name in (home / "project" / "prompt.md", "same.md", home / "data" / "prompt.md", home / "mine.md"):
        said = segue("run", "t", "hi", "--agent", "rehearsal", "--system-prompt-file", str(name))
        assert said.code == 0, said.stderr
    (segue.cwd / "away.md").symlink_to(disk / "data" / "prompt.md")
    said = segue("run", "t", "hi", "--agent", "rehearsal", "--system-prompt-file", "away.md")
    assert (said.code, f"leads out of {segue.cwd}" in said.stderr) == (2, True), said.stderr


def test_a_task_in_a_link_is_read_once(segue: Program) -> None:
    (segue.cwd / "one.md").write_text("One.")
    (segue.cwd / "TASK.md").symlink_to("one.md")
    assert read_task("TASK.md", segue.env, segue.cwd) == ("One.", None)
    assert read_task("one.md", segue.env, segue.cwd) == ("One.", str(segue.cwd / "one.md"))
