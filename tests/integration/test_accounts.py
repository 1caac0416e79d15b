"""``segue account``, with the real program: its file, its refusals, and which account a turn then uses."""

from __future__ import annotations

import stat
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.turns.agent_choice import PAUSES_S
from tests.database import database
from tests.integration.conftest import Program, Result
from tests.integration.talk import Talk

MINE = """# my own file
[defaults]   # what I like
timeout = 600

# work, do not touch
[accounts.work]
agent = "rehearsal"   # for now
home = "~/work-home"
"""


def account(segue: Program, *args: str, code: int = 0) -> Result:
    ran = segue("account", *args)
    assert ran.code == code, (ran.stdout, ran.stderr)
    return ran


def shown(segue: Program, name: str) -> dict[str, Any]:
    decoded: dict[str, Any] = msgspec.json.decode(account(segue, "show", name, "--json").stdout)
    return decoded


def log_in(home: Path, name: str | None) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "login.json").write_bytes(msgspec.json.encode({"account": name, "token": f"secret of {name}"}))


def ran_as(segue: Program, key: str, *options: str) -> Any:
    ran = segue("run", key, "hi", "--json", *options)
    assert ran.code == 0, ran.stderr
    return ran.turn["account"]


def test_an_account_from_the_first_to_the_last_command(segue: Program, tmp_path: Path) -> None:
    assert "No accounts" in account(segue, "ls").stderr
    home = tmp_path / "one"
    out = account(
        segue, "add", "one", "--agent", "rehearsal", "--home", str(home), "--env", "A=b=c", "--json"
    )
    made = msgspec.json.decode(out.stdout)
    assert (made["name"], made["home"], made["env"], made["default"]) == ("one", str(home), ["A"], False)
    assert stat.S_IMODE((segue.home / "config.toml").stat().st_mode) == 0o600
    assert (segue.home / "config.toml").read_text() == (
        '[accounts.one]\nagent = "rehearsal"\nhome = "~/one"\nenv = { A = "b=c" }\n'
    )
    (listed,) = msgspec.json.decode(account(segue, "ls", "--json").stdout)
    assert listed["name"] == "one"
    assert ran_as(segue, "k", "--account", "one") == "one"
    assert list((home / "sessions").glob("*.jsonl"))
    account(segue, "default", "one")
    assert ran_as(segue, "other", "--agent", "rehearsal") == "one"
    assert msgspec.json.decode(account(segue, "rm", "one", "--json").stdout) == {"removed": "one"}
    assert msgspec.json.decode(account(segue, "ls", "--json").stdout) == []
    assert list((home / "sessions").glob("*.jsonl")), "its home stays"
    assert ran_as(segue, "third", "--agent", "rehearsal") is None


def test_the_rest_of_the_file_stays(segue: Program) -> None:
    segue.config(MINE)
    account(segue, "add", "more", "--agent", "rehearsal", "--pass-env", "KEY")
    account(segue, "default", "work")
    account(segue, "bind", "work")
    text = (segue.home / "config.toml").read_text()
    assert text.startswith(MINE + 'directories = ["~/project"]\n')
    account(segue, "bind", "--remove")
    account(segue, "default", "work", "--remove")
    account(segue, "rm", "more")
    assert (segue.home / "config.toml").read_text().startswith(MINE)


