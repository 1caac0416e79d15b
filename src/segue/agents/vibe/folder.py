"""The session directory of 2.x: ``session_<date>_<time>_<8 of the id>/{meta.json,messages.jsonl}``.

A line is one message of the chat, in the form in which it is sent to the model. 3.x imports such a directory
under a new id to resume it, so a cut can be written as one, too. 2.x refuses a directory with a single
damaged line, and 3.x refuses to import it.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from segue.agents.base import StoredSession, damaged, entry_id
from segue.agents.decoding import DAMAGE
from segue.agents.vibe.anchors import Damaged
from segue.agents.vibe.meta import META, session_id
from segue.core.errors import Broken
from segue.core.transcript import Entry
from segue.system import clock
from segue.system.files import whole_tree

MESSAGES, ATTACHMENTS = "messages.jsonl", "attachments"
OURS = "written_by"
"""The key in ``meta.json`` that marks a directory as a cut of ours."""
SUMMARY, SUMMARY_END = "<compaction_summary>", "</compaction_summary>"
FAILED = ("<tool_error>", "<user_cancellation>")
"""How the result of a tool begins that failed or was interrupted."""


class _Function(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct, frozen=True):
    id: str | None = None
    function: _Function = _Function()


class _Source(msgspec.Struct, frozen=True):
    path: str = ""
    data: msgspec.Raw = msgspec.Raw(b"")


class Image(msgspec.Struct, frozen=True):
    """An image: a file beside the session, or its data in the line."""

    source: _Source = _Source()
    data: msgspec.Raw = msgspec.Raw(b"")

    @property
    def size(self) -> int:
        """The size of the data in the file, where it is text, without the quotes."""
        return max(len(self.source.data) - 2, len(self.data) - 2, 0)


class _Part(msgspec.Struct, frozen=True):
    text: str = ""


class Line(msgspec.Struct, frozen=True):
    """One message."""

    role: str
    content: str | list[_Part] | None = None
    injected: bool = False
    reasoning_content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
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


class FolderMessage(msgspec.Struct, frozen=True):
    """A message together with its line."""

    message: Line
    raw: bytes

    @property
    def role(self) -> str:
        return self.message.role

    @property
    def opens(self) -> bool:
        return self.message.opens

    def text(self) -> str:
        return self.message.content if isinstance(self.message.content, str) else ""

    def line(self) -> bytes | None:
        return self.raw


_line = msgspec.json.Decoder(Line)
_any = msgspec.json.Decoder()


# --- where directories are -------------------------------------------------------------------------


def root_of(home: Path) -> Path:
    return home / "logs" / "session"


def find_folder(home: Path, session: str) -> Path | None:
    """The directory of a session: its name contains eight characters of the id, its meta all of it."""
    unclear = None
    for folder in sorted(root_of(home).glob(f"session_*_{session[:8]}")):
        if not (folder / MESSAGES).is_file():
            continue
        meta = meta_of(folder)
        if meta is not None and meta.get("session_id") == session:
            return folder
        unclear = folder if meta is None else unclear
    return unclear


def stored_folder(home: Path, path: str) -> StoredSession | None:
    """A directory as a session; its size is that of its messages."""
    try:
        messages = os.stat(f"{path}/{MESSAGES}")
    except OSError:
        return None
    if not stat.S_ISREG(messages.st_mode):
        return None
    changed = max(messages.st_mtime_ns, changed_ns(f"{path}/{META}"))
    session = session_id(path, path[-8:])
    return StoredSession(id=session, home=home, file=path, size=messages.st_size, changed_ns=changed)


def listed(path: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(path) as listing:
            yield from listing
    except OSError:
        return


def changed_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


# --- reading ---------------------------------------------------------------------------------------


def meta_of(folder: Path) -> dict[str, Any] | None:
    """The complete meta, to be written again."""
    try:
        return msgspec.json.decode((folder / META).read_bytes(), type=dict[str, Any])
    except (OSError, *DAMAGE):
        return None


def messages_in(folder: Path) -> Iterator[FolderMessage]:
    try:
        with (folder / MESSAGES).open("rb") as lines:
            for raw in lines:
                yield FolderMessage(_line.decode(raw), raw)
    except (OSError, *DAMAGE) as error:
        raise Damaged from error


def compacted(folder: Path) -> bool:
    """Whether it was compacted: 2.x then continues in a new session with the old one as its parent."""
    return bool((meta_of(folder) or {}).get("parent_session_id"))


def line_of(text: bytes) -> Line | None:
    try:
        return _line.decode(text)
    except DAMAGE:
        return None


def entries(text: bytes, start: int) -> Sequence[Entry]:
    try:
        line = _line.decode(text)
    except DAMAGE as error:
        return (damaged(start, f"not a Vibe message: {error}"),)
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
    """The summary of a compaction, if the text contains one."""
    begin = text.find(SUMMARY)
    if begin < 0:
        return None
    end = text.rfind(SUMMARY_END)
    return text[begin + len(SUMMARY) : end if end > begin else None].strip()


def arguments(text: str | None) -> Any:
    """The input of a call, decoded if it is JSON."""
    try:
        return _any.decode(text or "{}")
    except DAMAGE:
        return text


def _prompt(line: Line, start: int, native: str) -> Entry:
    summary = summary_of(line.words) if line.injected else None
    return Entry(
        id=entry_id(start),
        kind="user" if summary is None else "boundary",
        text=line.words if summary is None else summary,
        native=native,
        inserted=line.injected,
        images=_sizes(line),
    )


def _answer(line: Line, start: int, native: str) -> Iterator[Entry]:
    """Its reasoning, text and calls; an answer without any of them is empty."""
    thought, words = _words(line.reasoning_content), line.words
    n = 0
    if thought:
        yield Entry(id=entry_id(start), kind="thinking", text=thought, native=native)
        n += 1
    if words or not (thought or line.tool_calls):
        yield Entry(id=entry_id(start, n), kind="assistant", text=words, native=native)
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


def _sizes(line: Line) -> tuple[int, ...]:
    return tuple(image.size for image in line.images) if line.images else ()


def _words(content: str | list[_Part] | None) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part.text for part in content)


# --- writing ---------------------------------------------------------------------------------------


def new_folder(home: Path, session: str) -> Path | None:
    """The path of a new session; None if its short id is already used."""
    root = root_of(home)
    if any(root.glob(f"session_*_{session[:8]}")):
        return None
    now = datetime.fromtimestamp(clock.now_s(), UTC)
    return root / f"session_{now:%Y%m%d_%H%M%S}_{session[:8]}"


def write_folder(target: Path, meta: dict[str, Any], lines: Iterable[bytes], source: Path) -> None:
    """Write a session with these lines, completely or not at all. ``source`` contains their images."""
    with whole_tree(target) as part:
        count = _put(part / MESSAGES, lines)
        if not count:
            raise Broken("nothing can be saved")
        written = msgspec.json.encode(meta | {"total_messages": count})
        _put(part / META, [msgspec.json.format(written, indent=2)])
        if (source / ATTACHMENTS).is_dir():
            shutil.copytree(source / ATTACHMENTS, part / ATTACHMENTS)


def discard(home: Path, session: str) -> None:
    """Delete a cut of ours after the CLI has imported it, and never anything else."""
    folder = find_folder(home, session)
    if folder is not None and (meta_of(folder) or {}).get(OURS) == "segue":
        shutil.rmtree(folder, ignore_errors=True)


def _put(path: Path, lines: Iterable[bytes]) -> int:
    count = 0
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        for line in lines:
            file.write(line.rstrip(b"\n") + b"\n")
            count += 1
    return count
