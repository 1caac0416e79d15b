"""The script: from a request to an action, step by step through a turn, and never in a circle."""

from pathlib import Path

import pytest

from segue.rehearsal import directives as d
from segue.rehearsal import scenario, side_requests, tool_calls
from segue.rehearsal.scenario import Rule, Scenario
from segue.rehearsal.script import Script
from segue.rehearsal.types import Action, Call, Fault, Hang, Item, Limit, Part, Reply, Text, Thought, Tool
from tests.unit.rehearsal.asks import ask, assistant, call, result, user

BASH = Tool("Bash", properties={"command": {"type": "string"}})


def said(*parts: Part) -> Reply:
    return Reply(parts)


ACTIONS: list[tuple[str, Action]] = [
    ("hello", said(Text("Understood."))),
    ("remember number 5", said(Text("Noted: 5."))),
    ("[[say a]] [[say b]]", said(Text("a\nb"))),
    ("[[think hm]] [[say a]]", said(Thought("hm"), Text("a"))),
    ("[[think hm]]", said(Thought("hm"), Text("Done."))),
    ("[[empty]]", said()),
    ("[[result]]", said(Text("No tool has run."))),
    ("[[slow 2 4]] [[say abcd]]", Reply((Text("abcd"),), seconds=2.0, pieces=4)),
    ("[[say part]] [[drop]]", Reply((Text("part"),), ending="dropped")),
    ("[[error 429 retry-after 3]]", Fault(429, retry_after=3.0)),
    ("[[context-full stream]]", Fault(400, context=True, streamed=True)),
    ("[[limit 5h 0.5]] [[say a]]", Reply((Text("a"),), limits=(Limit("5h", 0.5),))),
    ("[[limit 5h 1 60]] [[error 429]]", Fault(429, limits=(Limit("5h", 1.0, 60.0),))),
    ("[[limit much]]", said(Text("Bad directive: limit much"))),
    ("[[hang]]", Hang()),
    ("[[ask Sure? | A | B]]", said(Text("Sure? (1) A (2) B"))),
]


@pytest.mark.parametrize(("text", "expected"), ACTIONS, ids=[text for text, _ in ACTIONS])
def test_one_answer(text: str, expected: Action) -> None:
    assert Script().act(ask(user(text))).action == expected


def test_directives_are_carried_out_one_after_another() -> None:
    text = "[[say first]] [[shell one]] [[think then]] [[shell two]] [[result]]"
    script, told = Script(), [user(text)]
    first = script.act(ask(*told, tools=(BASH,))).action
    told += [call("1"), result("1")]
    second = script.act(ask(*told, tools=(BASH,))).action
    told += [call("2"), result("2", "the end")]
    third = script.act(ask(*told, tools=(BASH,))).action
    assert first == said(Text("first"), Call(BASH, {"command": "one", "description": "Run a command"}))
    assert second == said(Thought("then"), Call(BASH, {"command": "two", "description": "Run a command"}))
    assert third == said(Text("the end"))


def test_a_turn_that_ran_out_of_directives_ends() -> None:
    told = [user("[[shell one]]"), *(item for n in "123" for item in (call(n), result(n)))]
    assert Script().act(ask(*told, tools=(BASH,))).action == said(Text("Done."))


def test_an_error_with_times_gives_way() -> None:
    script = Script()
    text = user("[[error 500 times 2]] [[say ok]]")
    actions = [script.act(ask(text)).action for _ in range(4)]
    assert actions == [Fault(500), Fault(500), said(Text("ok")), said(Text("ok"))]


def test_older_directives_are_not_carried_out_again() -> None:
    assert Script().act(ask(user("[[error 500]]"), assistant("x"), user("hi"))).action == said(
        Text("Understood.")
    )


