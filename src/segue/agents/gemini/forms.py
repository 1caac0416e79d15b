"""The two forms in which a session's messages are written, and how each is made from the other.

**Lines** (0.39 and newer): calls and results as parts of the content. What those versions write themselves
contains both forms at once, and every resume then sends the results again. **Object** (older): calls with
their results in ``toolCalls``; those versions turn parts into text.

In both, ids stay the same, and the model gets what the turn itself sent, so that it is still in the prompt
cache: hence the mark on calls without a signature, and the text for an interruption, which Gemini itself adds
while a turn runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.gemini.schema import (
    BLANK,
    INTERRUPTED,
    RawMessage,
    RawPart,
    is_command_text,
    is_context_text,
    raw_parts,
)
from segue.core.ids import version_parts
from segue.core.json_values import as_items, as_table, as_text
from segue.core.request import Runtime
from segue.system import clock

ECHO = "_response"
"""Suffix of a message's id: under this id, Gemini repeats the results of that message's calls."""
_NAMED_PARTS = (
    *("videoMetadata", "thought", "codeExecutionResult", "executableCode", "fileData", "functionCall"),
    *("functionResponse", "inlineData"),
)
_UNSIGNED = "skip_thought_signature_validator"
_NO_RESULT = {"error": "The result of this call was not recorded."}


class Form(msgspec.Struct, frozen=True):
    suffix: str
    shape: Callable[[list[RawMessage]], list[RawMessage]]


def form_of(runtime: Runtime, path: Path) -> Form:
    """The form that a version reads: lines since 0.39; if the version is unknown, the file's own form."""
    version = version_parts(runtime.version)
    lines = version >= (0, 39) if version else path.suffix == ".jsonl"
    return LINES if lines or runtime.capabilities.choose_id else OBJECT


def encoded(suffix: str, header: dict[str, Any], states: list[list[RawMessage]]) -> bytes:
    """A session as a file of that kind; if there are several states, each replaces the one before."""
    if suffix == ".json":
        return _as_json(header | {"messages": states[-1]}, indent=2)
    patches = [{"$set": {"messages": messages}} for messages in states[1:]]
    return b"".join(_as_json(record) + b"\n" for record in (header, *states[0], *patches))


def new_session(beside: Path, session: str, suffix: str) -> tuple[Path, dict[str, Any]]:
    """The path of a session that begins now, and its header fields."""
    now = datetime.fromtimestamp(clock.now_s(), UTC)
    stamp = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    marks = {"sessionId": session, "startTime": stamp, "lastUpdated": stamp}
    return beside.with_name(f"session-{now:%Y-%m-%dT%H-%M}-{session[:8]}{suffix}"), marks


def with_project(header: dict[str, Any], path: Path) -> dict[str, Any]:
    """The header with a project's hash, without which Gemini does not recognise a session."""
    return header | {"projectHash": header.get("projectHash") or path.parents[1].name}


def _as_json(value: Any, indent: int | None = None) -> bytes:
    """As Gemini writes it, except that half a surrogate pair can only be written as an escape."""
    try:
        data = msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        data = json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
    return data if indent is None else msgspec.json.format(data, indent=indent)


# --- what a message is -----------------------------------------------------------------------------


def raw_calls(message: RawMessage) -> list[RawPart]:
    """The calls in the content."""
    return [as_table(part["functionCall"]) for part in raw_parts(message) if "functionCall" in part]


def answered(message: RawMessage) -> list[str]:
    """The ids of the calls whose results a message contains."""
    return [answer_id(part) for part in raw_parts(message) if "functionResponse" in part]


def answer_id(part: RawPart) -> str:
    return as_text(as_table(part.get("functionResponse")).get("id"))


def is_context(message: RawMessage) -> bool:
    return message.get("type", "user") == "user" and is_context_text(_shown(message))


def is_passed_over(message: RawMessage) -> bool:
    """Whether a message is one of Gemini's own commands, which a resume leaves out."""
    return message.get("type") == "user" and is_command_text(_shown(message))


def is_sent(message: RawMessage) -> bool:
    """Whether the model gets anything of a message: only such messages stay in the session."""
    match message.get("type"):
        case "user":
            return bool(_shown(message)) and not is_context(message)
        case "gemini":
            beside = any(as_items(message.get(key)) for key in ("toolCalls", "thoughts"))
            return beside or bool(raw_parts(message))
    return False


def is_prompt(message: RawMessage) -> bool:
    """Whether it is text of the user, not results of tools."""
    return message.get("type") == "user" and is_sent(message) and not answered(message)


def _shown(message: RawMessage) -> str:
    """The text by which Gemini decides what to leave out; only its beginning matters."""
    for part in raw_parts(message):
        if any(part.get(name) is not None for name in _NAMED_PARTS):
            return "["
        words = as_text(part.get("text")).strip(BLANK)
        if words:
            return words
    return ""


# --- lines -----------------------------------------------------------------------------------------


def as_lines(messages: list[RawMessage]) -> list[RawMessage]:
    """Each call once and each result once, as parts; nothing that a resume would leave out."""
    homes = _homes(messages)
    lines: list[RawMessage] = []
    last: RawMessage = {}
    for message in messages:
        if message.get("type") == "gemini":
            lines += _answer_lines(message, homes)
        elif message.get("type") == "user":
            lines += _user_lines(message, homes, last)
        else:
            lines.append(message)
        last = lines[-1] if lines and is_sent(lines[-1]) else last
    return lines


