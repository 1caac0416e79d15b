"""What goes wrong around a turn: readers that leave, secrets in pieces, signals, agents that linger."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import anyio
import msgspec
import pytest

from segue.agents import probe, registry
from segue.agents.base import Answer
from segue.agents.claude.adapter import AGENT as CLAUDE
from segue.config.schema import Config
from segue.core import events as ev
from segue.core.outcome import Exit, Outcome
from segue.core.redact import Redactor
from segue.core.request import Command, Request, RunPlace
from segue.runner.attempt import Answerer, Cancel, Replies, Task, attempt
from segue.runner.launch import launch
from segue.runner.supervisor import Limits
from segue.turns import run_dir
from tests.integration.conftest import SEGUE, Program

SECRET = "very-secret-value-0123456789"


def declare(segue: Program, tmp_path: Path, script: str, rest: str = "") -> None:
    """An agent that is a shell script; it speaks JSON lines."""
    program = tmp_path / "agent.sh"
    program.write_text("#!/bin/sh\ncat >/dev/null\n" + script)
    program.chmod(0o755)
    segue.config(
        f'[agents.made]\ncommand = ["{program}", ["--model", "{{model}}"]]\n'
        'stdin = "prompt"\noutput = "jsonl"\n'
        'text = { path = "$.text", when = { type = "text" } }\n' + rest
    )


def test_an_agent_that_lingers_after_its_final_word_has_answered(segue: Program, tmp_path: Path) -> None:
    script = """echo '{"type":"text","text":"the answer"}'\necho '{"type":"done"}'\nsleep 30\n"""
    declare(segue, tmp_path, script, 'done = { type = "done" }\n')
    began = time.monotonic()
    ran = segue("run", "t1", "hi", "--agent", "made", "--timeout", "2", "--json")
    assert time.monotonic() - began < 20
    assert (ran.code, ran.turn["text"], ran.turn["failure"]) == (0, "the answer", None)


def test_a_secret_in_fragments_does_not_come_out(segue: Program, tmp_path: Path) -> None:
    half = len(SECRET) // 2
    lines = [
        f'{{"type":"piece","text":"{part}"}}' for part in ("it is ", SECRET[:half], SECRET[half:], ", yes")
    ]
    script = "".join(f"echo '{line}'\n" for line in lines)
    account = f'[accounts.made]\nagent = "made"\nenv = {{ MADE_TOKEN = "{SECRET}" }}\n'
    declare(segue, tmp_path, script, account)
    config = (segue.home / "config.toml").read_text()
    pieces = 'text = { path = "$.text", when = { type = "piece" }, delta = true }'
    segue.config(config.replace('text = { path = "$.text", when = { type = "text" } }', pieces))
    ran = segue("run", "t1", "hi", "--agent", "made", "--events")
    deltas = [
        event["text"]
        for event in map(msgspec.json.decode, ran.stdout.splitlines())
        if event.get("type") == "text-delta"
    ]
    assert "".join(deltas) == "it is [redacted], yes"
    assert not [part for part in deltas if part and part in SECRET and len(part) > 3]
    kept = [path for path in (segue.home / "runs").rglob("*") if path.is_file()]
    assert not [path for path in kept if SECRET[:half].encode() in path.read_bytes()]


def test_a_reader_that_leaves_ends_the_turn_without_a_complaint(segue: Program, tmp_path: Path) -> None:
    command = " ".join([*SEGUE, "run t1 '[[slow 20 40]][[huge 5000]]' --agent rehearsal --events"])
    began = time.monotonic()
    done = subprocess.run(
        ["sh", "-c", f"{command} | head -n 1"],
        cwd=segue.cwd,
        env={**segue.env, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert '"session"' in done.stdout
    assert "Traceback" not in done.stderr
    assert "internal error" not in done.stderr
    assert time.monotonic() - began < 15
    assert list(tmp_path.glob("segue-crash-*")) == []


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_a_closed_stream_does_not_keep_a_turn_from_running(segue: Program, closed: str) -> None:
    command = " ".join([*SEGUE, "run t1 'remember number 1' --agent rehearsal", closed])
    done = subprocess.run(
        ["sh", "-c", command], cwd=segue.cwd, env=segue.env, capture_output=True, check=False
    )
    assert done.returncode == 0
    assert b"Traceback" not in done.stderr


def test_a_hangup_ends_the_agent_too(segue: Program) -> None:
    process = segue.start("run", "t1", "[[hang]]", "--agent", "rehearsal", "--events")
    assert process.stdout is not None
    process.stdout.readline()
    (run,) = (segue.home / "runs").iterdir()
    group = msgspec.json.decode((run / "process.json").read_bytes())["pgid"]
    process.send_signal(signal.SIGHUP)
    process.communicate(timeout=20)
    assert process.returncode == 130
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)


def test_a_relative_home_belongs_to_where_segue_was_called(segue: Program, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    segue("run", "t1", "remember number 1", "--agent", "rehearsal", "--cwd", str(other), SEGUE_HOME="here")
    assert (segue.cwd / "here" / "runs").is_dir()
    assert list(other.iterdir()) == []


def test_what_is_not_a_number_is_no_time_limit(segue: Program) -> None:
    ran = segue("run", "t1", "hi", "--agent", "rehearsal", "--timeout", "nan")
    assert (ran.code, ran.stderr.count("\n")) == (2, 1)


RUN = ("run", "t1", "hi", "--agent", "rehearsal", "--json")


@pytest.mark.parametrize(
    "args",
    [
        (b"\xff", "--json"),
        (*RUN, b"\xff"),
        (*RUN, "--cwd", b"../\xff"),
        (*RUN, "--allow-tool", b"\xff"),
        (*RUN, "--system-prompt-file", b"\xff"),
        (*RUN, "--", b"\xff"),
        ("sessions", "show", b"\xff\xff\xff\xff", "--json"),
        ("sessions", "ls", "--json", "--agent", b"\xff"),
    ],
)
def test_an_argument_that_is_not_utf8_is_one_object_with_json(
    segue: Program, tmp_path: Path, args: tuple[str | bytes, ...]
) -> None:
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))).mkdir()
    segue.env["TMPDIR"] = str(tmp_path)  # where the details of a crash would be
    argv = [*SEGUE, *args]
    ran = subprocess.run(
        argv, cwd=segue.cwd, env=segue.env, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert (ran.returncode, ran.stdout.count(b"\n"), ran.stderr.count(b"\n")) == (2, 1, 1), ran.stderr
    assert set(msgspec.json.decode(ran.stdout)["error"]) == {"code", "message"}
    assert not list(tmp_path.glob("segue-crash-*"))


def test_an_estimated_cost_is_marked(segue: Program, tmp_path: Path) -> None:
    script = """echo '{"type":"text","text":"hi","in":1000000,"out":1000000,"model":"made-1"}'\n"""
    more = 'usage = { input = "$.in", output = "$.out" }\n[prices."made-*"]\ninput = 2.0\noutput = 8.0\n'
    declare(segue, tmp_path, script, more)
    turn = segue("run", "t1", "hi", "--agent", "made", "--model", "made-1", "--json").turn
    assert (turn["cost_usd"], turn["cost_estimated"]) == (10.0, True)
    turn = segue("run", "t1", "hi", "--agent", "made", "--model", "other", "--json").turn
    assert (turn["cost_usd"], turn["cost_estimated"]) == (None, False)


def test_an_agent_that_prints_without_end_is_stopped_in_time(segue: Program) -> None:
    segue.config('[agents.flood]\ncommand = ["yes", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"]\nstdin = "prompt"\n')
    began = time.monotonic()
    ran = segue("run", "t1", "hi", "--agent", "flood", "--timeout", "2", "--quiet")
    assert ran.code in (124, 1), (
        "its time is over, or it has printed more than anybody may: whatever is first"
    )
    assert time.monotonic() - began < 40


def test_a_flood_is_told_as_such(tmp_path: Path) -> None:
    command = Command(argv=("yes", "aaaaaaaaaaaaaaaa"), cwd=tmp_path)

    async def go() -> Exit:
        limits = Limits(time_s=60, output_bytes=1_000_000)
        async with launch(
            command, env={"PATH": os.defpath}, run_dir=tmp_path / f"run-{os.getpid()}", limits=limits
        ) as running:
            async for _ in running.lines():
                pass
        return running.exit

    assert anyio.run(go).ended_by == "flood"


@pytest.mark.parametrize("option", ["--agent", "--account", "--model", "--cwd", "--role", "--allow-tool"])
def test_an_option_without_a_value_is_not_taken_for_one_not_given(segue: Program, option: str) -> None:
    ran = segue("run", "t1", "hi", option, "")
    assert (ran.code, ran.stderr) == (2, f"segue: {option} was given without a value\n")


def test_what_an_untrusted_project_wanted_is_said(segue: Program) -> None:
    (segue.cwd / "segue.toml").write_text('[defaults]\npermission = "full"\n')
    ran = segue("run", "t1", "remember number 1", "--agent", "rehearsal")
    assert ran.code == 0
    assert "segue trust" in ran.stderr


def test_a_loop_can_keep_its_stdin(segue: Program) -> None:
    run = ("run", "t1", "remember number 1", "--agent", "rehearsal", "--no-stdin", "--json")
    assert segue(*run, stdin=b"more").turn["sent"]["bytes"] == len("remember number 1")


def test_segue_alone_shows_its_help(segue: Program) -> None:
    ran = segue()
    assert ran.code == 0
    assert "Commands:\n" in ran.stdout


def test_a_home_that_cannot_be_made_is_one_line(segue: Program) -> None:
    ran = segue("run", "t1", "hi", "--agent", "rehearsal", SEGUE_HOME="/proc/nothing")
    assert (ran.code, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert "/proc/nothing" in ran.stderr


def test_a_declared_command_that_gets_no_prompt_says_so(segue: Program) -> None:
    segue.config('[agents.typo]\ncommand = ["echo", "hello"]\n')
    ran = segue("run", "t1", "hi", "--agent", "typo")
    assert ran.code == 2
    assert "does not say how the prompt reaches its command" in ran.stderr


# --- what is kept ----------------------------------------------------------------------------------


def test_a_run_that_may_still_be_going_on_is_not_thrown_away(tmp_path: Path) -> None:
    for number in range(run_dir.RUNS_KEPT + 20):
        run = tmp_path / f"{number:05d}"
        run.mkdir()
        if number == 3:
            (run / "process.json").write_text("{}")
    last = tmp_path / f"{run_dir.RUNS_KEPT + 19:05d}"
    (last / "stdout").write_text("x")
    run_dir.archive(last, Redactor(()))
    left = {path.name for path in tmp_path.iterdir()}
    assert "00003" in left
    assert "00002" not in left
    assert len(left) == run_dir.RUNS_KEPT + 1


# --- the probe -------------------------------------------------------------------------------------


FORGETFUL = """#!/bin/sh
[ -e "$WORKS" ] || { echo "env: node: not found"; exit 127; }
echo "2.1.325 (Claude Code) --resume"
"""


def test_a_program_that_could_not_answer_is_asked_again(tmp_path: Path) -> None:
    program = tmp_path / "claude"
    program.write_text(FORGETFUL)
    program.chmod(0o755)
    works = tmp_path / "works"
    env = {"PATH": os.defpath, "WORKS": str(works)}
    cache = tmp_path / "probes.json"
    first = probe.probe(CLAUDE, env=env, configured=[str(program)], cache=cache)
    works.touch()
    second = probe.probe(CLAUDE, env=env, configured=[str(program)], cache=cache)
    assert (first.version, second.version, second.capabilities.resume) == (None, "2.1.325", True)


@pytest.mark.parametrize("first", ["true", "echo Usage: claude", "kill -9 $$", "exit 1"])
def test_a_cli_that_seems_unable_to_resume_is_asked_once_more(tmp_path: Path, first: str) -> None:
    program = tmp_path / "claude"
    program.write_text(
        '#!/bin/sh\ntest "$1" = --version && exec echo "2.1.325 (Claude Code)"\n'
        f'test -e "$0.asked" && exec echo "--resume"\ntouch "$0.asked"\n{first}\n'
    )
    program.chmod(0o755)
    env = {"PATH": os.defpath}
    assert probe.probe(CLAUDE, env=env, configured=[str(program)]).capabilities.resume


def test_half_an_answer_is_not_remembered(tmp_path: Path) -> None:
    """It would say for good that the CLI cannot resume."""
    program = tmp_path / "claude"
    program.write_text('#!/bin/sh\ntest "$1" = --version && exec echo "2.1.325 (Claude Code)"\nkill -9 $$\n')
    program.chmod(0o755)
    env, cache = {"PATH": os.defpath}, tmp_path / "probes.json"
    assert not probe.probe(CLAUDE, env=env, configured=[str(program)], cache=cache).capabilities.resume
    assert not cache.exists()


def test_many_probes_at_once_do_not_get_in_each_others_way(tmp_path: Path) -> None:
    cache, failures = tmp_path / "probes.json", []
    programs = []
    for number in range(8):
        program = tmp_path / f"claude{number}"
        program.write_text('#!/bin/sh\necho "2.1.325 (Claude Code)"\n')
        program.chmod(0o755)
        programs.append(str(program))

    def work(program: str) -> None:
        try:
            for _ in range(5):
                probe.probe(CLAUDE, env={"PATH": os.defpath}, configured=[program], cache=cache)
                cache.unlink(missing_ok=True)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(program,)) for program in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_probes_side_by_side_are_all_remembered(tmp_path: Path) -> None:
    cache, answers = tmp_path / "probes.json", tmp_path / "answers"
    answers.write_text("")
    programs = []
    for number in range(12):
        program = tmp_path / f"claude{number}"
        program.write_text(f'#!/bin/sh\necho . >> {answers}\necho "2.1.325 (Claude Code) --resume"\n')
        program.chmod(0o755)
        programs.append(str(program))

    def ask(program: str) -> None:
        probe.probe(CLAUDE, env={"PATH": os.defpath}, configured=[program], cache=cache)

    threads = [threading.Thread(target=ask, args=(program,)) for program in programs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    asked = answers.read_text()
    for known in programs:
        ask(known)
    assert answers.read_text() == asked


# --- questions -------------------------------------------------------------------------------------


def run_rehearsal(
    tmp_path: Path, prompt: str, limits: Limits, answer: Answerer | None, cancel: Cancel | None = None
) -> Outcome:
    agent = registry.get("rehearsal", Config())
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(tmp_path),
        "REHEARSAL_HOME": str(tmp_path / "home"),
    }
    task = Task(
        agent=agent,
        runtime=probe.probe(agent, env=env),
        request=Request(prompt=prompt, cwd=tmp_path),
        place=RunPlace(tmp_path / f"run-{os.getpid()}"),
        env=env,
        home=tmp_path / "home",
        limits=limits,
    )

    async def go() -> Outcome:
        return await attempt(task, answer=Replies(answer), cancel=cancel)

    return anyio.run(go)


async def never(event: ev.Question | ev.Permission) -> Answer:
    await anyio.sleep(60)
    return Answer(True)


def test_a_question_that_waits_does_not_hold_up_the_time_limit(tmp_path: Path) -> None:
    began = time.monotonic()
    outcome = run_rehearsal(tmp_path, "[[ask Which? | a | b]]", Limits(time_s=2), never)
    assert outcome.failure is not None
    assert outcome.failure.kind == "timeout"
    assert time.monotonic() - began < 15


def test_cancelling_works_from_another_thread(tmp_path: Path) -> None:
    cancel = Cancel()
    threading.Timer(1.0, cancel).start()
    began = time.monotonic()
    outcome = run_rehearsal(tmp_path, "[[hang]]", Limits(time_s=30), None, cancel)
    assert outcome.status == "cancelled"
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("prompt", ["[[malformed]]", "[[malformed start]]"])
def test_garbage_is_no_answer(segue: Program, prompt: str) -> None:
    ran = segue("run", "t1", prompt, "--agent", "rehearsal", "--json")
    assert (ran.code, ran.turn["failure"]["kind"]) == (75, "model_error")
