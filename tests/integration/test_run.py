"""``segue run`` from outside, on the rehearsal agent: what stands where, and the exit codes."""

from __future__ import annotations

import signal
import stat
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from segue import __version__
from tests.integration.conftest import Program

AGENT = ("--agent", "rehearsal")
HI = ("t1", "hi", *AGENT)


def test_stdout_is_the_answer_only(segue: Program) -> None:
    ran = segue("run", "t1", "remember number 456", *AGENT)
    assert (ran.code, ran.stdout) == (0, "Noted: 456.\n")
    assert "rehearsal · fresh" in ran.stderr


def test_json_prints_one_object_with_the_whole_turn(segue: Program) -> None:
    ran = segue("run", "t1", "remember number 456", *AGENT, "--json")
    turn = ran.turn
    assert ran.stdout.count("\n") == 1
    assert (turn["schema"], turn["conversation"], turn["mode"]) == (1, "t1", "fresh")
    assert (turn["text"], turn["status"], turn["failure"]) == ("Noted: 456.", "ok", None)
    assert set(turn["usage"]) == {"input", "cache_read", "cache_write", "output"}
    assert turn["sent"] == {"native_messages": 0, "text_messages": 1, "bytes": len("remember number 456")}
    assert [attempt["outcome"] for attempt in turn["attempts"]] == ["ok"]
    assert turn["agent_version"] == __version__, "the rehearsal agent comes with Segue"
    assert [rung["state"] for rung in turn["rungs"]] == ["barred"] * 2 + ["impossible"] * 3 + ["chosen"]
    assert {
        "run",
        "agent",
        "account",
        "model",
        "role",
        "resumed",
        "why",
        "session_id",
        "resumed_from",
        "cost_usd",
    } <= set(turn)


def test_events_come_as_lines_and_the_object_is_last(segue: Program) -> None:
    ran = segue("run", "t1", "[[shell ls]][[say hi]]", *AGENT, "--events")
    *events, turn = [msgspec.json.decode(line) for line in ran.stdout.splitlines()]
    kinds = [event["type"] for event in events]
    assert kinds[0] == "session"
    assert {"tool-call", "tool-result", "text", "end"} <= set(kinds)
    assert turn["text"] == "hi"


def test_quiet_says_nothing_but_the_answer(segue: Program) -> None:
    assert segue("run", "t1", "[[shell ls]][[say hi]]", *AGENT, "--quiet").stderr == ""


def test_tool_calls_are_one_plain_line_each_when_piped(segue: Program) -> None:
    ran = segue("run", "t1", "[[shell echo hello]][[say hi]]", *AGENT, "--permission", "full")
    assert "├ shell echo hello" in ran.stderr
    assert "\x1b" not in ran.stderr


def test_text_and_stdin_are_joined(segue: Program) -> None:
    assert segue("run", "t1", *AGENT, stdin=b"remember number 7").stdout == "Noted: 7.\n"
    ran = segue("run", "t1", "remember number 8", *AGENT, "--json", stdin=b"diff --git a b")
    assert ran.turn["sent"]["bytes"] == len("remember number 8\n\ndiff --git a b")


def test_a_prompt_of_ten_megabytes_arrives(segue: Program) -> None:
    segue.config('[agents.count]\ncommand = ["wc", "-c"]\noutput = "text"\nstdin = "prompt"\n')
    ran = segue("run", "t1", "--agent", "count", stdin=b"x" * 10_000_000)
    assert (ran.code, ran.stdout.strip()) == (0, "10000000")


def test_a_prompt_too_long_for_a_command_line_names_the_limit(segue: Program) -> None:
    segue.config('[agents.count]\ncommand = ["echo", "{prompt}"]\noutput = "text"\nstdin = "none"\n')
    ran = segue("run", "t1", "--agent", "count", stdin=b"x" * 200_000)
    assert ran.code == 2
    assert "131,071" in ran.stderr


