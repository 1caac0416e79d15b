"""The real Claude, killed in mid-turn and called eight times at once: nothing is lost or done twice."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.system.processes import MARK, groups
from tests import clis
from tests.live.conftest import OBSTACLE
from tests.live.talk import Talk, talking

CLAUDE = clis.CLIS["claude"]
ROUNDS, SOAK_ROUNDS = 5, 50
PATIENCE_S = 120.0


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    if OBSTACLE:
        pytest.skip(f"no isolation: {OBSTACLE}")
    reason = clis.install(CLAUDE, CLAUDE.newest)
    if reason:
        pytest.skip(f"claude {CLAUDE.newest}: {reason}")
    with talking(tmp_path, {"claude": CLAUDE.newest}) as made:
        made.env["SEGUE_DEFAULTS_AGENT"] = "claude"
        made.env["SEGUE_DEFAULTS_PERMISSION"] = "full"
        yield made
        for pid in agents(made):
            kill(pid)


def until(holds: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, f"it never came to be: {what}"
        time.sleep(0.005)


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def agents(talk: Talk) -> list[int]:
    """Living processes of an attempt of this talk: Claude, and what it has started."""
    home, found = f"={talk.home('claude')}".encode(), []
    for pid in groups():
        with contextlib.suppress(OSError):
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            if any(each.startswith(f"{MARK}=".encode()) for each in variables) and any(
                each.endswith(home) for each in variables
            ):
                found.append(pid)
    return found


def leader(talk: Talk) -> int | None:
    """Claude itself, as it was noted."""
    notes = sorted((talk.place / "segue" / "runs").glob("*/process.json"))
    pid = int(msgspec.json.decode(notes[-1].read_bytes())["pid"]) if notes else None
    return pid if pid in agents(talk) else None


def effects(talk: Talk) -> list[str]:
    file = talk.cwd / "effects"
    return file.read_text().split() if file.exists() else []


def prompt(n: int) -> str:
    return f"remember number {n} [[shell echo {n} >> effects; sleep 0.2]] [[slow 0.6 6]] [[say answer-{n}]]"


Blow = Callable[[Talk, "subprocess.Popen[bytes]"], None]


def segue_alone(talk: Talk, started: subprocess.Popen[bytes]) -> None:
    started.kill()


def claude_alone(talk: Talk, started: subprocess.Popen[bytes]) -> None:
    until(lambda: leader(talk) or started.poll() is not None, "Claude runs, or did")
    if (pid := leader(talk)) is not None:
        kill(pid)


def both(talk: Talk, started: subprocess.Popen[bytes]) -> None:
    pid = leader(talk)
    started.kill()
    if pid is not None:
        kill(pid)


def everybody(talk: Talk, started: subprocess.Popen[bytes]) -> None:
    started.kill()
    for pid in agents(talk):
        kill(pid)


BLOWS: tuple[Blow, ...] = (segue_alone, claude_alone, both, everybody)


def strike(talk: Talk, blow: Blow, n: int, moment: str, dice: random.Random) -> None:
    started = talk.start("run", "t", prompt(n), "--json")
    moments: dict[str, Callable[[], Any]] = {
        "soon": lambda: True,
        "started": lambda: leader(talk),
        "asked": lambda: any(f"number {n} " in request.last_user_text for request in talk.model.requests),
        "its tool runs": lambda: str(n) in effects(talk),
    }
    until(lambda: moments[moment]() or started.poll() is not None, moment)
    time.sleep(dice.choice((0, 0.05, dice.random() * 0.8)))
    blow(talk, started)
    started.communicate(timeout=PATIENCE_S)


def test_killed_at_random_moments(talk: Talk, seed: int, soak: bool) -> None:
    print(f"SEGUE_TEST_SEED={seed}")
    dice = random.Random(seed)
    talk.run(prompt(100))
    said = [100]
    blows, moments = list(BLOWS), ["soon", "started", "asked", "its tool runs"]
    dice.shuffle(blows)
    for n in range(101, 101 + (SOAK_ROUNDS if soak else ROUNDS)):
        blow, moment = blows[n % len(blows)], dice.choice(moments)
        strike(talk, blow, n, moment, dice)
        next_turn_goes_on(talk, [*said, n], blow, f"{blow.__name__} at {moment!r} of {n}")
        said = [n for n in (*said, n) if prompt(n) in [row["text"] for row in stood(talk)]]


def stood(talk: Talk) -> list[dict[str, Any]]:
    """The log without what was withdrawn."""
    return [row for row in talk.log() if row["state"] != "withdrawn"]


def next_turn_goes_on(talk: Talk, said: list[int], blow: Blow, what: str) -> None:
    foretold = talk.why("what numbers?")
    turn, struck = talk.run("what numbers?"), said[-1]
    assert blow is not everybody or turn.mode == foretold["mode"], what
    log = stood(talk)
    mine = [row["text"] for row in log if row["from"] == "user" and row["text"] != "what numbers?"]
    if prompt(struck) not in mine:  # before its turn began
        assert str(struck) not in effects(talk), what
        said = said[:-1]
    assert mine == [prompt(n) for n in said], what
    assert turn.text == ", ".join(map(str, said)), (what, turn.mode, turn.failed())
    assert [turn.sent.count(f"remember number {n} ") for n in said] == [1] * len(said), what
    done, answers = effects(talk), [row["text"] for row in log if row["from"] == "assistant"]
    assert len(done) == len(set(done)), what
    assert all(answers.count(f"answer-{n}") <= 1 for n in said), what
    if blow is segue_alone and str(struck) in done:
        assert f"answer-{struck}" in answers, f"Claude went on, and its answer is lost: {what}"
    assert agents(talk) == [], what


def test_an_orphan_is_read_to_its_end(talk: Talk) -> None:
    gate = "echo one >> effects; while [ ! -e gate ]; do sleep 0.1; done"
    first = talk.start("run", "t", f"remember number 7 [[shell {gate}]] [[say answer-7]]", "--json")
    until(lambda: effects(talk), "its tool runs")
    pid = leader(talk)
    first.kill()
    first.communicate()
    foretold = talk.why("what numbers?")
    assert (foretold["recovery"], foretold["mode"]) == ("adopt", "resume")
    second = talk.start("run", "t", "what numbers?", "--json")
    assert second.stderr is not None
    notice = second.stderr.readline().decode()
    assert "an earlier turn of Claude still runs; following it to its end" in notice
    assert leader(talk) == pid
    (talk.cwd / "gate").touch()
    stdout, stderr = second.communicate(timeout=PATIENCE_S)
    assert second.returncode == 0, stderr
    turn = msgspec.json.decode(stdout.splitlines()[-1])
    assert (turn["mode"], turn["text"]) == ("resume", "7")
    assert [row["text"] for row in talk.log()][1:] == ["answer-7", "what numbers?", "7"]
    assert effects(talk) == ["one"]


def test_eight_at_once_are_eight_turns(talk: Talk) -> None:
    numbers = range(101, 109)
    started = [talk.start("run", "t", f"remember number {n}", "--json") for n in numbers]
    ended = [each.communicate(timeout=2 * PATIENCE_S) for each in started]
    assert [each.returncode for each in started] == [0] * 8, [stderr for _, stderr in ended]
    log = talk.log()
    assert [row["from"] for row in log] == ["user", "assistant"] * 8
    for question, answer in zip(log[::2], log[1::2], strict=True):
        assert answer["text"] == f"Noted: {question['text'].split()[-1]}."
    ninth = talk.run("what numbers?")
    order = [row["text"].split()[-1] for row in log[::2]]
    assert sorted(order) == [str(n) for n in numbers]
    assert (ninth.mode, ninth.text) == ("resume", ", ".join(order))
    assert [ninth.sent.count(f"remember number {n}") for n in order] == [1] * 8
