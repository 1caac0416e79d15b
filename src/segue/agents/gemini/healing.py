"""What is wrong in a session's messages, put right while they pass by. Pure but for the counting.

A **round** is an answer with what was said back to its calls, or a prompt alone: all that has to fit together
stands in one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from segue.agents.base import Mending
from segue.agents.gemini.message import ECHO, Message, Part, answer_id, answered, calls, is_prompt, parts
from segue.core.loose import items, table, text

SHORT = 200
"""Tool output of so many characters is kept when the rest is trimmed."""
_INTERRUPTED = {"error": "The call was interrupted: it has no result."}

_WORDS = (
    ("damaged", "{} that could not be read {} left out", "line"),
    ("calls", "{} without a result {} closed", "call"),
    ("orphans", "{} without a call {} left out", "result"),
    ("empty", "{} without a word {} left out", "answer"),
    ("images", "{} {} replaced by a line of text", "image"),
    ("outputs", "{} of tools {} replaced by a note", "output"),
    ("before", "{} before the chosen one {} left out", "message"),
)


def in_words(counted: Counter[str]) -> tuple[str, ...]:
    return tuple(
        form.format(f"{n} {noun}{'' if n == 1 else 's'}", "was" if n == 1 else "were")
        for key, form, noun in _WORDS
        if (n := counted[key])
    )


def rounds(messages: Iterable[Message]) -> Iterator[list[Message]]:
    now: list[Message] = []
    for message in messages:
        if now and (message.get("type") == "gemini" or is_prompt(message)):
            yield now
            now = []
        now.append(message)
    if now:
        yield now


def healed(messages: list[Message], mending: Mending, counted: Counter[str]) -> list[Message]:
    """One round."""
    first = messages[0]
    made = {text(call.get("id")): call for call in _made(first)}
    if first.get("type") == "gemini" and not made and not _says(first):
        counted["empty"] += 1
        messages = messages[1:]
    kept = [one for message in messages if (one := _with_own(message, made, counted)) is not None]
    kept = _closed(kept, made, counted)
    # an output that has a message of its own is counted there
    beside = Counter[str]() if any(map(answered, kept)) else counted
    return [_lightened(message, mending, counted, beside) for message in kept]


def _made(message: Message) -> list[dict[str, Any]]:
    if message.get("type") != "gemini":
        return []
    return calls(message) or list(map(table, items(message.get("toolCalls"))))


def _says(message: Message) -> bool:
    said = [part for part in parts(message) if not part.get("thought")]
    return any(text(part.get("text")).strip() or set(part) - {"text"} for part in said)


def _with_own(message: Message, made: dict[str, Any], counted: Counter[str]) -> Message | None:
    """Without results of calls that nobody made."""
    if message.get("type") != "user" or not answered(message):
        return message
    own = [part for part in parts(message) if "functionResponse" not in part or answer_id(part) in made]
    if len(own) == len(parts(message)):
        return message
    counted["orphans"] += len(parts(message)) - len(own)
    return message | {"content": own} if own else None


def _closed(messages: list[Message], made: dict[str, Any], counted: Counter[str]) -> list[Message]:
    """With a result for each call that has none: where the results of its neighbours are."""
    if not made:
        return messages
    first, *rest = messages
    recorded = list(map(table, items(first.get("toolCalls"))))
    known = {text(call.get("id")) for call in recorded if call.get("result")}
    known |= {key for message in rest for key in answered(message)}
    missing = [_no_result(key, call) for key, call in made.items() if key not in known]
    if not missing:
        return messages
    counted["calls"] += len(missing)
    for at, message in enumerate(rest):
        if answered(message):
            return [first, *rest[:at], message | {"content": parts(message) + missing}, *rest[at + 1 :]]
    if recorded:
        lacking = {answer_id(part): [part] for part in missing}
        filled = [
            call | {"result": lacking.get(text(call.get("id")), call.get("result"))} for call in recorded
        ]
        return [first | {"toolCalls": filled}, *rest]
    when = {"timestamp": first["timestamp"]} if "timestamp" in first else {}
    return [first, {"id": first["id"] + ECHO, **when, "type": "user", "content": missing}, *rest]


def _no_result(key: str, call: dict[str, Any]) -> Part:
    return {"functionResponse": {"id": key, "name": text(call.get("name")), "response": _INTERRUPTED}}


# --- weight ----------------------------------------------------------------------------------------


def _lightened(message: Message, mending: Mending, counted: Counter[str], beside: Counter[str]) -> Message:
    """Without images that are too large and, where it is wanted, without any and without tool output."""
    changed = dict(message)
    if isinstance(message.get("content"), list):
        changed["content"] = _lighter(message["content"], mending, counted)
    elif isinstance(message.get("content"), dict):
        changed["content"] = _part(message["content"], mending, counted)
    if done := items(message.get("toolCalls")):
        changed["toolCalls"] = [_lighter_call(table(call), mending, beside) for call in done]
    return changed


def _lighter_call(call: dict[str, Any], mending: Mending, counted: Counter[str]) -> dict[str, Any]:
    changed = dict(call)
    if isinstance(call.get("result"), list):
        changed["result"] = _lighter(call["result"], mending, counted)
    if mending.trim:
        changed.pop("resultDisplay", None)
    return changed


def _lighter(content: list[Any], mending: Mending, counted: Counter[str]) -> list[Any]:
    return [_part(part, mending, counted) if isinstance(part, dict) else part for part in content]


def _part(part: Part, mending: Mending, counted: Counter[str]) -> Part:
    data = text(table(part.get("inlineData")).get("data"))
    if data and (mending.trim or len(data) > mending.image_bytes):  # in bytes of the file, as it is checked
        counted["images"] += 1
        return {"text": f"[an image of {_size(len(data))} was left out]"}
    answer = table(part.get("functionResponse"))
    if not answer:
        return part
    changed = dict(answer)
    if isinstance(answer.get("parts"), list):
        changed["parts"] = _lighter(answer["parts"], mending, counted)
        changed["parts"] = [one for one in changed["parts"] if "text" not in one]
    if mending.trim and (size := len(repr(answer.get("response")))) > SHORT:
        counted["outputs"] += 1
        changed["response"] = {"output": f"[output of {_size(size)} was left out]"}
    return part | {"functionResponse": changed}


def _size(count: int) -> str:
    return f"{count / 2**20:.1f} MB" if count >= 2**20 else f"{max(1, count // 1024)} KB"