def test_a_link_stays_a_link_and_keeps_its_mode(segue: Program, tmp_path: Path) -> None:
    segue.config(MINE)
    file, real = segue.home / "config.toml", tmp_path / "dotfiles.toml"
    file.rename(real)
    file.symlink_to(real)
    real.chmod(0o640)
    account(segue, "add", "more", "--agent", "rehearsal")
    assert file.is_symlink()
    assert "[accounts.more]" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("add", "a/b", "--agent", "rehearsal"), "cannot be the name"),
        (("add", "none", "--agent", "rehearsal"), "cannot be the name"),
        (("add", "work", "--agent", "rehearsal"), 'there is an account "work" already'),
        (("add", "x", "--agent", "rehearsl"), "did you mean rehearsal?"),
        (("add", "x", "--agent", "rehearsal", "--env", "A"), "--env needs NAME=VALUE"),
        (("add", "x", "--agent", "rehearsal", "--pass-env", "A=b"), "is not the name of a variable"),
        (("add", "x", "--agent", "rehearsal", "--home", "/dev/null"), "is not a directory"),
        (("add", "x"), "Missing option '--agent'"),
        (("show", "wrk"), 'there is no account "wrk" (known: work)'),
        (("rm", "wrk"), 'there is no account "wrk"'),
        (("login", "wrk"), 'there is no account "wrk"'),
        (("login", "work"), "Rehearsal has no command to log in"),
        (("default", "wrk"), 'there is no account "wrk"'),
        (("default", "work", "--remove"), "is not the default account"),
        (("bind", "wrk"), 'there is no account "wrk"'),
        (("bind", "work", "nowhere"), "is not a directory"),
        (("bind", "--remove"), "is not bound to an account"),
        (("bind",), "name the account"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_input_is_one_line_and_changes_nothing(segue: Program, args: tuple[str, ...], told: str) -> None:
    segue.config(MINE)
    ran = account(segue, *args, "--json", code=2)
    assert told in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
    assert msgspec.json.decode(ran.stdout)["error"]["code"] in ("misuse", "config")
    assert (segue.home / "config.toml").read_text() == MINE


@pytest.mark.parametrize(
    "text", ['accounts = { work = { agent = "rehearsal" } }\n', "[accounts]\nwork.agent='rehearsal'\n"]
)
def test_a_form_that_cannot_be_changed_is_told_by_hand(segue: Program, text: str) -> None:
    segue.config(text)
    ran = account(segue, "bind", "work", code=2)
    assert 'change it by hand: write directories = ["~/project"] under [accounts.work]' in ran.stderr
    assert (segue.home / "config.toml").read_text() == text


def test_a_broken_file_is_told_and_kept(segue: Program) -> None:
    segue.config("[accounts\n")
    assert "config.toml:1: is not TOML" in account(segue, "add", "x", "--agent", "rehearsal", code=2).stderr
    assert (segue.home / "config.toml").read_text() == "[accounts\n"


def test_two_commands_at_once_lose_nothing(segue: Program) -> None:
    segue.config(MINE)
    started = [segue.start("account", "add", f"a{n}", "--agent", "rehearsal") for n in range(4)]
    assert [process.communicate(timeout=60)[1] or process.returncode for process in started] == [0] * 4
    names = [each["name"] for each in msgspec.json.decode(account(segue, "ls", "--json").stdout)]
    assert names == ["a0", "a1", "a2", "a3", "work"]


def test_the_nearest_bound_directory_decides(segue: Program, tmp_path: Path) -> None:
    for name in ("outer", "inner"):
        account(segue, "add", name, "--agent", "rehearsal", "--home", str(tmp_path / name))
    inside = segue.cwd / "a" / "b"
    inside.mkdir(parents=True)
    account(segue, "bind", "outer", str(segue.cwd))
    account(segue, "bind", "inner", str(segue.cwd / "a"))
    link = tmp_path / "link"
    link.symlink_to(inside)
    assert ran_as(segue, "one") == "outer"
    assert ran_as(segue, "two", "--cwd", str(inside)) == "inner"
    assert ran_as(segue, "three", "--cwd", str(link)) == "inner", "by identity, not by name"
    assert ran_as(segue, "four", "--cwd", str(inside), "--account", "outer") == "outer"
    assert ran_as(segue, "five", "--account", "none", "--agent", "rehearsal") is None
    assert ran_as(segue, "five") is None, "a conversation keeps what it had"
    account(segue, "bind", "--remove", str(segue.cwd / "a"))
    assert ran_as(segue, "six", "--cwd", str(inside)) == "outer"
    assert ran_as(segue, "two", "--cwd", str(inside)) == "inner"


def test_a_binding_of_another_agent_is_no_binding(segue: Program) -> None:
    segue.config('[accounts.c]\nagent = "claude"\n')
    account(segue, "bind", "c")
    assert ran_as(segue, "one", "--agent", "rehearsal") is None


def test_the_same_login_in_two_homes_is_refused(segue: Program, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    log_in(one, "ann")
    log_in(two, "ann")
    account(segue, "add", "one", "--agent", "rehearsal", "--home", str(one))
    ran = account(segue, "add", "two", "--agent", "rehearsal", "--home", str(two), code=2)
    assert "refresh tokens are single-use, so two copies log each other out" in ran.stderr
    log_in(two, "bob")
    account(segue, "add", "two", "--agent", "rehearsal", "--home", str(two))
    assert ran_as(segue, "k", "--account", "two") == "two"
    log_in(two, "ann")
    ran = segue("run", "k", "hi", "--account", "two")
    assert (ran.code, len(ran.stderr.splitlines())) == (2, 1)
    assert 'the accounts "two"' in ran.stderr
    assert "same login in two homes" in shown(segue, "two")["problem"]
    assert "secret" not in ran.stderr


def test_one_home_unknown_logins_and_keys_are_no_such_case(segue: Program, tmp_path: Path) -> None:
    home, other = tmp_path / "one", tmp_path / "two"
    log_in(home, "ann")
    account(segue, "add", "one", "--agent", "rehearsal", "--home", str(home))
    account(segue, "add", "same", "--agent", "rehearsal", "--home", str(home))
    account(segue, "add", "free", "--agent", "rehearsal", "--home", str(tmp_path / "free"))
    account(segue, "add", "free2", "--agent", "rehearsal", "--home", str(tmp_path / "free2"))
    log_in(other, "ann")
    args = ("--agent", "rehearsal", "--home", str(other), "--env", "REHEARSAL_KEY=0123456789")
    ran = account(segue, "add", "keyed", *args)
    assert "plain text" in ran.stderr
    for name in ("one", "same", "free", "free2", "keyed"):
        assert ran_as(segue, name, "--account", name) == name


def test_a_fingerprint_has_hashes_and_names(segue: Program, tmp_path: Path) -> None:
    log_in(tmp_path / "one", "ann")
    url = "https://user:pass@gateway.example"
    args = ("--agent", "rehearsal", "--home", str(tmp_path / "one"), "--env", f"REHEARSAL_URL={url}")
    account(segue, "add", "one", *args)
    first = shown(segue, "one")["fingerprint"]
    assert (first["agent"], first["method"], list(first["route"])) == (
        "rehearsal",
        "login",
        ["REHEARSAL_URL"],
    )
    for word in ("ann", "secret", "gateway", "pass@"):
        assert word not in account(segue, "show", "one", "--json").stdout
    log_in(tmp_path / "one", "ann")
    assert shown(segue, "one")["fingerprint"] == first, "a new token is no new user"
    log_in(tmp_path / "one", "bob")
    assert shown(segue, "one")["fingerprint"]["whole"] != first["whole"]


def test_its_limits_and_policies_are_shown(segue: Program, tmp_path: Path) -> None:
    own = 'carry_out = "never"\non_limit = "fail"\nbudget = 2.0'
    segue.config(
        f'[carry]\nrule = "allow"\nnever = [["one", "two"]]\n[accounts.one]\nagent = "rehearsal"\n'
        f'home = "{tmp_path}/one"\n{own}\n[accounts.two]\nagent = "rehearsal"\nhome = "{tmp_path}/two"\n'
    )
    assert segue("run", "k", "[[limit 5h 0.8 3600]][[say hi]]", "--account", "one").code == 0
    details = shown(segue, "one")
    assert [(each["window"], each["used"]) for each in details["limits"]] == [("5h", 0.8)]
    assert [details[name] for name in ("carry_out", "carry_in", "never", "on_limit", "budget")] == [
        *("never", "allow", ["two"], "fail", 2.0)
    ]
    told = account(segue, "show", "one").stdout
    for words in ("5h 80% used, resets ", "out: never, in: allow", "to or from two", "fail", "$2.00 a day"):
        assert words in told


@pytest.fixture
def talk(segue: Program, tmp_path: Path) -> Talk:
    segue.config(f'[accounts.one]\nagent = "rehearsal"\nhome = "{tmp_path}/one"\n')
    log_in(tmp_path / "one", "ann")
    talk = Talk(segue)
    talk.sessions = tmp_path / "one" / "sessions"
    talk.run("remember number 1", "--account", "one")
    return talk


@pytest.mark.parametrize(
    "line", ['env = { REHEARSAL_URL = "https://other.example" }', 'env = { REHEARSAL_KEY = "k" }']
)
def test_another_address_or_method_is_another_identity(segue: Program, talk: Talk, line: str) -> None:
    before = (segue.home / "config.toml").read_text()
    (segue.home / "config.toml").write_text(f"{before}{line}\n")
    assert talk.why()["mode"] == "fresh"
    assert talk.run("what number?").text == "I do not know any number."
    (segue.home / "config.toml").write_text(before)
    back = talk.run("what number?")
    assert (back.mode, back.text) == ("resume", "1")


def test_another_home_is_seen_before_an_attempt_is_wasted(segue: Program, talk: Talk, tmp_path: Path) -> None:
    """The same login, in another directory: what was said there is sent again, and the two are named."""
    log_in(tmp_path / "two", "ann")
    (segue.home / "config.toml").write_text(f'[accounts.one]\nagent = "rehearsal"\nhome = "{tmp_path}/two"\n')
    planned = talk.why()
    (failed,) = [each for each in planned["checks"] if each["check"] == "account"]
    assert (planned["mode"], failed["verdict"], failed["bars"]) == ("replay", "fail", ["resume", "branch"])
    assert f"{tmp_path}/one" in failed["detail"]
    assert f"{tmp_path}/two" in failed["detail"]
    again = talk.run("what number?")
    assert (again.mode, again.text, len(again.turn["attempts"])) == ("replay", "1", 1)
    assert talk.run("what number?").mode == "resume"


def test_a_link_to_the_home_is_the_same_home(segue: Program, talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "one")
    (segue.home / "config.toml").write_text(
        f'[accounts.one]\nagent = "rehearsal"\nhome = "{tmp_path}/link"\n'
    )
    assert talk.run("what number?").mode == "resume"


def test_an_address_from_before_is_the_first_one(segue: Program, tmp_path: Path) -> None:
    """The store of an earlier Segue knew no addresses: the one that is seen first is the one it had."""
    env = 'env = { REHEARSAL_URL = "https://a.example" }'
    segue.config(f'[accounts.one]\nagent = "rehearsal"\nhome = "{tmp_path}/one"\n{env}\n')
    talk = Talk(segue)
    talk.sessions = tmp_path / "one" / "sessions"
    talk.run("remember number 1", "--account", "one")
    with database(segue.home / "segue.db") as db:
        db.execute("DELETE FROM identities")
    assert talk.run("what number?").mode == "resume"
    segue.config((segue.home / "config.toml").read_text().replace("a.example", "b.example"))
    assert talk.run("what number?").mode == "fresh"


def with_key(segue: Program, tmp_path: Path, key: str, more: str = "") -> None:
    env = f'env = {{ REHEARSAL_KEY = "{key}" }}'
    segue.config(f'[accounts.one]\nagent = "rehearsal"\nhome = "{tmp_path}/one"\n{env}\n{more}\n')


def keyed_talk(segue: Program, tmp_path: Path, key: str) -> Talk:
    with_key(segue, tmp_path, key)
    talk = Talk(segue)
    talk.sessions = tmp_path / "one" / "sessions"
    talk.run("remember number 1", "--account", "one")
    assert talk.run("what number?").mode == "resume"
    return talk


def test_another_key_in_the_same_variable_is_another_identity(segue: Program, tmp_path: Path) -> None:
    talk = keyed_talk(segue, tmp_path, "first-key-0123456789")
    first = shown(segue, "one")["fingerprint"]
    with_key(segue, tmp_path, "other-key-0123456789")
    planned = talk.why()
    (failed,) = [each for each in planned["checks"] if each["check"] == "account"]
    assert (planned["mode"], failed["verdict"]) == ("fresh", "fail"), "it is seen before the turn"
    said = talk.run("what number?")
    assert (said.mode, said.text) == ("fresh", "I do not know any number.")
    other = shown(segue, "one")["fingerprint"]
    assert (other["method"], list(other["route"])) == ("key", ["REHEARSAL_KEY"])
    assert other["whole"] != first["whole"]
    with_key(segue, tmp_path, "first-key-0123456789")
    assert shown(segue, "one")["fingerprint"] == first
    assert (talk.run("what number?").mode, talk.run("what number?").text) == ("resume", "1")
    for file in segue.home.rglob("*"):
        if file.is_file() and file.name != "config.toml":
            assert b"key-0123456789" not in file.read_bytes(), file


def test_a_key_from_the_callers_environment_counts_as_well(segue: Program, tmp_path: Path) -> None:
    passed = 'pass_env = ["REHEARSAL_KEY"]'
    segue.config(f'[accounts.one]\nagent = "rehearsal"\nhome = "{tmp_path}/one"\n{passed}\n')
    segue.env["REHEARSAL_KEY"] = "first-key-0123456789"
    talk = Talk(segue)
    talk.sessions = tmp_path / "one" / "sessions"
    talk.run("remember number 1", "--account", "one")
    segue.env["REHEARSAL_KEY"] = "other-key-0123456789"
    assert talk.why()["mode"] == "fresh"
    segue.env["REHEARSAL_KEY"] = "first-key-0123456789"
    assert talk.why()["mode"] == "resume"


def test_a_new_key_of_a_user_who_was_named_before_is_no_change(segue: Program, tmp_path: Path) -> None:
    talk = keyed_talk(segue, tmp_path, "first-key-0123456789")
    with_key(segue, tmp_path, "first-key-0123456789", 'user = "ann"')
    assert talk.run("what number?").mode == "resume", "to name who it is changes nothing"
    with_key(segue, tmp_path, "other-key-0123456789", 'user = "ann"')
    said = talk.run("what number?")
    assert (said.mode, said.text) == ("resume", "1")
    with_key(segue, tmp_path, "third-key-0123456789", 'user = "bob"')
    assert talk.why()["mode"] == "fresh"


def test_a_key_from_before_is_the_first_one(segue: Program, tmp_path: Path) -> None:
    """An earlier Segue recorded that there is a key, and not which: the first that is seen is the one."""

    talk = keyed_talk(segue, tmp_path, "first-key-0123456789")
    with database(segue.home / "segue.db") as db:
        db.execute("UPDATE identities SET route = substr(route, 1, instr(route, '.') - 1)")
    assert talk.run("what number?").mode == "resume"
    with_key(segue, tmp_path, "other-key-0123456789")
    assert talk.run("what number?").mode == "fresh"


def test_the_port_of_this_machine_is_no_identity(segue: Program, talk: Talk) -> None:
    before = (segue.home / "config.toml").read_text()
    for port, mode in ((1001, "fresh"), (1002, "resume")):
        env = f'env = {{ REHEARSAL_URL = "http://127.0.0.1:{port}/" }}'
        (segue.home / "config.toml").write_text(f"{before}{env}\n")
        assert talk.run("hi").mode == mode


@pytest.mark.parametrize("half", [b"", b'{"account": "an', None], ids=["empty", "half", "unreadable"])
def test_a_login_file_that_is_being_written_is_no_change(
    talk: Talk, tmp_path: Path, half: bytes | None
) -> None:
    file = tmp_path / "one" / "login.json"
    if half is None:
        file.unlink()
        file.mkdir()
    else:
        file.write_bytes(half)
    again = talk.run("what number?")
    assert (again.mode, again.text) == ("resume", "1")


def test_a_login_file_that_is_missing_for_a_moment_is_no_change(talk: Talk, tmp_path: Path) -> None:
    """It comes back while the turn is prepared."""
    file = tmp_path / "one" / "login.json"
    whole = file.read_bytes()
    file.unlink()
    script = f"import time; time.sleep({sum(PAUSES_S) / 4})\nopen({str(file)!r}, 'wb').write({whole!r})\n"
    hook = tmp_path / "hook"
    hook.mkdir()
    (hook / "sitecustomize.py").write_text(
        "import sys, threading\n"
        f"def late():\n    exec({script!r})\n"
        "def seen(event, args):\n"
        f"    if event == 'open' and str(args[0]) == {str(file)!r} and not started:\n"
        "        started.append(1); threading.Thread(target=late).start()\n"
        "started = []\nsys.addaudithook(seen)\n"
    )
    talk.segue.env["PYTHONPATH"] = str(hook)
    again = talk.run("what number?")
    assert (again.mode, again.text) == ("resume", "1")


def test_logged_out_for_good_is_somebody_else(talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "one" / "login.json").unlink()
    assert talk.run("what number?").text == "I do not know any number."


def test_login_runs_the_clis_own_command_in_the_home(segue: Program, tmp_path: Path) -> None:
    """A program in place of Codex: it logs in as the real one does, by writing a file in its home."""
    fake = tmp_path / "codex"
    fake.write_text(
        f"#!{sys.executable}\nimport json, os, sys\nhome = os.environ['CODEX_HOME']\n"
        "assert sys.argv[1:] == ['login'] and os.path.isdir(home) and 'OPENAI_API_KEY' not in os.environ\n"
        "print('who?')\nwho = input()\n"
        "if not who: sys.exit(3)\n"
        "tokens = {'account_id': who, 'id_token': 's3cret'}\n"
        "open(home + '/auth.json', 'w').write(json.dumps({'tokens': tokens}))\n"
    )
    fake.chmod(0o755)
    segue.env |= {"PATH": f"{tmp_path}:{segue.env['PATH']}", "OPENAI_API_KEY": "sk-0123456789abcdef"}
    for name in ("one", "two"):
        account(segue, "add", name, "--agent", "codex", "--home", str(tmp_path / f"codex-{name}"))
    ran = segue("account", "login", "one", "--json", stdin=b"ann\n")
    assert (ran.code, "who?" in ran.stderr) == (0, True)
    details = msgspec.json.decode(ran.stdout)
    assert (details["fingerprint"]["method"], details["problem"]) == ("login", None)
    assert details["login_command"] == f"CODEX_HOME={tmp_path}/codex-one codex login"
    assert "s3cret" not in ran.stdout + ran.stderr
    failed = segue("account", "login", "two", stdin=b"\n")
    assert (failed.code, "did not log in (exit code 3)" in failed.stderr) == (1, True)
    same = segue("account", "login", "two", stdin=b"ann\n")
    assert (same.code, "same login in two homes" in same.stderr) == (2, True)
    assert segue("account", "login", "two", stdin=b"bob\n").code == 0


def test_names_are_completed(segue: Program) -> None:
    segue.config(MINE)
    words = {"_SEGUE_COMPLETE": "bash_complete", "COMP_WORDS": "segue account show w", "COMP_CWORD": "3"}
    assert segue(more=words).stdout == "plain,work\n"
