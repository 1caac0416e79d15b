"""``segue flow`` without a daemon: flows of one's own are continued in the directory of their code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from tests.chaos.scenes import GATE, until
from tests.integration.conftest import Program
from tests.integration.terminals import Terminal

CODE = f"""
import asyncio
from segue import Flow, Segue, flow

@flow(version=1)
async def mine(flow: Flow, name: str) -> str:
    said = "[[shell echo x >> effects; {GATE}]] [[say hello]]"
    turn = await flow.turn("work", flow.key("coder"), said, role="coder")
    answer = await flow.ask("keep", "Keep it?", choices=("yes", "no"))
    return f"{{turn.text}} {{name}}: {{answer}}"

async def main() -> None:
    async with Segue() as segue:
        await segue.flows.run(mine, {{"name": "you"}}, key="k")

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.fixture
def program(segue: Program) -> Program:
    segue.env |= {
        "REHEARSAL_HOME": str(segue.home.parent / "rehearsal"),
        "SEGUE_DEFAULTS_AGENT": "rehearsal",
        "SEGUE_DEFAULTS_PERMISSION": "full",
    }
    (segue.cwd / "mine.py").write_text(CODE)
    return segue


def begin(program: Program) -> subprocess.Popen[bytes]:
    """Run the program until its turn works."""
    started = subprocess.Popen(
        [sys.executable, "mine.py"], cwd=program.cwd, env=program.env, start_new_session=True
    )
    until(lambda: (program.cwd / "effects").exists(), "the turn works")
    return started


def shown(program: Program) -> Any:
    done = program("flow", "show", "k", "--json")
    assert done.code == 0, done.stderr
    return msgspec.json.decode(done.stdout)


def effects(program: Program) -> int:
    return len((program.cwd / "effects").read_text().splitlines())


def test_a_flow_of_ones_own_is_resumed_in_the_directory_of_its_code(program: Program) -> None:
    started = begin(program)
    started.kill()
    started.wait()
    (program.cwd / "gate").touch()
    now = shown(program)
    assert (now["state"], now["held"], now["built_in"]) == ("running", False, False)
    assert "interrupted" in program("flow", "ls").stdout
    elsewhere = Program(program.home, program.home, program.env)("flow", "resume", "k")
    assert elsewhere.code == 2
    assert f"the code of this flow is {program.cwd / 'mine.py'}" in elsewhere.stderr
    done = program("flow", "resume", "k", "--json")
    told = msgspec.json.decode(done.stdout)
    assert (done.code, told["state"], told["needs"], told["end"]) == (1, "needs_you", "question", None)
    assert (told["kind"], told["next"]) == ("mine", f"segue answer {told['flow']} ANSWER")
    (step, _) = told["steps"]
    assert (step["key"], step["role"], step["agent"], step["mode"]) == ("work", "coder", "rehearsal", "fresh")
    assert step["result"] == {"status": "ok", "failure": None, "text": "hello"}
    assert effects(program) == 1, "the agent went on"
    assert program("flow", "ls").stdout.count("needs you (question)") == 1
    answered = program("answer", told["flow"][-8:], "yes")
    assert (answered.code, answered.stderr) == (
        0,
        f"segue: the flow goes on with: segue flow resume {told['flow']}\n",
    )
    second = program("answer", told["flow"], "no", "--question", "keep")
    assert second.code == 1
    assert "has been answered" in second.stderr
    done = program("flow", "resume", "k", "--json")
    told = msgspec.json.decode(done.stdout)
    assert (done.code, told["end"], told["result"]) == (0, "done", "hello you: yes")
    assert list(told)[:6] == ["flow", "kind", "end", "rounds", "cost_usd", "steps"]


def test_code_of_another_version_is_refused_until_a_step_is_chosen(program: Program) -> None:
    started = begin(program)
    started.kill()
    started.wait()
    (program.cwd / "gate").touch()
    file = program.cwd / "mine.py"
    file.write_text(file.read_text().replace("version=1", "version=2").replace("Keep it?", "Keep all?"))
    done = program("flow", "resume", "k")
    assert done.code == 2
    assert "has version 2 of the flow mine, and it began with 1" in done.stderr
    assert f"segue flow resume {shown(program)['flow']} --from STEP" in done.stderr
    done = program("flow", "resume", "k", "--from", "nothing")
    assert (done.code, "has no step 'nothing'; recorded: work" in done.stderr) == (2, True)
    done = program("flow", "resume", "k", "--from", "work")
    assert done.code == 1, done.stderr
    assert "Keep all? (yes / no)" in done.stderr
    now = shown(program)
    assert (now["version"], now["steps"][0]["tries"]) == (2, 2)


