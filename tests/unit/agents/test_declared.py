"""Agents declared in the configuration: their command lines, their output, their ends."""

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from segue.agents.base import Agent, Ended
from segue.agents.declared.adapter import Declared
from segue.config.declared import DeclaredAgent, Where, WhereError, WhereUsage
from segue.core import events as ev
from segue.core.errors import Misuse
from segue.core.outcome import Exit, Failure, Outcome
from segue.core.request import Command, Request, RunPlace, Start
from segue.core.stream import TurnState
from segue.core.usage import Totals, Usage

PLACE = RunPlace(Path("/run/1"))
PROGRAM = ("/bin/mytool",)


def agent(**spec: Any) -> Declared:
    given = {"command": ("mytool",), "stdin": "prompt"} | spec
    if any("{prompt" in str(entry) for entry in given["command"]):
        given["stdin"] = "none"
    return Declared("mytool", DeclaredAgent(**given))


def command(made: Declared, prompt: str = "hi", place: RunPlace = PLACE, **more: Any) -> Command:
    request = Request(prompt=prompt, cwd=Path("/work"), **more)
    return made.command(request, made.runtime(PROGRAM, ("mytool 1.2.3",)), place)


JSONL = {
    "output": "jsonl",
    "session_id": (Where("$.session", {"type": "init"}),),
    "text": (Where("$.message.text", {"type": "message", "role": "assistant"}),),
    "error": (WhereError("$.error.message", {"type": "error"}, kind="model_error"),),
    "usage": WhereUsage(
        input="$.in", cache_read="$.cached", output="$.out", cost_usd="$.cost", when={"type": "use"}
    ),
    "done": {"type": "done"},
}