@pytest.mark.parametrize(
    ("args", "stdin", "says"),
    [
        (["t1", "hi", "--agent", "claud"], None, "did you mean claude?"),
        (["fix the bug", "--agent", "rehearsal"], None, "did you forget the key?"),
        (["t1", "", "--agent", "rehearsal"], None, "the prompt is empty"),
        (["t1", "--agent", "rehearsal"], b"  \n ", "the prompt is empty"),
        (["t1", "--agent", "rehearsal"], b"caf\xe9", "not UTF-8: byte 0xe9 at offset 3"),
        (
            [*HI, "--cwd", "/no/such/place"],
            None,
            "/no/such/place does not exist",
        ),
        ([*HI, "--account", "work"], None, 'there is no account "work"'),
        ([*HI, "--budget", "1"], None, "does not support --budget"),
        ([*HI, "--timeout", "-3"], None, "--timeout"),
        (
            [*HI, "--system-prompt-file", "nowhere.md"],
            None,
            "nowhere.md: No such file or directory",
        ),
        ([*HI, "--", "--resume=x"], None, "--resume is set by Segue"),
        ([*HI, "--nonsense"], None, "--nonsense"),
        (["../../x", "hi", "--agent", "rehearsal"], None, "not a conversation key"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    segue: Program, args: list[str], stdin: bytes | None, says: str
) -> None:
    ran = segue("run", *args, stdin=stdin)
    assert (ran.code, ran.stdout) == (2, "")
    assert ran.stderr.startswith("segue: ")
    assert ran.stderr.count("\n") == 1
    assert says in ran.stderr


def test_bad_input_is_an_object_with_json(segue: Program) -> None:
    ran = segue("run", "t1", "hi", "--agent", "claud", "--json")
    assert ran.code == 2
    assert ran.turn["error"]["code"] == "misuse"


def test_an_agent_that_is_not_installed_names_the_command_that_installs_it(segue: Program) -> None:
    ran = segue("run", "t1", "hi", "--agent", "codex", PATH="/nowhere")
    assert ran.code == 2
    assert "npm install -g @openai/codex" in ran.stderr


def test_an_account_of_another_agent_is_refused(segue: Program) -> None:
    segue.config('[accounts.work]\nagent = "claude"\n')
    ran = segue("run", "t1", "hi", *AGENT, "--account", "work")
    assert ran.code == 2
    assert 'the account "work" belongs to claude, not to rehearsal' in ran.stderr


def test_a_wrong_key_in_the_configuration_is_named_with_its_line(segue: Program) -> None:
    segue.config('[continuity]\nenabled = true\ngrft = "off"\n')
    ran = segue("run", "t1", "hi", *AGENT)
    assert ran.code == 2
    assert "config.toml:3" in ran.stderr
    assert "grft" in ran.stderr


@pytest.mark.parametrize(
    ("prompt", "kind", "code"),
    [
        ("[[error 401]]", "auth", 1),
        ("[[error 429 retry-after 60]]", "rate_limited", 75),
        ("[[error 500]]", "model_error", 75),
        ("[[context-full]]", "context_exceeded", 1),
        ("[[decline]]", "refused", 1),
        ("[[say I was going to]][[decline]]", "refused", 1),
        ("[[decline prompt]]", "refused", 1),
        ("[[empty]]", "model_error", 75),
    ],
)
def test_a_failed_turn_has_its_kind_and_its_exit_code(
    segue: Program, prompt: str, kind: str, code: int
) -> None:
    ran = segue("run", "t1", prompt, *AGENT, "--json")
    assert (ran.code, ran.turn["failure"]["kind"]) == (code, kind)
    assert ran.turn["failure"]["message"]
    assert ran.turn["text"] == ""
    assert ran.stderr.count("segue: ") == 1


def test_a_time_limit_is_exit_124(segue: Program) -> None:
    began = time.monotonic()
    ran = segue("run", "t1", "[[hang]]", *AGENT, "--timeout", "1", "--json")
    assert (ran.code, ran.turn["failure"]["kind"]) == (124, "timeout")
    assert time.monotonic() - began < 20


def wait_until_it_speaks(process: subprocess.Popen[bytes]) -> None:
    """Until the first event came out, so that the signal meets a running turn."""
    assert process.stdout is not None
    assert b'"session"' in process.stdout.readline()


def test_ctrl_c_cancels_cleanly(segue: Program) -> None:
    process = segue.start("run", "t1", "[[hang]]", *AGENT, "--events")
    wait_until_it_speaks(process)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=20)
    assert process.returncode == 130
    assert msgspec.json.decode(stdout.splitlines()[-1])["status"] == "cancelled"
    assert "Cancelling… (press Ctrl-C again to kill it)" in stderr.decode()
    assert b"Traceback" not in stderr


DEAF = """#!/bin/sh
trap '' TERM INT
[ "$1" = --version ] && [ -z "$HANG" ] && exit 0
echo running > {mark}
while :; do sleep 0.1; done
"""


def declare_deaf(segue: Program, tmp_path: Path) -> Path:
    """An agent that listens to no signal; the file it makes says that it runs."""
    deaf, mark = tmp_path / "deaf.sh", tmp_path / "running"
    deaf.write_text(DEAF.format(mark=mark))
    deaf.chmod(0o755)
    asked = 'version_args = ["--version"]\n'
    segue.config(f'[agents.deaf]\ncommand = ["{deaf}"]\noutput = "text"\nstdin = "prompt"\n{asked}')
    return mark


def wait_for(path: Path) -> None:
    for _ in range(1200):
        if path.exists():
            return
        time.sleep(0.05)
    raise AssertionError(f"{path.name} did not come")


def still_running(word: str) -> list[str]:
    listing = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
    return [line for line in listing.splitlines() if word in line and "pytest" not in line.split()[1:2]]


def test_ctrl_c_twice_kills_an_agent_that_does_not_listen(segue: Program, tmp_path: Path) -> None:
    mark = declare_deaf(segue, tmp_path)
    process = segue.start("run", "t1", "hi", "--agent", "deaf", "--json")
    wait_for(mark)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert msgspec.json.decode(stdout.splitlines()[-1])["status"] == "cancelled"
    assert time.monotonic() - began < 4, "the second one does not wait for the grace to pass"
    assert still_running(str(tmp_path / "deaf.sh")) == []


def test_ctrl_c_while_the_program_is_looked_at_leaves_nothing_running(segue: Program, tmp_path: Path) -> None:
    mark = declare_deaf(segue, tmp_path)
    process = segue.start("run", "t1", "hi", "--agent", "deaf", HANG="1")
    wait_for(mark)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130
    assert still_running(str(tmp_path / "deaf.sh")) == []


def test_the_agent_sees_the_callers_environment_without_keys_and_marks(segue: Program) -> None:
    names = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "SEGUE_HOME", "CLAUDECODE", "MY_TOOL_SETTING")
    prompt = "[[shell env]][[result]]"
    given = {name: f"value-of-{name.lower()}" for name in names if name != "SEGUE_HOME"}
    ran = segue("run", "t1", prompt, *AGENT, "--permission", "full", more=given)
    seen = {line.partition("=")[0] for line in ran.stdout.splitlines()}
    assert "MY_TOOL_SETTING" in seen
    assert not seen & {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "SEGUE_HOME", "CLAUDECODE"}


