from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.config.build import build
from segue.config.declared import (
    DeclaredAgent,
    Template,
    Where,
    WhereError,
    WhereUsage,
    fill_template,
    placeholders,
)
from segue.config.load import Tables
from segue.config.source import Source

SMALL: dict[str, Any] = {"command": ["mytool", "{prompt}"]}
JSONL: dict[str, Any] = {
    "command": ["mytool", "run", ["--model", "{model}"]],
    "resume_command": ["mytool", "resume", "{session_id}"],
    "stdin": "prompt",
    "output": "jsonl",
    "session_id": [{"path": "$.session", "when": {"type": "init"}}],
    "text": [{"path": "$.message.text", "when": {"type": "message", "final": True}}],
}


def test_a_plain_text_agent_needs_only_a_command() -> None:
    agent = msgspec.convert(SMALL, DeclaredAgent)
    assert agent.text == (Where(),)
    assert (agent.stdin, agent.output, agent.can_resume, agent.chooses_id) == ("none", "text", False, False)


def test_an_agent_that_speaks_json_lines() -> None:
    more = {
        "usage": {"input": "$.usage.in", "scope": "session"},
        "error": [{"pattern": "no login", "kind": "auth"}],
    }
    agent = msgspec.convert(JSONL | more, DeclaredAgent)
    assert agent.can_resume
    assert agent.session_id == (Where(path="$.session", when={"type": "init"}),)
    assert agent.usage == WhereUsage(input="$.usage.in", scope="session")
    assert agent.error == (WhereError(pattern="no login", kind="auth"),)


def test_resume_can_be_forbidden_and_an_id_chosen() -> None:
    assert not msgspec.convert(JSONL | {"resume": "never"}, DeclaredAgent).can_resume
    chosen = {k: v for k, v in JSONL.items() if k != "session_id"} | {"command": ["t", "{session_id}"]}
    agent = msgspec.convert(chosen, DeclaredAgent)
    assert agent.chooses_id
    assert agent.can_resume


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"command": []}, "command is empty"),
        ({"command": [""]}, "command is empty"),
        ({"command": ["{prompt}"]}, "must begin with a program"),
        ({"command": ["t"]}, "command does not get the prompt"),
        ({"command": ["t", "{prompt}"], "stdin": "prompt"}, "gets the prompt twice"),
        ({"command": ["t", "{prompt}", "{prompt_file}"]}, "gets the prompt twice"),
        ({"command": ["t", "{prompt}", "{modle}"]}, "unknown placeholder {modle}; known: {prompt}"),
        ({"resume_command": ["t", "{prompt}"]}, "resume_command needs {session_id}"),
        ({"resume_command": ["t", "{prompt}", "{session_id}"]}, "no session_id that says where"),
        ({"text": [{"path": "$.text"}]}, 'output = "text"'),
        ({"tool": [{"path": "$.tool"}]}, 'output = "text"'),
        ({"tool": [{}]}, "tool needs a path or a pattern"),
        (
            {"tool": [{"pattern": "^> (.*)", "stream": "stderr"}]},
            "tool is searched for in stdout, call by call",
        ),
        ({"tool": [{"pattern": "^> (.*)", "delta": True}]}, "tool is searched for in stdout, call by call"),
        ({"done": {"type": "end"}}, 'output = "text"'),
        ({"output": "json"}, "does not say where the text is"),
        ({"session_id": [{}]}, "session_id needs a path or a pattern"),
        ({"error": [{}]}, "error needs a path or a pattern"),
        ({"text": [{"path": "$.a", "pattern": "b"}]}, "not both"),
        ({"text": [{"when": {"a": "b"}}]}, "when but no path"),
        ({"text": [{"path": "$.a", "stream": "stderr"}]}, "stdout only"),
        ({"text": [{"pattern": "("}]}, "which is not valid"),
        ({"text": [{"path": "$.a b"}]}, "not a JSON path"),
        ({"error": [{"pattern": "x", "kind": "bad"}]}, "Invalid enum value 'bad'"),
        ({"colour": "red"}, "unknown field `colour`"),
    ],
)
def test_what_cannot_work_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert(SMALL | change, DeclaredAgent)
    assert said in str(refused.value)


TEMPLATE: Template = ("tool", ("--model", "{model}"), "--dir={cwd}", ("-p", "{prompt}"), "{json}")


@pytest.mark.parametrize(
    ("values", "argv"),
    [
        ({}, ("tool", "{json}")),
        ({"model": "m"}, ("tool", "--model", "m", "{json}")),
        ({"model": None, "cwd": "/x y"}, ("tool", "--dir=/x y", "{json}")),
        ({"prompt": "{model} $x\n"}, ("tool", "-p", "{model} $x\n", "{json}")),
        ({"prompt": ""}, ("tool", "-p", "", "{json}")),
    ],
)
def test_filling_a_template_leaves_no_flag_without_its_value(
    values: dict[str, str | None], argv: tuple[str, ...]
) -> None:
    assert fill_template(TEMPLATE, values) == argv


def test_the_placeholders_of_a_template() -> None:
    assert placeholders(TEMPLATE) == {"model", "cwd", "prompt"}


@pytest.mark.parametrize("page", ["agents.md", "configuration.md"])
def test_the_example_in_the_docs_is_a_declaration_that_tells_refused_sessions_and_tools(page: str) -> None:
    text = (Path(__file__).parents[3] / "docs" / page).read_text()
    found = re.search(r"```toml\n(\[agents\.mytool\]\n.*?)```", text, re.S)
    assert found is not None
    tables = Tables()
    tables.add(Source(page, tomllib.loads(found[1])))
    agent = build(tables, {}, project=None, notices=()).declared["mytool"]
    assert agent.can_resume
    assert agent.tool
    assert "session_rejected" in [where.kind for where in agent.error]