class TestCommand:
    def test_it_is_an_agent(self) -> None:
        assert isinstance(agent(), Agent)

    def test_by_stdin(self) -> None:
        made = command(agent(command=("mytool", "run")), "-x")
        assert made == Command(argv=("/bin/mytool", "run"), cwd=Path("/work"), stdin=b"-x")

    def test_by_file(self) -> None:
        made = command(agent(command=("mytool", "--file={prompt_file}")), "-x")
        assert made.argv == ("/bin/mytool", "--file=/run/1/prompt.txt")
        assert made.files == {Path("/run/1/prompt.txt"): "-x"}
        assert made.stdin == b""

    def test_each_element_is_one_argument_whatever_the_value(self) -> None:
        nasty = '$(x) "; rm -rf / {model} {cwd}\n--help'
        made = command(agent(command=("mytool", "-p", "{prompt}", "--in={cwd}")), nasty)
        assert made.argv == ("/bin/mytool", "-p", nasty, "--in=/work")

    def test_what_has_no_value_is_left_out_with_its_option(self) -> None:
        tool = agent(command=("mytool", ("--model", "{model}"), ("--id={session_id}",)))
        assert command(tool).argv == ("/bin/mytool",)
        assert command(tool, model="m", start=Start(new_id="s1")).argv == (
            "/bin/mytool",
            "--model",
            "m",
            "--id=s1",
        )

    def test_a_needed_value_that_is_missing_is_misuse(self) -> None:
        with pytest.raises(
            Misuse, match=r'mytool needs a model, .*brackets in its declaration: \["--option", "\{model\}"\]'
        ):
            command(agent(command=("mytool", "--model", "{model}")))

    @pytest.mark.parametrize(
        "template", [("mytool", "{prompt}"), ("mytool", "-p", "{prompt}"), ("mytool", ("{prompt}",), "--")]
    )
    def test_a_prompt_that_looks_like_an_option_is_refused(self, template: tuple[Any, ...]) -> None:
        with pytest.raises(Misuse, match='the prompt begins with "-", so mytool would read it as an option'):
            command(agent(command=template), "--yolo")
        assert "yolo" in command(agent(command=template), "yolo").argv

    @pytest.mark.parametrize(
        ("template", "expected"),
        [
            (("mytool", "--", "{prompt}"), ("--", "--yolo")),
            (("mytool", "-p={prompt}"), ("-p=--yolo",)),
            (("mytool", ("-p", "say: {prompt}")), ("-p", "say: --yolo")),
        ],
    )
    def test_unless_it_is_guarded(self, template: tuple[Any, ...], expected: tuple[str, ...]) -> None:
        assert command(agent(command=template), "--yolo").argv[1:] == expected

    def test_a_guard_behind_the_value_guards_nothing(self) -> None:
        with pytest.raises(Misuse, match="the model begins with"):
            command(agent(command=("mytool", "{model}", "--", "{prompt}")), "--x", model="--y")

    @pytest.mark.parametrize(("size", "fits"), [(131_071, True), (131_072, False)])
    def test_the_limit_of_a_command_line(self, size: int, fits: bool) -> None:
        tool = agent(command=("mytool", "{prompt}"))
        if fits:
            assert len(command(tool, "ż" * 65_535 + "x").argv[1].encode()) == size
            return
        with pytest.raises(Misuse) as raised:
            command(tool, "ż" * 65_536)
        assert "131,072 bytes" in str(raised.value)
        assert "131,071" in str(raised.value)
        assert 'stdin = "prompt", or use {prompt_file}' in str(raised.value)

    def test_the_option_counts_towards_the_limit(self) -> None:
        with pytest.raises(Misuse, match="131,072 bytes"):
            command(agent(command=("mytool", "-p={prompt}")), "x" * 131_069)

    def test_the_declared_limit(self) -> None:
        with pytest.raises(Misuse, match="the prompt has 11 bytes; mytool accepts at most 10"):
            command(agent(prompt_limit=10), "x" * 11)
        assert command(agent(prompt_limit=10), "x" * 10).stdin == b"x" * 10

    def test_a_nul_character_is_refused(self) -> None:
        with pytest.raises(Misuse, match="NUL"):
            command(agent(command=("mytool", "-p={prompt}")), "a\0b")

    def test_resume(self) -> None:
        tool = agent(resume_command=("mytool", "resume", "{session_id}"), **JSONL)
        assert command(tool, start=Start("resume", "s1")).argv == ("/bin/mytool", "resume", "s1")
        for bad in ("-s1", "../s1", "", "a b"):
            with pytest.raises(Misuse, match="is not a session id"):
                command(tool, start=Start("resume", bad))

    def test_resume_never(self) -> None:
        tool = agent(resume_command=("mytool", "resume", "{session_id}"), resume="never", **JSONL)
        assert not tool.runtime(PROGRAM, ("",)).capabilities.resume
        with pytest.raises(Misuse, match="mytool cannot resume a session"):
            command(tool, start=Start("resume", "s1"))

    @pytest.mark.parametrize(
        ("wrong", "says"),
        [
            ({"start": Start("fork", "s1")}, "cannot fork"),
            ({"start": Start("branch", "s1", "m1")}, "cannot branch"),
            ({"model": "m"}, "does not accept a model"),
            ({"permission": "full"}, "does not support --permission"),
            ({"allow_tools": ("x",)}, "does not support --allow-tool"),
            ({"deny_tools": ("x",)}, "does not support --deny-tool"),
            ({"max_turns": 0}, "does not support --max-turns"),
            ({"budget_usd": 1.0}, "does not support --budget"),
            ({"system_prompt": ""}, "does not support --system-prompt-file"),
            ({"save": False}, "does not support --no-save"),
        ],
    )
    def test_what_a_declaration_cannot_express_is_misuse(self, wrong: dict[str, Any], says: str) -> None:
        with pytest.raises(Misuse, match=says):
            command(agent(), **wrong)

    def test_native_arguments_stay_options(self) -> None:
        tool = agent(command=("mytool", "-v", "--", "{prompt}"))
        assert command(tool, native_args=("--x", "1")).argv == ("/bin/mytool", "-v", "--x", "1", "--", "hi")

    def test_its_own_options_are_owned(self) -> None:
        tool = agent(
            command=("mytool", "--json", ("--model={model}",), "-p", "{prompt}", "--", "-"),
            resume_command=("mytool", "--resume={session_id}", "{prompt}"),
            **JSONL,
        )
        assert tool.facts.owned_args == {"--json", "--model", "-p", "--resume"}


