"""Turns generic directives (`shell`, `read`, `write`, `ask`) into calls of the declared tools."""

import shlex
from typing import Any

from segue.rehearsal.directives import AskUser, Read, Shell, UseTool, Write
from segue.rehearsal.types import Call, Part, Text, Tool

_SHELLS = ("Bash", "run_shell_command", "exec_command", "shell_command", "shell", "local_shell", "bash")
_READERS = ("Read", "read_file", "read")
_WRITERS = ("Write", "write_file", "write")
_ASKERS = ("AskUserQuestion", "ask_user", "ask_user_question", "request_user_input")

Wish = UseTool | Shell | Read | Write | AskUser


def call_part(wish: Wish, tools: tuple[Tool, ...]) -> Part:
    """The tool call for a directive, or a text that says that there is no such tool."""
    match wish:
        case UseTool(name, arguments):
            return Call(_named(tools, (name,)) or _undeclared(name), arguments)
        case Shell(command):
            return _shell(command, tools)
        case Read(file):
            tool = _named(tools, _READERS)
            return Call(tool, {_file_key(tool): file}) if tool else _shell(f"cat {shlex.quote(file)}", tools)
        case Write(file, text):
            return _write(file, text, tools)
        case AskUser():
            return _ask(wish, tools)


def _named(tools: tuple[Tool, ...], names: tuple[str, ...]) -> Tool | None:
    declared = {tool.name: tool for tool in reversed(tools)}
    return next((declared[name] for name in names if name in declared), None)


def _undeclared(name: str) -> Tool:
    """A tool that the request does not declare; ``NAMESPACE/NAME`` for one inside a namespace."""
    namespace, _, plain = name.rpartition("/")
    return Tool(plain, namespace=namespace)


def _shell(command: str, tools: tuple[Tool, ...]) -> Part:
    tool = _named(tools, _SHELLS)
    if tool is None:
        return Text(f"No shell tool is declared, so this was not run: {command}")
    key = next((key for key in ("command", "cmd", "script") if key in tool.properties), "command")
    if tool.kind == "local_shell" or tool.properties.get(key, {}).get("type") == "array":
        return Call(tool, {"command": ["bash", "-lc", command]})
    arguments: dict[str, Any] = {key: command}
    if tool.name in ("Bash", "run_shell_command"):
        arguments["description"] = "Run a command"
    return Call(tool, arguments)


def _write(file: str, text: str, tools: tuple[Tool, ...]) -> Part:
    tool = _named(tools, _WRITERS)
    if tool is None:
        return _shell(f"printf %s {shlex.quote(text)} > {shlex.quote(file)}", tools)
    return Call(tool, {_file_key(tool): file, "content": text})


def _file_key(tool: Tool) -> str:
    return next(
        (key for key in ("file_path", "absolute_path", "path") if key in tool.properties), "file_path"
    )


def _ask(wish: AskUser, tools: tuple[Tool, ...]) -> Part:
    tool = _named(tools, _ASKERS)
    if tool is None:
        return Text(
            " ".join((wish.question, *(f"({n}) {option}" for n, option in enumerate(wish.options, 1))))
        )
    question: dict[str, Any] = {
        "question": wish.question,
        "header": "Question",
        "options": [{"label": option, "description": option} for option in wish.options],
    }
    extra: dict[str, dict[str, Any]] = {
        "AskUserQuestion": {"multiSelect": False},
        "ask_user": {"type": "choice", "multiSelect": False},
        "ask_user_question": {"multi_select": False},
        "request_user_input": {"id": "question"},
    }
    return Call(tool, {"questions": [question | extra[tool.name]]})
