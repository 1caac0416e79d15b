"""``segue escalate``, ``segue init escalate`` and ``segue chain``, from outside."""

from __future__ import annotations

import signal
from typing import Any

import msgspec
import pytest

from tests.chaos.scenes import GATE, until
from tests.integration.conftest import Program

UP = '```json\n{"escalate": true, "reason": "the disk is full", "failed_checks": ["web"]}\n```'
DONE = '```json\n{"escalate": false, "reason": "it works again"}\n```'


@pytest.fixture
def program(segue: Program) -> Program:
    segue.env |= {"REHEARSAL_HOME": str(segue.home / "agent"), "SEGUE_DEFAULTS_AGENT": "rehearsal"}
    return segue


def write(program: Program, *tiers: str) -> None:
    text = ""
    for n, said in enumerate(tiers, 1):
        (program.cwd / f"{n}.md").write_text(said)
        text += f'[[tier]]\nname = "t{n}"\nagent = "rehearsal"\nprompt = "{n}.md"\nfull = "{n}.md"\n'
        text += 'permission = "full"\n'
    (program.cwd / "FLOW.toml").write_text(text)
    program.trust()


def report(text: str) -> Any:
    return msgspec.json.decode(text)


def test_the_report_and_the_chain(program: Program) -> None:
    write(program, f"[[say {UP}]]", f"[[say {DONE}]]")
    done = program("escalate", "FLOW.toml", "--json", "--label", "cycle 42")
    assert done.code == 0, done.stderr
    told = report(done.stdout)
    assert (told["kind"], told["end"], told["rounds"]) == ("escalate", "done", 2)
    turns = [each for each in told["steps"] if each["tier"] is not None]
    assert [(e["key"], e["role"], e["tier"], e["agent"], e["mode"]) for e in turns] == [
        ("tier-1", "escalation", 1, "rehearsal", "fresh"),
        ("tier-2", "escalation", 2, "rehearsal", "resume"),
    ]
    assert told["cost_usd"] == pytest.approx(sum(each["cost_usd"] for each in turns), abs=1e-9)
    runs = [each["run"] for each in turns]
    (session,) = [each.stem for each in (program.home / "agent" / "sessions").glob("*.jsonl")]
    for name in (told["flow"], f"flow/{told['flow']}/chain", *runs, session):
        chain = report(program("chain", name, "--json").stdout)
        assert [(e["run"], e["parent"], e["kind"], e["tier"]) for e in chain["turns"]] == [
            (runs[0], None, None, 1),
            (runs[1], runs[0], "resume", 2),
        ]
        assert chain["cost_usd"] == pytest.approx(told["cost_usd"], abs=1e-9)
    shown = program("chain", told["flow"])
    assert shown.stdout.splitlines()[-1].startswith("total: 2 turns, ")
    assert "tier 2  rehearsal" in shown.stdout
    missing = program("chain", "nothing")
    assert (missing.code, missing.stderr) == (
        2,
        "segue: there is no run, session, conversation or flow 'nothing'\n",
    )


def test_a_file_that_cannot_be_used_is_refused_at_once(program: Program) -> None:
    missing = program("escalate", "none.toml")
    assert missing.code == 2
    assert "segue init escalate writes an example" in missing.stderr
    (program.cwd / "FLOW.toml").write_text("[[tier]]\n")
    assert "FLOW.toml: [[tier]] 1: needs name" in program("escalate", "FLOW.toml").stderr
    assert report(program("flow", "ls", "--all", "--json").stdout) == []


def test_a_killed_escalation_goes_on_where_it_was(program: Program) -> None:
    write(
        program,
        f"[[shell echo one >> done]] [[say {UP}]]",
        f"[[shell echo two >> done; {GATE}]] [[say {DONE}]]",
    )
    started = program.start("escalate", "FLOW.toml", "--key", "k", "--quiet")
    effects = program.cwd / "done"
    until(lambda: effects.exists() and "two" in effects.read_text(), "the second tier works")
    started.send_signal(signal.SIGKILL)
    started.communicate()
    (program.cwd / "gate").touch()
    done = program("flow", "resume", "k", "--json", "--quiet")
    assert (done.code, report(done.stdout)["end"]) == (0, "done"), done.stderr
    assert effects.read_text() == "one\ntwo\n"


def test_the_example_can_be_run(program: Program) -> None:
    made = program("init", "escalate", "watch", "--agent", "rehearsal")
    assert made.code == 0, made.stderr
    assert "watch/FLOW.toml" in made.stdout
    again = program("init", "escalate", "watch", "--agent", "rehearsal")
    assert (again.code, "exists; nothing was written" in again.stderr) == (2, True)
    scenario = program.cwd / "scenario.toml"
    rules = {"tier 1": UP, "tier 2": UP, "tier 3": DONE}
    scenario.write_text(
        "".join(
            f"[[rule]]\ntext = 'You are {'' if n == 'tier 1' else 'now '}{n}'\ndo = '''[[say {answer}]]'''\n"
            for n, answer in rules.items()
        )
    )
    env = {"REHEARSAL_SCENARIO": str(scenario)}
    done = program("escalate", "watch/FLOW.toml", "--json", more=env)
    assert done.code == 0, done.stderr
    told = report(done.stdout)
    assert (told["end"], told["rounds"]) == ("done", 3)
    dry = program("escalate", "watch/FLOW.toml", "--json", "--dry-run", "--max-tier", "2", more=env)
    assert (report(dry.stdout)["end"], report(dry.stdout)["rounds"]) == ("capped", 2)


@pytest.mark.parametrize(
    ("says", "end", "reason", "code"),
    [
        (DONE, "done", "it works again", 0),
        (UP, "capped", "the disk is full", 1),
        ("hm", "failed", "the answer has no JSON block", 1),
    ],
)
def test_it_says_how_it_ended_and_why(program: Program, says: str, end: str, reason: str, code: int) -> None:
    write(program, f"[[say {says}]]")
    done = program("escalate", "FLOW.toml", "--key", "k")
    assert (done.code, done.stdout) == (code, f"{end}: {reason}\n"), done.stderr
    again = program("flow", "watch", "k")
    assert (again.code, again.stdout) == (code, done.stdout), again.stderr
    assert f"  {end}: {reason}\n" in program("flow", "show", "k").stdout