class TestHomeAndRuntime:
    def test_home(self) -> None:
        tool = agent(home_env="MY_HOME", default_home="~/.mytool")
        assert tool.home_env(Path("/a")) == {"MY_HOME": "/a"}
        assert tool.default_home({"HOME": "/h"}) == Path("/h/.mytool")
        assert tool.default_home({"HOME": "/h", "MY_HOME": "/a"}) == Path("/a")
        with pytest.raises(
            Misuse, match=r"mytool cannot be given a home: declare home_env in \[agents.mytool\]"
        ):
            agent().home_env(Path("/a"))

    @pytest.mark.parametrize(
        ("said", "version"),
        [("mytool 1.2.3-beta (x)\n", "1.2.3-beta"), ("v0.10", "0.10"), ("hello", None), ("", None)],
    )
    def test_version(self, said: str, version: str | None) -> None:
        assert agent().runtime(PROGRAM, (said,)).version == version

    def test_no_version_arguments_no_probe(self) -> None:
        tool = agent(version_args=())
        assert tool.facts.probes == ()
        assert tool.runtime(PROGRAM, ()).version is None

    def test_capabilities_come_from_the_declaration(self) -> None:
        can = agent(command=("mytool", "{prompt}"), prompt_limit=7).runtime(PROGRAM, ("",)).capabilities
        assert (can.stdin, can.prompt_limit, can.resume, can.choose_id) == (False, 7, False, False)
        chooses = agent(
            command=("mytool", "{session_id}"), resume_command=("mytool", "-r", "{session_id}")
        ).runtime(PROGRAM, ("",))
        assert (chooses.capabilities.stdin, chooses.capabilities.resume, chooses.capabilities.choose_id) == (
            True,
        ) * 3


def read(tool: Declared, *lines: str | dict[str, Any]) -> TurnState:
    reading = TurnState()
    for line in lines:
        text = line if isinstance(line, str) else json.dumps(line)
        for event in tool.parse(text.encode()):
            reading.add(event)
    return reading


def conclude(
    tool: Declared,
    *lines: str | dict[str, Any],
    exit: Exit = Exit(0),  # noqa: A002, B008
    start: Start = Start(),  # noqa: B008
    base: Totals = Totals(),  # noqa: B008
    run_dir: Path | None = None,
) -> Outcome:
    request = Request(prompt="hi", cwd=Path("/work"), start=start)
    reading = read(tool, *lines)
    evidence = tool.evidence(request, RunPlace(run_dir), Path("/"), reading) if run_dir else {}
    runtime = tool.runtime(PROGRAM, ("",))
    return tool.conclude(
        Ended(request=request, runtime=runtime, reading=reading, exit=exit, evidence=evidence, base=base)
    )


