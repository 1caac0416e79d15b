"""A new session beside a broken one, with what can be saved of it, in the form that its versions resume.

Sessions of lines are streamed: the file is read once for its outline and a second time for the messages, one
round at a time. A **round** is an answer with the results of its calls, or a prompt alone: everything that
has to match is in one round. One object is read as a whole, as Gemini does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import dropwhile
from pathlib import Path
from typing import IO, Any

from segue.agents.base import RepairedCopy, RepairOptions, StoredSession
from segue.agents.gemini import files, walk
from segue.agents.gemini.forms import (
    ECHO,
    answer_id,
    answered,
    as_lines,
    as_object,
    encoded,
    is_prompt,
    is_sent,
    new_session,
    raw_calls,
    with_project,
)
from segue.agents.gemini.history import WHOLE_BYTES, read_history, salvage
from segue.agents.gemini.schema import RawMessage, RawPart, raw_parts
from segue.agents.repair_words import IMAGE_LEFT_OUT, INTERRUPTED, OUTPUT_LEFT_OUT, Repairs, repaired_copy
from segue.core.errors import Broken, NotFound
from segue.core.json_values import as_items, as_table, as_text
from segue.system.files import whole_file, write_whole

SHORT_OUTPUT = 200
"""Tool output up to this size is kept when the rest is trimmed."""
_LATER = ("memoryScratchpad",)


def repair(stored: StoredSession, new_id: str, options: RepairOptions) -> RepairedCopy:
    if any(files.find_file(stored.home, new_id)):
        raise Broken(f"a session whose id begins with {new_id[:8]} already exists; use another id")
    target, marks = new_session(stored.path, new_id, stored.path.suffix)
    repairs = Repairs()
    try:
        (_lines if stored.appends else _object)(stored, target, marks, options, repairs)
    except (OSError, ValueError, RecursionError) as error:
        raise Broken(f"the session cannot be repaired: {error}") from error
    return repaired_copy(new_id, target, repairs)


def _lines(stored: StoredSession, target: Path, marks: Any, options: RepairOptions, repairs: Repairs) -> None:
    with stored.path.open("rb") as file:
        outline = walk.Outline().read(file)
        repairs["damaged"] = outline.damaged
        since = _since(file, options)
        refs = _chosen(outline.messages, since, repairs)
        rest = _from_prompt(walk.messages_at(file, refs), since is not None, repairs)
        with whole_file(target) as new:
            new.write(_line(_header(outline.fields, stored) | marks))
            said = 0
            for message in _shaped(rest, options, repairs):
                said += is_sent(message)
                new.write(_line(message))
            _refuse_nothing(said)


def _shaped(messages: Iterable[RawMessage], options: RepairOptions, repairs: Repairs) -> Iterator[RawMessage]:
    """The messages in the form of lines. Each round is shaped with the next prompt, to fill gaps between."""
    before: list[RawMessage] = []
    for one in _rounds(messages):
        now = _repaired(one, options, repairs)
        if before and now and is_prompt(now[0]):
            yield from as_lines([*before, now[0]])[:-1]
        else:
            yield from as_lines(before)
        before = now
    yield from as_lines(before)


def _object(
    stored: StoredSession, target: Path, marks: Any, options: RepairOptions, repairs: Repairs
) -> None:
    history = read_history(stored.path)
    if history is not None:
        header, messages = history.header, history.messages
    elif stored.path.stat().st_size > WHOLE_BYTES:
        raise Broken(f"the session is one object of more than {WHOLE_BYTES >> 20} MB")
    else:
        header, messages = salvage(stored.path.read_bytes())
        repairs["damaged"] = 1
    if options.since is not None:
        at = _number(options.since)[0]
        repairs["before"] = min(at, len(messages))
        messages = list(_from_prompt(messages[at:], True, repairs))
    kept = as_object([one for group in _rounds(messages) for one in _repaired(group, options, repairs)])
    _refuse_nothing(sum(map(is_sent, kept)))
    write_whole(target, encoded(".json", _header(header, stored) | marks, [kept]))


def _header(old: dict[str, Any], stored: StoredSession) -> dict[str, Any]:
    return {"kind": "main"} | {
        key: value for key, value in with_project(old, stored.path).items() if key not in _LATER
    }


# --- since -----------------------------------------------------------------------------------------


def _since(file: IO[bytes], options: RepairOptions) -> str | None:
    if options.since is None:
        return None
    message = walk.id_at(file, *_number(options.since))
    if message is None:
        raise NotFound(f'there is no event "{options.since}" in this session')
    return message


def _number(place: str) -> tuple[int, int]:
    start, _, n = place.partition(".")
    if not (start.isdigit() and n.isdigit()):
        raise NotFound(f'there is no event "{place}" in this session')
    return int(start), int(n)


def _chosen(refs: dict[str, walk.Ref], since: str | None, repairs: Repairs) -> list[walk.Ref]:
    if since is None:
        return list(refs.values())
    if since not in refs:
        raise Broken("that event is no longer part of the session")
    at = list(refs).index(since)
    repairs["before"] = at
    return list(refs.values())[at:]


def _from_prompt(messages: Iterable[RawMessage], wanted: bool, repairs: Repairs) -> Iterator[RawMessage]:
    """The messages from the first prompt on, if the beginning is left out (``wanted``)."""

    def early(message: RawMessage) -> bool:
        repairs["before"] += not is_prompt(message)
        return not is_prompt(message)

    known = (one for one in messages if isinstance(one.get("id"), str))
    return dropwhile(early, known) if wanted else iter(known)


def _refuse_nothing(said: int) -> None:
    if not said:
        raise Broken("the readable part of the session has no messages")


def _line(record: dict[str, Any]) -> bytes:
    return encoded(".jsonl", record, [[]])


# --- one round -------------------------------------------------------------------------------------


def _rounds(messages: Iterable[RawMessage]) -> Iterator[list[RawMessage]]:
    now: list[RawMessage] = []
    for message in messages:
        if now and (message.get("type") == "gemini" or is_prompt(message)):
            yield now
            now = []
        now.append(message)
    if now:
        yield now


def _repaired(messages: list[RawMessage], options: RepairOptions, repairs: Repairs) -> list[RawMessage]:
    """One round, repaired."""
    first = messages[0]
    made = {as_text(call.get("id")): call for call in _made(first)}
    if first.get("type") == "gemini" and not made and not _says(first):
        repairs["empty"] += 1
        messages = messages[1:]
    kept = [one for message in messages if (one := _with_own(message, made, repairs)) is not None]
    kept = _closed(kept, made, repairs)
    # an output that has its own message is counted there
    beside = Repairs() if any(map(answered, kept)) else repairs
    return [_lightened(message, options, repairs, beside) for message in kept]


def _made(message: RawMessage) -> list[dict[str, Any]]:
    if message.get("type") != "gemini":
        return []
    return raw_calls(message) or list(map(as_table, as_items(message.get("toolCalls"))))


def _says(message: RawMessage) -> bool:
    said = [part for part in raw_parts(message) if not part.get("thought")]
    return any(as_text(part.get("text")).strip() or set(part) - {"text"} for part in said)


def _with_own(message: RawMessage, made: dict[str, Any], repairs: Repairs) -> RawMessage | None:
    """The message without results of unknown calls; None if nothing remains."""
    if message.get("type") != "user" or not answered(message):
        return message
    own = [part for part in raw_parts(message) if "functionResponse" not in part or answer_id(part) in made]
    if len(own) == len(raw_parts(message)):
        return message
    repairs["orphans"] += len(raw_parts(message)) - len(own)
    return message | {"content": own} if own else None


def _closed(messages: list[RawMessage], made: dict[str, Any], repairs: Repairs) -> list[RawMessage]:
    """The round with a result for each call that has none, placed beside the other results."""
    if not made:
        return messages
    first, *rest = messages
    recorded = list(map(as_table, as_items(first.get("toolCalls"))))
    known = {as_text(call.get("id")) for call in recorded if call.get("result")}
    known |= {key for message in rest for key in answered(message)}
    missing = [_no_result(key, call) for key, call in made.items() if key not in known]
    if not missing:
        return messages
    repairs["closed"] += len(missing)
    for at, message in enumerate(rest):
        if answered(message):
            return [first, *rest[:at], message | {"content": raw_parts(message) + missing}, *rest[at + 1 :]]
    if recorded:
        lacking = {answer_id(part): [part] for part in missing}
        filled = [
            call | {"result": lacking.get(as_text(call.get("id")), call.get("result"))} for call in recorded
        ]
        return [first | {"toolCalls": filled}, *rest]
    when = {"timestamp": first["timestamp"]} if "timestamp" in first else {}
    return [first, {"id": first["id"] + ECHO, **when, "type": "user", "content": missing}, *rest]


def _no_result(key: str, call: dict[str, Any]) -> RawPart:
    return {
        "functionResponse": {"id": key, "name": as_text(call.get("name")), "response": {"error": INTERRUPTED}}
    }


# --- size ------------------------------------------------------------------------------------------


def _lightened(message: RawMessage, options: RepairOptions, repairs: Repairs, beside: Repairs) -> RawMessage:
    """The message without images that are too large or, if requested, without images and tool output."""
    changed = dict(message)
    if isinstance(message.get("content"), list):
        changed["content"] = _lighter(message["content"], options, repairs)
    elif isinstance(message.get("content"), dict):
        changed["content"] = _part(message["content"], options, repairs)
    if done := as_items(message.get("toolCalls")):
        changed["toolCalls"] = [_lighter_call(as_table(call), options, beside) for call in done]
    return changed


def _lighter_call(call: dict[str, Any], options: RepairOptions, repairs: Repairs) -> dict[str, Any]:
    changed = dict(call)
    if isinstance(call.get("result"), list):
        changed["result"] = _lighter(call["result"], options, repairs)
    if options.trim:
        changed.pop("resultDisplay", None)
    return changed


def _lighter(content: list[Any], options: RepairOptions, repairs: Repairs) -> list[Any]:
    return [_part(part, options, repairs) if isinstance(part, dict) else part for part in content]


def _part(part: RawPart, options: RepairOptions, repairs: Repairs) -> RawPart:
    data = as_text(as_table(part.get("inlineData")).get("data"))
    if data and (options.trim or len(data) > options.image_bytes):  # in bytes of the file, like the check
        repairs["images"] += 1
        return {"text": IMAGE_LEFT_OUT.format(len(data))}
    answer = as_table(part.get("functionResponse"))
    if not answer:
        return part
    changed = dict(answer)
    if isinstance(answer.get("parts"), list):
        changed["parts"] = _lighter(answer["parts"], options, repairs)
        changed["parts"] = [one for one in changed["parts"] if "text" not in one]
    if options.trim and (size := len(repr(answer.get("response")).encode())) > SHORT_OUTPUT:
        repairs["outputs"] += 1
        changed["response"] = {"output": OUTPUT_LEFT_OUT.format(size)}
    return part | {"functionResponse": changed}