def _homes(messages: list[RawMessage]) -> dict[str, str]:
    """For each call with a result, the message that keeps the result: not an echo, if there is a choice."""
    homes: dict[str, str] = {}
    for message in messages:
        for call in filter(None, answered(message) if message.get("type") == "user" else ()):
            if call not in homes or homes[call].endswith(ECHO):
                homes[call] = message["id"]
    return homes


def _answer_lines(message: RawMessage, homes: dict[str, str]) -> Iterator[RawMessage]:
    recorded = {as_text(call.get("id")): call for call in map(as_table, as_items(message.get("toolCalls")))}
    made = {as_text(call.get("id")): call for call in raw_calls(message)} or recorded
    if not made:
        yield message
        return
    said = raw_parts(message) + ([] if raw_calls(message) else list(map(_call, recorded.values())))
    yield {key: value for key, value in message.items() if key != "toolCalls"} | {"content": _marked(said)}
    open_calls = [recorded.get(key, call) for key, call in made.items() if key and key not in homes]
    if open_calls:
        yield _beside(message, ECHO, "user", [part for call in open_calls for part in _results(call)])


def _call(call: dict[str, Any]) -> RawPart:
    return {"functionCall": {key: call[key] for key in ("id", "name", "args") if key in call}}


def _marked(said: list[RawPart]) -> list[RawPart]:
    """The parts with a signature on the first call: the model's, or the mark for none."""
    first = next(at for at, part in enumerate(said) if "functionCall" in part)
    if "thoughtSignature" in said[first]:
        return said
    return [*said[:first], said[first] | {"thoughtSignature": _UNSIGNED}, *said[first + 1 :]]


def _results(call: dict[str, Any]) -> list[RawPart]:
    """The recorded results of one call, without those of other calls that a resume may have put there."""
    key, result = as_text(call.get("id")), call.get("result")
    parts = result if isinstance(result, list) else [result] if isinstance(result, dict) else []
    known = [part for part in parts if isinstance(part, dict)]
    if key in map(answer_id, known):
        return _distinct(part for part in known if answer_id(part) in ("", key))
    if any("functionResponse" in part for part in known):
        return known
    response = {"output": result} if isinstance(result, str) else _NO_RESULT
    return [{"functionResponse": {"id": key, "name": as_text(call.get("name")), "response": response}}]


def _user_lines(message: RawMessage, homes: dict[str, str], before: RawMessage) -> Iterator[RawMessage]:
    if answered(message):
        own = [part for part in raw_parts(message) if homes.get(answer_id(part), "") in ("", message["id"])]
        if any("functionResponse" in part for part in own):
            yield message | {"content": _distinct(own)}
        return
    if is_prompt(message) and before.get("type") == "user" and answered(before):
        yield _beside(before, "_interrupted", "gemini", [{"text": INTERRUPTED}])
    if is_passed_over(message):
        message = message | {"content": [{"text": "", "thought": True}, *raw_parts(message)]}
    yield message


def _distinct(parts: Iterable[RawPart]) -> list[RawPart]:
    """Each part once: results are compared by their call, others by their content."""
    kept: dict[str, RawPart] = {}
    for part in parts:
        kept.setdefault(answer_id(part) or repr(part), part)
    return list(kept.values())


def _beside(message: RawMessage, mark: str, kind: str, content: list[RawPart]) -> RawMessage:
    when = {"timestamp": message["timestamp"]} if "timestamp" in message else {}
    return {"id": message["id"] + mark, **when, "type": kind, "content": content}


# --- one object ------------------------------------------------------------------------------------


def as_object(messages: list[RawMessage]) -> list[RawMessage]:
    """Each call with its result beside the text; no context, which these versions would send twice."""
    results = {
        answer_id(part): part
        for message in messages
        if message.get("type") == "user"
        for part in raw_parts(message)
        if "functionResponse" in part
    }
    shaped = []
    for message in messages:
        if message.get("type") == "gemini":
            shaped.append(_with_calls(message, results))
        elif not is_context(message) and not answered(message):
            shaped.append(_without_thoughts(message))
    return shaped


def _without_thoughts(message: RawMessage) -> RawMessage:
    """These versions would send an empty thought; ``"thought": false`` protects a command as well."""
    said = raw_parts(message)
    if any(part.get("thought") for part in said):
        message = message | {"content": [part for part in said if not part.get("thought")]}
    if is_passed_over(message):
        message = message | {"content": [part | {"thought": False} for part in raw_parts(message)]}
    return message


def _with_calls(message: RawMessage, results: dict[str, RawPart]) -> RawMessage:
    recorded = list(map(as_table, as_items(message.get("toolCalls")))) or raw_calls(message)
    if not recorded and not isinstance(message.get("content"), list):
        return message
    words = "".join(as_text(part.get("text")) for part in raw_parts(message) if not part.get("thought"))
    changed = message | {"content": words}
    if recorded:
        changed["toolCalls"] = [_with_result(call, message, results) for call in recorded]
    return changed


def _with_result(call: dict[str, Any], message: RawMessage, results: dict[str, RawPart]) -> dict[str, Any]:
    key = as_text(call.get("id"))
    complete = {"status": "success", "timestamp": as_text(message.get("timestamp"))} | call
    complete["result"] = [results[key]] if not call.get("result") and key in results else _results(call)
    return complete


LINES = Form(".jsonl", as_lines)
OBJECT = Form(".json", as_object)