class TestPlainText:
    def test_all_that_was_printed_is_the_answer(self) -> None:
        outcome = conclude(agent(), "# Title", "", "  body", "")
        assert outcome.text == "# Title\n\n  body"
        assert outcome.failure is None
        assert outcome.usage == Usage()
        assert outcome.cost_usd is None

    def test_what_the_assistant_says_is_never_a_failure(self) -> None:
        tool = agent(error=(WhereError(pattern="Error: (.*)", kind="auth"),))
        assert conclude(tool, "Error: is what you would see").failure is None

    def test_a_pattern_explains_a_failure(self, tmp_path: Path) -> None:
        tool = agent(error=(WhereError(pattern="Error: (.*)", kind="auth"),))
        (tmp_path / "stdout").write_text("hm\nError: first\nError: log in\nbye\n")
        outcome = conclude(tool, "hm", exit=Exit(1), run_dir=tmp_path)
        assert outcome.failure == Failure("auth", "log in")
        assert outcome.text == ""

    def test_a_pattern_in_stderr(self) -> None:
        tool = agent(error=(WhereError(pattern="no session .*", stream="stderr", kind="session_rejected"),))
        outcome = conclude(tool, exit=Exit(1, stderr="warning\nno session s1\n"))
        assert outcome.failure == Failure("session_rejected", "no session s1", reason="unknown")

    @pytest.mark.parametrize(
        ("end", "kind", "message"),
        [
            (Exit(3, stderr="it broke\n"), "crashed", "it broke"),
            (Exit(3), "crashed", "last words"),
            (Exit(0), "protocol", "mytool exited without a final answer"),
            (Exit(-9), "killed", "mytool was ended by signal 9"),
            (Exit(-15, "timeout"), "timeout", "the time limit was reached"),
            (Exit(-15, "cancelled"), "cancelled", "the turn was cancelled"),
        ],
    )
    def test_without_patterns(self, tmp_path: Path, end: Exit, kind: str, message: str) -> None:
        (tmp_path / "stdout").write_text("" if end.code == 0 else "last words\n")
        failure = conclude(agent(), exit=end, run_dir=tmp_path).failure
        assert failure is not None
        assert (failure.kind, failure.message) == (kind, message)

    def test_session_and_text_by_pattern(self) -> None:
        tool = agent(session_id=(Where(pattern=r"^session: (\S+)"),), text=(Where(pattern="^answer: (.*)"),))
        outcome = conclude(tool, "session: s1", "noise", "answer: one", "answer: two")
        assert (outcome.session_id, outcome.text) == ("s1", "two")

    def test_session_in_stderr(self) -> None:
        tool = agent(session_id=(Where(pattern=r"session: (\S+)", stream="stderr"),))
        assert conclude(tool, "hi", exit=Exit(0, stderr="session: s1\n")).session_id == "s1"
        assert conclude(tool, "hi", exit=Exit(0, stderr="session: ../x\n")).session_id is None

    def test_what_cannot_be_an_id_is_not_taken_for_one(self) -> None:
        tool = agent(session_id=(Where(pattern=r"^session: (\S+)"),))
        outcome = conclude(tool, "session: -x", "hi")
        assert outcome.session_id is None
        assert outcome.failure is None


GOOD: list[str | dict[str, Any]] = [
    {"type": "init", "session": "s1", "model": "m"},
    {"type": "message", "role": "user", "message": {"text": "not this"}},
    {"type": "message", "role": "assistant", "message": {"text": "one"}},
    {"type": "message", "role": "assistant", "message": {"text": "two"}},
    {"type": "use", "in": 10, "cached": 4, "out": 2, "cost": 0.5},
    {"type": "done"},
]


class TestRecords:
    def test_a_good_run(self) -> None:
        outcome = conclude(agent(**JSONL), *GOOD)
        assert outcome == Outcome(
            text="two",
            session_id="s1",
            model="m",
            usage=Usage(10, 4, None, 2),
            cost_usd=0.5,
            tools_denied=None,
            tools_run=None,
        )

    def test_the_last_record_makes_the_success_not_the_exit_code(self) -> None:
        tool = agent(**JSONL)
        assert conclude(tool, *GOOD, exit=Exit(1)).failure is None
        assert conclude(tool, *GOOD[:-1], exit=Exit(0)).failure is not None

    def test_an_error_it_recovered_from_is_no_failure(self) -> None:
        error = {"type": "error", "error": {"message": "reconnecting"}}
        assert conclude(agent(**JSONL), error, *GOOD).failure is None

    def test_an_error_explains_a_failure(self, tmp_path: Path) -> None:
        error = {"type": "error", "error": {"message": "overloaded"}}
        (tmp_path / "stdout").write_text(f"{json.dumps(GOOD[0])}\n{json.dumps(error)}\n")
        outcome = conclude(agent(**JSONL), GOOD[0], error, exit=Exit(1), run_dir=tmp_path)
        assert outcome.failure == Failure("model_error", "overloaded")
        assert outcome.session_id == "s1"

    def test_fragments_are_joined(self) -> None:
        spec = {**JSONL, "text": (Where("$.d", {"type": "delta"}, delta=True),)}
        outcome = conclude(
            agent(**spec), {"type": "delta", "d": "a"}, {"type": "delta", "d": "b"}, {"type": "done"}
        )
        assert outcome.text == "ab"

    @pytest.mark.parametrize(
        "line",
        [
            "words",
            "[1]",
            '{"type":"other"}',
            '{"type":"init","session":"-x"}',
            '{"type":"init","session":true}',
        ],
    )
    def test_other_lines_are_unknown(self, line: str) -> None:
        (event,) = agent(**JSONL).parse(line.encode())
        assert isinstance(event, ev.Unknown)

    def test_an_answer_in_another_session_is_a_rejected_one(self) -> None:
        tool = agent(resume_command=("mytool", "{session_id}"), **JSONL)
        outcome = conclude(tool, *GOOD, start=Start("resume", "other"))
        assert outcome.failure is not None
        assert outcome.failure.kind == "session_rejected"
        assert outcome.session_id is None
        assert conclude(tool, *GOOD, start=Start("resume", "s1")).failure is None

    @pytest.mark.parametrize("value", [True, -1, "7", 1.5, None, {}])
    def test_a_counter_that_is_no_count_is_unknown(self, value: Any) -> None:
        assert conclude(agent(**JSONL), {"type": "use", "in": value, "out": 2}).usage == Usage(output=2)


