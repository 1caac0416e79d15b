"""A review of five rounds with the real CLIs: each role continues its session, or begins anew in each round.

A role that begins anew reads the same 40 files (300 KB) first, as an agent does that knows nothing of the
project. Two things are counted: the bytes that are new to the model by the rules of its provider's cache, and
the tokens of all prompts, cached or not. The table is printed per round and role.

The first round is unavoidable, and later each request carries the whole session. So nothing can save more
than "at best": all but the first round, and what a session of its size costs in later requests. With
``--fork-coder`` the reviewer begins with what the coder has read, so that only one of them reads the project.
The provider's cache has it if both have the same tools, and that depends on their permission.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from tests import isolation
from tests.clis import CLIS, install
from tests.integration.test_review import CODER_DELTA, CODER_FULL, REVIEWER_DELTA, REVIEWER_FULL, reject
from tests.live.talk import Talk, talking

from bench.measure import Row

CODER, REVIEWER = "claude", "codex"
FORK = ("--fork-coder", "--reviewer-permission", "edit")
ROUNDS, FILES, SIZE, AT_ONCE = 5, 40, 7_500, 2
LEAST, GOAL = 0.65, 0.85
"""The share that continuing the sessions must save, and the share that it should."""


class Spent(NamedTuple):
    """What a role needed in a round."""

    new_bytes: int = 0
    tokens: int = 0

    def __add__(self, other: object) -> Spent:
        assert isinstance(other, Spent)
        return Spent(self.new_bytes + other.new_bytes, self.tokens + other.tokens)


Spending = dict[tuple[int, str], Spent]


def measure() -> list[Row]:
    obstacle = isolation.enter()
    if obstacle:
        raise RuntimeError(f"no isolation: {obstacle}")
    for agent in (CODER, REVIEWER):
        if reason := install(CLIS[agent], CLIS[agent].newest):
            raise RuntimeError(reason)
    print(f"\nreview: the fixed prompts of the CLIs: {_fixed()} bytes", file=sys.stderr)
    return [
        *_compared("two agents", "continued", _review("resume", REVIEWER), _review("fresh", REVIEWER)),
        *_compared("one agent", "--fork-coder", _review("resume", CODER, fork=True), _review("fresh", CODER)),
    ]


def _compared(who: str, how: str, resumed: Spending, anew: Spending) -> list[Row]:
    _show(who, resumed, anew)
    rows = []
    for at, what in enumerate(("new bytes", "tokens of all prompts")):
        ours, theirs, least = (sum(each[at] for each in spent) for spent in _sums(resumed, anew))
        saved = 1 - ours / theirs
        name = f"review of {ROUNDS} rounds, {who}: {what}, {how} against new sessions"
        wanted = f"≥ {LEAST:.0%}, better {GOAL:.0%}"
        told = f"{saved:.1%} less ({ours:,} / {theirs:,}; at best {1 - least / theirs:.1%})"
        rows.append(Row(name, told, wanted, saved >= LEAST))
    return rows


def _sums(resumed: Spending, anew: Spending) -> tuple[Iterable[Spent], ...]:
    """What was needed, what new sessions needed, and the least that continued ones need: the first round,
    and later no new bytes, but requests that carry what the session held after the first round."""
    first = [spent for (number, _), spent in resumed.items() if number == 1]
    carried = [Spent(0, resumed[2, role].tokens) for number, role in resumed if number > 1]
    return resumed.values(), anew.values(), [*first, *carried]


def _review(memory: str, reviewer: str, fork: bool = False) -> Spending:
    """A review in which each round is rejected."""
    versions = {agent: CLIS[agent].newest for agent in (CODER, reviewer)}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        scenario = place / "scenario.json"
        scenario.write_bytes(msgspec.json.encode({"rule": _rules(fork)}))
        (place / "TASK.md").write_text("Count the words\n\nIn all files.\n")
        with talking(place, versions, scenario) as talk:
            _files(talk.cwd)
            subprocess.run(["git", "init", "--quiet", str(talk.cwd)], check=True, env=talk.env)
            words = ["review", "../TASK.md", "--coder", CODER, "--reviewer", reviewer]
            words += ["--rounds", str(ROUNDS), "--memory", memory, *(FORK if fork else [])]
            said = talk(*words, "--json")
            report = msgspec.json.decode(said.stdout.splitlines()[-1])
            if report["end"] != "capped":
                raise RuntimeError(f"{memory}: {said.stdout[-2000:]} {said.stderr[-2000:]}")
            modes = {step["key"]: step["mode"] for step in report["steps"]}
            if (modes["reviewer/1"] == "branch") is not fork:
                raise RuntimeError(f"the reviewer began in the mode {modes['reviewer/1']}")
            return _spending(talk, report)


def _rules(fork: bool) -> list[dict[str, Any]]:
    """A reviewer that begins with a fork has what the coder has read."""
    pairs = [range(n, min(n + AT_ONCE, FILES)) for n in range(0, FILES, AT_ONCE)]
    reads = " ".join(f"[[together {len(p)}]] " + " ".join(f"[[read f{n:02}.txt]]" for n in p) for p in pairs)
    coded = [(CODER_FULL, f"{reads} ", n) for n in range(1, ROUNDS + 1)]
    made = [{"text": text, "nth": n, "do": f"{do}[[write words.txt full {n}]]"} for text, do, n in coded]
    made += [
        {"text": CODER_DELTA, "nth": n, "do": f"[[write words.txt delta {n}]]"} for n in range(1, ROUNDS)
    ]
    made.append({"text": REVIEWER_FULL, "do": reject("f1") if fork else f"{reads} {reject('f1')}"})
    made.append({"text": REVIEWER_DELTA, "do": reject("f1")})
    return made


def _files(cwd: Path) -> None:
    for n in range(FILES):
        line = f"file {n:02}, a line of text that is read again and again by whoever knows nothing\n"
        (cwd / f"f{n:02}.txt").write_text((line * (SIZE // len(line) + 1))[:SIZE])


def _spending(talk: Talk, report: dict[str, Any]) -> Spending:
    """By round and role. The bytes are those of the requests, in the order of the turns."""
    spent: Spending = {}
    shown = msgspec.json.decode(talk("flow", "show", report["flow"], "--json").stdout)
    for step in shown["steps"]:
        if step["kind"] == "turn":
            role, number = step["key"].split("/")[:2]
            tokens = sum(step["usage"][name] or 0 for name in ("input", "cache_read", "cache_write"))
            spent[int(number), role] = Spent(0, tokens)
    for at, size in _bytes_by_turn(talk):
        spent[at] += Spent(size, 0)
    return spent


def _bytes_by_turn(talk: Talk) -> list[tuple[tuple[int, str], int]]:
    """The new bytes of each request, with the round and role that it belongs to: coder and reviewer speak in
    turn, so a round begins whenever the coder speaks after the reviewer."""
    found, number, last = [], 1, "coder"
    for request in talk.model.requests:
        if request.side:
            continue
        reviews = any(words in request.last_user_text for words in (REVIEWER_FULL, REVIEWER_DELTA))
        role = "reviewer" if reviews else "coder"
        number += (last, role) == ("reviewer", "coder")
        last = role
        found.append(((number, role), request.new_bytes))
    return found


def _fixed() -> dict[str, int]:
    """The size of each CLI's own prompt: that of a turn that says next to nothing."""
    versions = {agent: CLIS[agent].newest for agent in (CODER, REVIEWER)}
    with tempfile.TemporaryDirectory() as folder, talking(Path(folder), versions) as talk:
        return {
            agent: talk.run("[[say x]]", "--agent", agent, key=agent).new_bytes for agent in (CODER, REVIEWER)
        }


def _show(who: str, resumed: Spending, anew: Spending) -> None:
    print(f"\nreview of {ROUNDS} rounds, {who}", file=sys.stderr)
    names = ("resume: new bytes", "tokens", "fresh: new bytes", "tokens")
    print(f"{'round':>5} {'role':>9} " + " ".join(f"{name:>18}" for name in names), file=sys.stderr)
    for number, role in resumed:
        cells = (*resumed[number, role], *anew.get((number, role), Spent()))
        line = " ".join(f"{count:>18,}" for count in cells)
        print(f"{number:>5} {role:>9} {line}", file=sys.stderr, flush=True)
