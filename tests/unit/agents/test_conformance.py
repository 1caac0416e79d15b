"""The conformance kit: it passes what conforms, and finds each thing that does not."""

import os
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.agents.base import Ended, Evidence
from segue.agents.declared.adapter import Declared
from segue.agents.rehearsal.adapter import FACTS, Rehearsal
from segue.config.declared import DeclaredAgent, Where
from segue.core import events as ev
from segue.core.outcome import Outcome
from segue.core.request import Command, Request, RunPlace, Runtime
from segue.core.stream import TurnState
from segue.testing.conformance import check_adapter

GOOD = b"""\
{"type":"session","id":"s1","model":"rehearsal-1","cwd":"/tmp"}
{"type":"thinking","text":"hm"}
{"type":"tool_call","id":"c1","name":"shell","input":{"command":"x"}}
{"type":"tool_result","id":"c1","name":"shell","ok":true,"output":"1","exit_code":0,"denied":false}
{"type":"delta","text":"hi"}
{"type":"text","text":"hi"}
{"type":"usage","model":"rehearsal-1","usage":{"input":3,"cache_read":9,"cache_write":4,"output":1}}
{"type":"end","ok":true,"text":"hi","usage":{"input":3,"cache_read":9,"cache_write":4,"output":1},"cost_usd":0.1}
"""
BAD = b"""\
{"type":"session","id":"s1"}
{"type":"retry","attempt":1,"limit":2,"delay_ms":50,"message":"the model answered 429"}
{"type":"end","ok":false,"error":{"kind":"rate_limited","message":"the model answered 429","status":429}}
"""
SEED = random.randrange(1_000_000)


def check(agent: Any, streams: Sequence[bytes] = (GOOD, BAD), rounds: int = 120) -> list[str]:
    return check_adapter(agent, list(streams), seed=SEED, rounds=rounds)


def test_the_rehearsal_adapter_conforms() -> None:
    assert check(Rehearsal()) == []


DECLARED = {
    "plain": DeclaredAgent(command=("mytool", "ask"), stdin="prompt"),
    "in argv": DeclaredAgent(command=("mytool", ("--model={model}",), "--", "{prompt}"), home_env="MY_HOME"),
    "json lines": DeclaredAgent(
        command=("mytool", "run", ("--id={session_id}",), ("-m", "{model}"), "--file={prompt_file}"),
        resume_command=("mytool", "resume", "{session_id}", "--file={prompt_file}"),
        output="jsonl",
        session_id=(Where("$.id", {"type": "session"}),),
        text=(Where("$.text", {"type": "text"}), Where("$.text", {"type": "delta"}, delta=True)),
        done={"type": "end", "ok": True},
    ),
}


@pytest.mark.parametrize("spec", DECLARED.values(), ids=DECLARED)
def test_declared_adapters_conform(spec: DeclaredAgent) -> None:
    assert check(Declared("mytool", spec)) == []


class ParseRaises(Rehearsal):
    def parse(self, line: bytes) -> Sequence[ev.Event]:
        record = msgspec.json.decode(line or b"{}")
        return (ev.Text(record["text"]),) if "text" in record else ()


class ParseInvents(Rehearsal):
    def parse(self, line: bytes) -> Sequence[ev.Event]:
        return (ev.Event(),)


class ParseWrongTypes(Rehearsal):
    def parse(self, line: bytes) -> Sequence[ev.Event]:
        try:
            return (ev.Session(msgspec.json.decode(line)["id"]),)
        except Exception:
            return ev.unknown(line, "broken")


class ParseRemembers(Rehearsal):
    def __init__(self) -> None:
        self.count = 0

    def parse(self, line: bytes) -> Sequence[ev.Event]:
        self.count += 1
        return (ev.Notice(f"line {self.count}"),)


class ParseKnowsNothing(Rehearsal):
    def parse(self, line: bytes) -> Sequence[ev.Event]:
        return ev.unknown(line, "no idea")