def test_a_scenario_wins_over_the_prompt_and_counts() -> None:
    script = Script(
        Scenario(
            (
                Rule("[[say second]]", text="go", nth=2),
                Rule("[[shell make]] [[say built]]", pattern="^go", protocol="anthropic"),
            )
        )
    )
    go = user("go [[say no]]")
    assert script.act(ask(go, tools=(BASH,))).name == "tool:Bash"
    assert script.act(ask(go, call("1"), result("1"), tools=(BASH,))).action == said(Text("built"))
    assert script.act(ask(go, tools=(BASH,))).action == said(Text("second"))
    assert script.act(ask(go, protocol="chat")).action == said(Text("no"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("s.toml", '[[rule]]\ntext = "a"\ndo = "[[say b]]"\n'),
        ("s.json", '{"rule": [{"text": "a", "do": "[[say b]]"}]}'),
    ],
)
def test_scenarios_load_from_toml_and_json(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert scenario.load(tmp_path / name) == Scenario((Rule("[[say b]]", text="a"),))


@pytest.mark.parametrize("text", ['[[rule]]\nthen = "x"\ndo = ""', '[[rule]]\ndo = ""\npattern = "("', "[["])
def test_a_bad_scenario_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(ValueError, match=r"then|pattern|Invalid"):
        scenario.load(tmp_path / "s.toml")


X = user("[[say x]]")
COMPACT = user("Your task is to create a detailed summary of the conversation so far")
SIDES: list[tuple[str, tuple[Item, ...], dict[str, object], str]] = [
    ("compaction", (X, COMPACT), {"tools": (BASH,)}, "side:summary"),
    ("title", (X,), {"system": "Write a concise, sentence-case title (3-7 words)."}, "side:title"),
    ("routing", (X,), {"schema": {"type": "object", "properties": {}}}, "side:json"),
    ("file paths", (X,), {"system": "Extract any file paths that this command reads"}, "side:helper"),
    ("probe", (X,), {"max_tokens": 1}, "side:probe"),
    ("no tools, yet the conversation", (X,), {"system": "You are an agent."}, "say"),
]


@pytest.mark.parametrize(
    ("items", "fields", "name"), [case[1:] for case in SIDES], ids=[case[0] for case in SIDES]
)
def test_side_requests_never_carry_out_directives(
    items: tuple[Item, ...], fields: dict[str, object], name: str
) -> None:
    scene = Script().act(ask(*items, **fields))  # type: ignore[arg-type]
    assert scene.name == name
    assert scene.side is name.startswith("side:")
    assert isinstance(scene.action, Reply)


def test_a_summary_keeps_the_number() -> None:
    told = (user("remember number 7"), user("Your task is to create a detailed summary of it"))
    action = Script().act(ask(*told)).action
    assert isinstance(action, Reply)
    assert "remember number 7" in str(action.parts)


def test_a_schema_is_answered_with_a_value_that_fits() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "STRING"}, "b": {"enum": [2, 3]}, "c": {"anyOf": [{"type": "boolean"}]}},
        "required": ["a", "b", "c"],
    }
    assert side_requests.sample(schema) == {"a": "rehearsal", "b": 2, "c": False}
    assert side_requests.sample({"type": ["array", "null"]}) == []
    structured = Tool("StructuredOutput", properties={"n": {"type": "integer"}})
    assert Script().act(ask(user("hi"), tools=(structured,))).action == said(Call(structured, {"n": 0}))


def prop(*names: str) -> dict[str, object]:
    return {name: {"type": "string"} for name in names}


WISHES: list[tuple[d.Shell | d.Read | d.Write, Tool, dict[str, object]]] = [
    (d.Shell("ls"), BASH, {"command": "ls", "description": "Run a command"}),
    (d.Shell("ls"), Tool("bash", properties=prop("command")), {"command": "ls"}),
    (d.Shell("ls"), Tool("exec_command", properties=prop("cmd")), {"cmd": "ls"}),
    (
        d.Shell("ls"),
        Tool("shell", properties={"command": {"type": "array"}}),
        {"command": ["bash", "-lc", "ls"]},
    ),
    (d.Shell("ls"), Tool("local_shell", "local_shell"), {"command": ["bash", "-lc", "ls"]}),
    (d.Read("f"), Tool("Read", properties=prop("file_path")), {"file_path": "f"}),
    (d.Read("f"), Tool("read_file", properties=prop("path")), {"path": "f"}),
    (d.Read("a b"), Tool("exec_command", properties=prop("cmd")), {"cmd": "cat 'a b'"}),
    (
        d.Write("f", "x"),
        Tool("write_file", properties=prop("path", "content")),
        {"path": "f", "content": "x"},
    ),
    (
        d.Write("f", "it's"),
        Tool("bash", properties=prop("command")),
        {"command": "printf %s 'it'\"'\"'s' > f"},
    ),
]


@pytest.mark.parametrize(("wish", "tool", "arguments"), WISHES, ids=[f"{w} {t.name}" for w, t, _ in WISHES])
def test_wishes_take_the_shape_of_the_declared_tool(
    wish: d.Shell | d.Read | d.Write, tool: Tool, arguments: dict[str, object]
) -> None:
    assert tool_calls.call_part(wish, (tool,)) == Call(tool, arguments)


def test_a_question_goes_to_the_tool_for_questions() -> None:
    asked = tool_calls.call_part(d.AskUser("Which?", ("A", "B")), (Tool("AskUserQuestion"),))
    assert isinstance(asked, Call)
    assert asked.arguments == {
        "questions": [
            {
                "question": "Which?",
                "header": "Question",
                "options": [{"label": "A", "description": "A"}, {"label": "B", "description": "B"}],
                "multiSelect": False,
            }
        ]
    }


def test_without_a_shell_nothing_is_run() -> None:
    assert tool_calls.call_part(d.Shell("ls"), ()) == Text(
        "No shell tool is declared, so this was not run: ls"
    )