def test_ctrl_c_pauses_and_resume_goes_on(program: Program) -> None:
    started = begin(program)
    started.kill()
    started.wait()
    resumed = program.start("flow", "resume", "k")
    until(lambda: shown(program)["held"], "it runs again")
    os.kill(resumed.pid, signal.SIGINT)
    _, err = resumed.communicate(timeout=60)
    assert resumed.returncode == 130, err
    now = shown(program)
    assert (now["state"], now["held"], now["next"]) == ("paused", False, f"segue flow resume {now['flow']}")
    assert now["steps"][0]["state"] == "running"
    (program.cwd / "gate").touch()
    done = program("flow", "resume", "k")
    assert (done.code, "needs you (question)" in done.stderr) == (1, True)
    assert program("flow", "cancel", "k").stderr.endswith("is cancelled\n")
    assert program("flow", "resume", "k").code == 1
    assert program("flow", "ls").stdout == ""
    assert "cancelled" in program("flow", "ls", "--all").stdout


def test_the_agent_of_a_flow_that_nobody_runs_is_ended_when_it_is_cancelled(program: Program) -> None:
    started = begin(program)
    started.kill()
    started.wait()
    assert program("flow", "cancel", "k").code == 0
    now = shown(program)
    assert (now["state"], now["end"]) == ("cancelled", "cancelled")
    runs = msgspec.json.decode(program("log", now["steps"][0]["conversation"], "--json").stdout)
    assert runs[0]["status"] == "cancelled"


def test_a_flow_that_runs_is_told_to_be_ended_now(program: Program) -> None:
    started = begin(program)
    os.kill(started.pid, signal.SIGSTOP)  # so that it has not ended when the command asks
    stopped = program("flow", "cancel", "k")
    os.kill(started.pid, signal.SIGCONT)
    started.wait(60)
    assert stopped.stderr.endswith("is being cancelled; what runs is ended now\n")
    assert shown(program)["state"] == "cancelled"


def test_a_flow_that_has_named_its_end_is_continued_by_trying_a_step_again(program: Program) -> None:
    """To resume it would only come to the same end, with the same runs."""
    file = program.cwd / "mine.py"
    text = file.read_text().replace('return f"{turn.text}', 'return flow.end("no", f"{turn.text}')
    file.write_text(text.replace(': {answer}"', ': {answer}", failed=answer == "no")'))
    (program.cwd / "gate").touch()
    begin(program).wait(60)
    program("answer", "k", "no")
    done = program("flow", "resume", "k", "--json")
    told = msgspec.json.decode(done.stdout)
    assert (done.code, told["state"], told["end"]) == (1, "failed", "no")
    assert told["next"] == f"segue flow retry-step {told['flow']} keep"
    again = program(*told["next"].split()[1:], "--json")
    now = msgspec.json.decode(again.stdout)
    assert (now["state"], now["needs"]) == ("needs_you", "question"), "it can end in another way now"
    program("answer", "k", "yes")
    assert msgspec.json.decode(program("flow", "resume", "k", "--json").stdout)["state"] == "done"


def test_what_a_flow_keeps_can_be_read(program: Program) -> None:
    file, said = program.cwd / "mine.py", 'Where it stands: {"tier": 1}\n'
    kept = f"    await flow.artefact('notes.txt', {said!r})\n    answer = await"
    file.write_text(file.read_text().replace("    answer = await", kept))
    (program.cwd / "gate").touch()
    begin(program).wait(60)
    assert "  notes.txt: 29 B" in program("flow", "show", "k").stdout
    assert program("flow", "show", "k", "--artefact", "notes.txt").stdout == said
    wrong = program("flow", "show", "k", "--artefact", "other.txt")
    assert (wrong.code, wrong.stdout) == (2, "")
    assert "keeps nothing named 'other.txt'; it keeps: notes.txt" in wrong.stderr


def test_it_is_watched_in_a_terminal(program: Program) -> None:
    started = begin(program)
    with Terminal(program, "flow", "watch", "k") as terminal:
        terminal.until("work · coder (rehearsal)")
        (program.cwd / "gate").touch()
        terminal.until("Keep it? (yes / no)")
        while terminal.read():
            pass
        assert terminal.process.wait(timeout=60) == 1
    assert started.wait(60) == 0


def test_what_is_sent_and_used_is_seen_while_a_turn_works(program: Program) -> None:
    started = begin(program)
    until(lambda: shown(program)["steps"][0]["usage"]["input"], "the model's first answer is counted")
    now = shown(program)
    (step,) = now["steps"]
    said = f"[[shell echo x >> effects; {GATE}]] [[say hello]]"
    sent = step["sent_bytes"]
    assert (step["state"], sent >= len(said)) == ("running", True)
    assert now["usage"] == step["usage"]
    line = program("flow", "show", "k").stdout.splitlines()[1]
    assert all(words in line for words in (f"sent {sent} B", " tokens · ")), line
    (program.cwd / "gate").touch()
    started.wait(60)
    (step, _) = shown(program)["steps"]
    assert (step["state"], step["sent_bytes"]) == ("done", sent)
    assert step["usage"]["input"] > now["usage"]["input"], "the second request is added"


def test_what_is_not_there_is_said(program: Program) -> None:
    for command in ("show", "pause", "cancel", "resume", "watch"):
        done = program("flow", command, "nothing")
        assert (done.code, "there is no flow 'nothing'" in done.stderr) == (2, True), command
    assert program("flow", "ls").stderr == "No unfinished flows. --all lists the others, too.\n"
    assert program("flow", "ls", "--json").stdout == "[]\n"