class IdsUnchecked(Rehearsal):
    def command(self, request: Request, runtime: Runtime, place: RunPlace) -> Command:
        argv = (*runtime.command, f"--resume={request.start.session}")
        return Command(argv=argv, cwd=request.cwd, stdin=request.prompt.encode())


def changed(change: Callable[[Request, Command], dict[str, Any]]) -> Callable[..., Command]:
    def command(self: Rehearsal, request: Request, runtime: Runtime, place: RunPlace) -> Command:
        made = Rehearsal.command(self, request, runtime, place)
        return msgspec.structs.replace(made, **change(request, made))

    return command


class PromptInArgv(Rehearsal):
    command = changed(lambda r, c: {"argv": (*c.argv, r.prompt)})


class PromptTwice(Rehearsal):
    command = changed(lambda r, c: {"files": {Path("/x"): r.prompt}})


class PromptInEnv(Rehearsal):
    command = changed(lambda r, c: {"env": {"PROMPT": r.prompt}})


class ModelLoose(Rehearsal):
    command = changed(lambda r, c: {"argv": (*c.argv, "--model", r.model or "")})


class NativeLost(Rehearsal):
    command = changed(lambda r, c: {"argv": tuple(a for a in c.argv if a not in r.native_args)})


class Unowned(Rehearsal):
    facts = msgspec.structs.replace(FACTS, owned_args=FACTS.owned_args - {"--resume"})


class CommandWrites(Rehearsal):
    def command(self, request: Request, runtime: Runtime, place: RunPlace) -> Command:
        if place.run_dir.exists():
            (place.run_dir / "prompt").write_text("x")
        return super().command(request, runtime, place)


class CommandVaries(Rehearsal):
    command = changed(lambda r, c: {"argv": (*c.argv, str(random.random()))})


class AnotherProgram(Rehearsal):
    command = changed(lambda r, c: {"argv": ("sh", *c.argv)})


class HomeWrites(Rehearsal):
    def home_env(self, home: Path) -> dict[str, str]:
        (home / "sessions").mkdir(parents=True, exist_ok=True)
        return super().home_env(home)


class HomeOfThisProcess(Rehearsal):
    def default_home(self, env: Mapping[str, str]) -> Path:
        return Path("/somewhere")


class HomeNeedsHome(Rehearsal):
    def default_home(self, env: Mapping[str, str]) -> Path:
        return Path(env.get("REHEARSAL_HOME") or env["HOME"])


class ConcludeRaises(Rehearsal):
    def conclude(self, ended: Ended) -> Outcome:
        end = ended.reading.end
        return Outcome(text=end.raw["text"] if end else "", failure=super().conclude(ended).failure)


class ConcludeUntyped(Rehearsal):
    def conclude(self, ended: Ended) -> Outcome:
        end = ended.reading.end
        cost = end.raw.get("cost_usd") if end and isinstance(end.raw, dict) else None
        return msgspec.structs.replace(super().conclude(ended), cost_usd=cost)


class AlwaysFine(Rehearsal):
    def conclude(self, ended: Ended) -> Outcome:
        return Outcome(text="fine")


class EvidenceWrites(Rehearsal):
    def evidence(self, request: Request, place: RunPlace, home: Path, reading: TurnState) -> Evidence:
        (home / "seen").touch()
        return {}


class RuntimeNeedsOutput(Rehearsal):
    facts = msgspec.structs.replace(FACTS, probes=(("--version",),))

    def runtime(self, command: tuple[str, ...], outputs: Sequence[str]) -> Runtime:
        made = super().runtime(command, outputs)
        return msgspec.structs.replace(
            made, version=outputs[0].split("mytool version ")[1] if outputs[0] else None
        )


class ReplyOfTwoLines(Rehearsal):
    def reply(self, event: Any, answer: Any) -> bytes:
        return f"{event.id}\n{answer.message}\n".encode()


class ChangesTheEnvironment(Rehearsal):
    def home_env(self, home: Path) -> dict[str, str]:
        os.environ["REHEARSAL_HOME"] = str(home)
        return super().home_env(home)