def test_an_account_adds_variables_and_passes_keys_and_no_secret_comes_out(segue: Program) -> None:
    secret = "very-secret-value-0123456789"
    segue.config(
        '[accounts.work]\nagent = "rehearsal"\nenv = { EXTRA = "from-the-account" }\n'
        'pass_env = ["OPENAI_API_KEY"]\n'
    )
    prompt = '[[shell sh -c "env; echo leaked $OPENAI_API_KEY"]][[result]]'
    ran = segue(
        "run",
        "t1",
        prompt,
        *AGENT,
        "--account",
        "work",
        "--permission",
        "full",
        "--events",
        OPENAI_API_KEY=secret,
    )
    assert "from-the-account" in ran.stdout
    assert "leaked [redacted]" in ran.stdout
    assert secret not in ran.stdout + ran.stderr
    kept = [path for path in segue.home.rglob("*") if path.is_file()]
    runs = [path for path in kept if "runs" in path.parts]
    assert runs
    assert not [path for path in runs if secret.encode() in path.read_bytes()]


def test_what_segue_keeps_is_private(segue: Program) -> None:
    segue("run", "t1", "remember number 1", *AGENT)
    (run,) = (segue.home / "runs").iterdir()
    for path in (segue.home / "runs", run, *run.iterdir()):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_native_arguments_reach_the_cli(segue: Program, tmp_path: Path) -> None:
    echo = tmp_path / "echo.sh"
    echo.write_text('#!/bin/sh\ncat >/dev/null\nprintf "%s|" "$@"\n')
    echo.chmod(0o755)
    segue.config(
        f'[agents.echo]\ncommand = ["{echo}", ["--model", "{{model}}"]]\noutput = "text"\nstdin = "prompt"\n'
    )
    ran = segue("run", "t1", "hi", "--agent", "echo", "--", "--fancy", "a b")
    assert ran.stdout.strip() == "--fancy|a b|"


def test_a_project_that_is_not_trusted_cannot_bring_a_command(segue: Program) -> None:
    (segue.cwd / "segue.toml").write_text(
        '[agents.evil]\ncommand = ["touch", "owned-{model}"]\noutput = "text"\n'
    )
    ran = segue("run", "t1", "hi", "--agent", "evil")
    assert ran.code == 2
    assert not list(segue.cwd.glob("owned*"))
    assert segue("trust").code == 0
    assert "evil" in segue("agents", "--json").stdout


def test_the_probe_is_remembered(segue: Program, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho probed >> {tmp_path}/probes\necho "2.1.325 (Claude) --resume"\n')
    program.chmod(0o755)
    for _ in range(3):
        segue("agents", "--json", PATH=f"{program.parent}:{segue.env['PATH']}")
    first = (tmp_path / "probes").read_text().count("probed")
    assert first == 2, "--version and --help, once"
    program.write_text(program.read_text() + "# updated\n")
    segue("agents", "--json", PATH=f"{program.parent}:{segue.env['PATH']}")
    assert (tmp_path / "probes").read_text().count("probed") == 2 * first