class TestTools:
    """Unknown is never 0: only where the declaration says where calls are told, none is a known none."""

    SPEC: ClassVar = {**JSONL, "tool": (Where("$.call", {"type": "tool"}),)}

    @pytest.mark.parametrize("end", [Exit(0), Exit(1), Exit(-9), Exit(-15, "timeout")])
    def test_without_a_place_nobody_knows(self, end: Exit) -> None:
        assert conclude(agent(), "hi", exit=end).tools_run is None
        assert conclude(agent(**JSONL), *GOOD, exit=end).tools_run is None

    @pytest.mark.parametrize("end", [Exit(0), Exit(1), Exit(-9), Exit(-15, "timeout")])
    def test_with_one_no_call_is_known_to_be_none(self, end: Exit) -> None:
        assert conclude(agent(**self.SPEC), *GOOD, exit=end).tools_run == 0

    @pytest.mark.parametrize(
        ("call", "names"),
        [
            ("shell", ["shell"]),
            ({"name": "shell", "args": {}}, ["shell"]),
            ({"args": {}}, ["a tool"]),
            ("", ["a tool"]),
            (["shell", {"name": "edit"}, {}], ["shell", "edit", "a tool"]),
            (2, ["a tool", "a tool"]),
            ([], []),
            (0, []),
            (None, []),
            (True, []),
        ],
    )
    def test_what_a_place_may_hold(self, call: Any, names: list[str]) -> None:
        tool, record = agent(**self.SPEC), {"type": "tool", "call": call}
        calls = [event for event in tool.parse(json.dumps(record).encode()) if isinstance(event, ev.ToolCall)]
        assert [each.name for each in calls] == names
        assert len({each.id for each in calls}) == len(calls)
        assert conclude(tool, record, record, *GOOD).tools_run == 2 * len(names)

    def test_by_a_pattern_in_plain_text(self) -> None:
        tool = agent(tool=(Where(pattern="^> (\\w+)"),))
        assert conclude(tool, "> shell ls", "> edit x", "done").tools_run == 2
        assert conclude(tool, "done").tools_run == 0

    @pytest.mark.parametrize(
        ("document", "known"),
        [
            ({"answer": "hi", "stats": {"calls": 3}}, 3),
            ({"answer": "hi", "stats": {"calls": 0}}, 0),
            ({"answer": "hi", "stats": {"calls": []}}, 0),
            ({"answer": "hi"}, None),
            ("half", None),
        ],
    )
    def test_one_document_tells_of_them_when_it_is_whole(
        self, tmp_path: Path, document: Any, known: int | None
    ) -> None:
        tool = agent(**{**TestOneDocument.SPEC, "tool": (Where("$.stats.calls"),)})
        (tmp_path / "stdout").write_text(json.dumps(document).removesuffix('"'))
        assert conclude(tool, run_dir=tmp_path).tools_run == known