FAULTS: list[tuple[type[Rehearsal], str]] = [
    (ParseRaises, "parse: raised "),
    (ParseInvents, "is not a known event"),
    (ParseWrongTypes, "parse: the Session event of "),
    (ParseRemembers, "parse: the same line gives different events the second time"),
    (ParseKnowsNothing, "parse: no line of a recorded stream is understood"),
    (
        IdsUnchecked,
        "command: the id '-x' must be refused with Misuse: fresh gave a command, resume gave a command",
    ),
    (IdsUnchecked, "command: the id '../../etc/passwd' must be refused"),
    (PromptInArgv, "command: the prompt is in argv (fresh)"),
    (PromptInArgv, 'command: the prompt "-x" would be read as an option'),
    (PromptInArgv, "command: an argument over 131071 bytes"),
    (PromptTwice, "command: the prompt is passed 2 times (resume)"),
    (PromptInEnv, "command: the prompt is in the environment"),
    (ModelLoose, "command: a model that begins with - would be read as an option"),
    (NativeLost, "command: native arguments must be in argv"),
    (Unowned, "owned_args: the adapter sets --resume itself (resume)"),
    (CommandWrites, "command: it must be pure, and wrote files"),
    (CommandVaries, "command: two calls for the same fresh differ"),
    (AnotherProgram, "command: argv must begin with the runtime's command"),
    (HomeWrites, "home_env: it must be pure"),
    (HomeOfThisProcess, "default_home: with the variables of home_env it returns /somewhere"),
    (HomeNeedsHome, "default_home: raised KeyError: 'HOME' if there is no HOME"),
    (ConcludeRaises, "conclude: raised KeyError: 'text'"),
    (ConcludeUntyped, "conclude: the outcome is not valid"),
    (AlwaysFine, "conclude: no output and exit code 1, but it counts as answered"),
    (AlwaysFine, "conclude: a run that was ended by cancelled is reported as None"),
    (EvidenceWrites, "evidence: it can clean up after its run, but wrote"),
    (RuntimeNeedsOutput, "runtime: raised IndexError"),
    (ReplyOfTwoLines, "reply: it must be one line of bytes"),
]


@pytest.mark.parametrize(
    ("fault", "says"), FAULTS, ids=[f"{f.__name__}-{i}" for i, (f, _) in enumerate(FAULTS)]
)
def test_each_fault_is_found(fault: type[Rehearsal], says: str) -> None:
    problems = check(fault(), rounds=40)
    assert any(says in problem for problem in problems), problems
    assert all(problem.endswith(f"(seed {SEED})") for problem in problems)


def test_a_changed_environment_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REHEARSAL_HOME", "/before")
    assert "the adapter changed the environment of this process" in check(ChangesTheEnvironment())


def test_what_is_no_adapter_is_told_what_it_lacks() -> None:
    assert check(object()) == [
        problem for problem in check(object()) if "it is not an adapter: it lacks facts" in problem
    ]
    assert len(check(object())) == 1


@pytest.mark.parametrize(
    ("member", "value", "says"),
    [
        ("name", "my agent", 'name: "my agent"'),
        ("label", "", "label, install"),
        ("builtin", (), "programs: name at least one"),
        ("owned_args", frozenset({"--resume=x"}), 'owned_args: "--resume=x"'),
        ("programs", "mytool", 'programs, keys, login_check, notes, probes: "mytool" is a string'),
    ],
)
def test_what_an_adapter_says_of_itself_is_checked(member: str, value: Any, says: str) -> None:
    agent = type("Odd", (Rehearsal,), {"facts": msgspec.structs.replace(FACTS, **{member: value})})()
    assert [problem for problem in check(agent) if problem.startswith(says)] != []


def test_the_same_seed_finds_the_same() -> None:
    once, again = (check_adapter(ParseRaises(), [GOOD], seed=7, rounds=50) for _ in range(2))
    assert once == again
    assert once != []
