"""The session directory of 2.x: ``session_<date>_<time>_<8 of the id>/{meta.json,messages.jsonl}``.

3.x takes such a directory in under a new id when it is asked to resume it, so this is also the form in which
every cut is written. 2.x refuses a directory with a single damaged line, and 3.x an import of it.

A line of a 2.x session as entries: one message of the chat, in the form in which the model is sent it.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.base import damaged, entry_id
from segue.agents.vibe.anchors import Damaged
from segue.core.transcript import Entry

MESSAGES, META, ATTACHMENTS = "messages.jsonl", "meta.json", "attachments"
OURS = "written_by"
"""The key in ``meta.json`` that marks a directory as a cut of ours."""


class PlainLine(msgspec.Struct, frozen=True):
    """One message, and the line it stands in."""

    role: str
    content: Any = None
    injected: Any = False
    raw: bytes = b""

    @property
    def opens(self) -> bool:
        return self.role == "user" and not self.injected

    def text(self) -> str:
        return self.content if isinstance(self.content, str) else ""

    def line(self) -> bytes | None:
        return self.raw


_line = msgspec.json.Decoder(PlainLine)


def root_of(home: Path) -> Path:
    return home / "logs" / "session"


def find_folder(home: Path, session: str) -> Path | None:
    """The directory of a session: eight characters of the id are in its name, the rest in its meta."""
    unclear = None
    for folder in sorted(root_of(home).glob(f"session_*_{session[:8]}")):
        if not (folder / MESSAGES).is_file():
            continue
        known = meta_of(folder)
        if known is not None and known.get("session_id") == session:
            return folder
        unclear = folder if known is None else unclear
    return unclear


def meta_of(folder: Path) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode((folder / META).read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def messages_file(folder: Path) -> Iterator[PlainLine]:
    try:
        with (folder / MESSAGES).open("rb") as lines:
            for raw in lines:
                yield msgspec.structs.replace(_line.decode(raw), raw=raw)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged from error


def compacted(folder: Path) -> bool:
    """2.x goes on in a new session when it has compacted one, and names the old one its parent."""
    return bool((meta_of(folder) or {}).get("parent_session_id"))


def write_folder(
    home: Path, session: str, known: dict[str, Any], lines: Sequence[bytes], source: Path
) -> bool:
    """A session of these lines, whole or not at all; False when another one has taken its short id.

    ``source`` is where it was cut from: pictures that messages show lie there as files.
    """
    if any(root_of(home).glob(f"session_*_{session[:8]}")):
        return False
    name = f"session_{time.strftime('%Y%m%d_%H%M%S', time.gmtime())}_{session[:8]}"
    target = root_of(home) / name
    part = target.with_name(f".{name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True, mode=0o700)
    try:
        _put(part / MESSAGES, lines)
        _put(part / META, [msgspec.json.encode(known | {"session_id": session, OURS: "segue"})])
        with suppress(FileNotFoundError):
            shutil.copytree(source / ATTACHMENTS, part / ATTACHMENTS)
        part.rename(target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    return True


def discard(home: Path, session: str) -> None:
    """Take away a cut of ours once the CLI has taken it in; never anything else."""
    folder = find_folder(home, session)
    if folder is not None and (meta_of(folder) or {}).get(OURS) == "segue":
        shutil.rmtree(folder, ignore_errors=True)


def _put(path: Path, pieces: Sequence[bytes]) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.writelines(pieces)
        file.flush()
        os.fsync(file.fileno())


ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
SUMMARY, SUMMARY_END = "<compaction_summary>", "</compaction_summary>"
FAILED = ("<tool_error>", "<user_cancellation>")
"""How the result of a tool begins that failed, or was never run to its end."""


class _Function(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: str | None = None


class Call(msgspec.Struct, frozen=True):
    id: str | None = None
    function: _Function = _Function()


class Source(msgspec.Struct, frozen=True):
    kind: str = ""
    path: str = ""
    data: msgspec.Raw = msgspec.Raw(b"")


class Image(msgspec.Struct, frozen=True):
    """A picture: a file beside the session, or its data in the line."""

    source: Source = Source()
    data: msgspec.Raw = msgspec.Raw(b"")

    @property
    def size(self) -> int:
        return max(len(self.source.data), len(self.data))


class _Part(msgspec.Struct, frozen=True):
    text: str = ""


class FolderLine(msgspec.Struct, frozen=True):
    role: str
    content: str | list[_Part] | None = None
    injected: bool = False
    reasoning_content: str | list[_Part] | None = None
    tool_calls: list[Call] | None = None
    name: str | None = None
    tool_call_id: str | None = None
    message_id: str | None = None
    images: list[Image] | None = None

    @property
    def words(self) -> str:
        return _words(self.content)

    @property
    def opens(self) -> bool:
        return self.role == "user" and not self.injected


_folder_line = msgspec.json.Decoder(FolderLine)
_any = msgspec.json.Decoder()


def decoded(text: bytes) -> FolderLine | None:
    try:
        return _folder_line.decode(text)
    except ERRORS:
        return None


def entries(text: bytes, start: int) -> Sequence[Entry]:
    try:
        line = _folder_line.decode(text)
    except ERRORS as error:
        return (damaged(start, f"not a message of Vibe: {error}"),)
    native = line.message_id or ""
    match line.role:
        case "user":
            return (_prompt(line, start, native),)
        case "assistant":
            return tuple(_answer(line, start, native))
        case "tool":
            return (
                Entry(
                    id=entry_id(start),
                    kind="result",
                    text=line.words,
                    tool=line.name or "",
                    call=line.tool_call_id or "",
                    failed=line.words.startswith(FAILED),
                    images=_sizes(line),
                ),
            )
        case "system":
            return (
                Entry(
                    id=entry_id(start), kind="state", label="instructions", text=line.words, restored=False
                ),
            )
        case role:
            return (Entry(id=entry_id(start), kind="unknown", label=role, restored=False),)


def summary_of(text: str) -> str | None:
    """What a compaction left of the past, where the text carries it."""
    begin = text.find(SUMMARY)
    if begin < 0:
        return None
    end = text.rfind(SUMMARY_END)
    return text[begin + len(SUMMARY) : end if end > begin else None].strip()


def arguments(text: str | None) -> Any:
    """The input of a call, as an object where it is one."""
    try:
        return _any.decode(text or "{}")
    except ERRORS:
        return text


def _prompt(line: FolderLine, start: int, native: str) -> Entry:
    said = summary_of(line.words) if line.injected else None
    return Entry(
        id=entry_id(start),
        kind="user" if said is None else "boundary",
        text=line.words if said is None else said,
        native=native,
        inserted=line.injected,
        images=_sizes(line),
    )


def _answer(line: FolderLine, start: int, native: str) -> Iterator[Entry]:
    """What it thought, said and asked for; an answer without any of it is an empty one."""
    thought, said = _words(line.reasoning_content), line.words
    n = 0
    if thought:
        yield Entry(id=entry_id(start), kind="thinking", text=thought, native=native)
        n += 1
    if said or not (thought or line.tool_calls):
        yield Entry(id=entry_id(start, n), kind="assistant", text=said, native=native)
        n += 1
    for call in line.tool_calls or ():
        yield Entry(
            id=entry_id(start, n),
            kind="call",
            native=native,
            tool=call.function.name or "",
            input=arguments(call.function.arguments),
            call=call.id or "",
        )
        n += 1


def _sizes(line: FolderLine) -> tuple[int, ...]:
    return tuple(image.size for image in line.images) if line.images else ()


def _words(content: str | list[_Part] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text for part in content)