class TestUsage:
    USE = staticmethod(lambda **given: {"type": "use", **given})

    def tool(self, **where: Any) -> Declared:
        usage = WhereUsage(
            input="$.in",
            cache_read="$.cached",
            output="$.out",
            cost_usd="$.cost",
            when={"type": "use"},
            **where,
        )
        return agent(resume_command=("mytool", "{session_id}"), **{**JSONL, "usage": usage})

    def test_per_run_the_last_report_counts(self) -> None:
        outcome = conclude(self.tool(), self.USE(**{"in": 1, "cost": 1}), self.USE(**{"in": 3, "cost": 2}))
        assert (outcome.usage, outcome.cost_usd, outcome.model_turns) == (Usage(input=3), 2.0, None)

    def test_per_request_they_are_summed_and_the_last_fills_the_window(self) -> None:
        lines = (self.USE(**{"in": 1, "cached": 5, "cost": 1}), self.USE(**{"in": 3, "cached": 6, "cost": 2}))
        outcome = conclude(self.tool(scope="request"), *lines)
        assert (outcome.usage, outcome.cost_usd, outcome.model_turns) == (Usage(4, 11), 3.0, 2)
        assert outcome.context.used == 9

    def test_per_session_the_base_is_taken_off(self) -> None:
        base = Totals(Usage(input=10, output=1), 0.5)
        start = Start("resume", "s1")
        use = self.USE(**{"in": 14, "out": 3, "cost": 0.75})
        outcome = conclude(self.tool(scope="session"), use, start=start, base=base)
        assert (outcome.usage, outcome.cost_usd) == (Usage(input=4, output=2), 0.25)
        assert outcome.totals == Totals(Usage(input=14, output=3), 0.75)

    def test_per_session_without_a_base_the_share_is_unknown(self) -> None:
        outcome = conclude(
            self.tool(scope="session"), self.USE(**{"in": 14, "cost": 1}), start=Start("resume", "s1")
        )
        assert (outcome.usage, outcome.cost_usd) == (Usage(), None)
        assert conclude(self.tool(scope="session"), self.USE(**{"in": 14})).usage == Usage(input=14)

    def test_what_the_cache_served_is_taken_out_of_the_input(self) -> None:
        outcome = conclude(self.tool(cache_in_input=True), self.USE(**{"in": 10, "cached": 8}))
        assert outcome.usage == Usage(2, 8)


class TestOneDocument:
    SPEC: ClassVar = {
        **JSONL,
        "output": "json",
        "text": (Where("$.answer"),),
        "session_id": (Where("$.session"),),
        "done": {},
    }

    def test_it_is_read_when_it_is_whole(self, tmp_path: Path) -> None:
        document = {"session": "s1", "answer": "hi\nthere", "type": "use", "in": 3}
        text = json.dumps(document, indent=2)
        (tmp_path / "stdout").write_text(text)
        tool = agent(**self.SPEC)
        assert [tool.parse(line.encode()) for line in text.splitlines()] == [()] * len(text.splitlines())
        outcome = conclude(tool, run_dir=tmp_path)
        assert (outcome.text, outcome.session_id, outcome.usage) == ("hi\nthere", "s1", Usage(input=3))

    def test_its_error(self, tmp_path: Path) -> None:
        document = {"type": "error", "error": {"message": "overloaded"}}
        (tmp_path / "stdout").write_text(json.dumps(document, indent=2))
        assert conclude(agent(**self.SPEC), run_dir=tmp_path).failure == Failure("model_error", "overloaded")

    def test_half_a_document_is_no_answer(self, tmp_path: Path) -> None:
        (tmp_path / "stdout").write_text('{"answer": "hi"')
        failure = conclude(agent(**self.SPEC), run_dir=tmp_path).failure
        assert failure is not None
        assert failure.kind == "protocol"
