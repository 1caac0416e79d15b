"""How an agent's own sessions are read where they lie: found, looked at briefly, walked through.

A reader never changes anything and never raises for what it finds: what is damaged, unknown, half written
or forbidden is reported as such. Files may be of any size; only ``read`` goes through all of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Protocol

import msgspec

from segue.agents.records import LONGEST, backwards, forwards
from segue.core.transcript import Brief, Entry

HEAD, TAIL = 64 * 1024, 64 * 1024
"""A brief reads no more than these of a file: its beginning and its end."""


class Stored(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A native session as the file system shows it, before anybody looked inside."""

    id: str
    home: Path
    file: str
    """The path of its file, or of its directory. Text, because a list has thousands of them."""
    size: int
    changed_ns: int
    appends: bool = True
    """It is one file that only grows: a place in it holds, and what is new is behind what was there."""

    @property
    def path(self) -> Path:
        return Path(self.file)


class Record(msgspec.Struct, frozen=True, gc=False):
    """One record of a session: where it starts, where the next one does, and what it holds."""

    start: int
    next: int
    entries: Sequence[Entry]


class Allowance(msgspec.Struct, frozen=True):
    """How an agent's CLI treats a full window."""

    reserved: int
    """Tokens that it keeps free for the answer."""
    compacts_at: float | None
    """The share of the window at which it compacts by itself; None: it never does."""
    margin: int = 0
    """So many tokens before either of these it compacts already."""
    window: int | None = None
    """Where neither the session nor a turn told one."""
    tried: tuple[str, ...] = ()
    """The versions of the CLI that Segue is tested with, oldest first."""


class Reader(Protocol):
    """The sessions of one agent, for those who only look."""

    allowance: Allowance

    def stored(self, home: Path) -> Iterator[Stored]:
        """All sessions in a home, by names and ``stat`` alone, in any order."""
        ...

    def find(self, home: Path, session: str) -> Stored | None:
        """One session by its whole id."""
        ...

    def brief(self, stored: Stored) -> Brief:
        """From the file's first and last 64 KB, never more."""
        ...

    def read(self, stored: Stored, start: int = 0) -> Iterator[Record]:
        """The records from a place on, oldest first; one that is still being written is left out.

        ``start`` other than 0 is a record's ``next``, and only for sessions that ``appends``.
        """
        ...

    def back(self, stored: Stored, end: int | None = None) -> Iterator[Record]:
        """The records before a place (a ``start``; None: the end), newest first, read as asked for."""
        ...

    def side(self, stored: Stored) -> Sequence[Stored]:
        """The transcripts of its subagents, where they stand in files of their own."""
        ...

    def files(self, stored: Stored) -> Sequence[Path]:
        """All files that make the session, below its home: what a copy needs to be resumed elsewhere."""
        ...

    def expires_ms(self, stored: Stored, brief: Brief) -> int | None:
        """When the CLI's own clean-up will take it away, by the settings in its home; None: never."""
        ...


class Lines:
    """What readers of one record a line have in common; they say what a line holds."""

    def entries(self, text: bytes, start: int) -> Sequence[Entry]:
        """Pure: one line. Never raises. Each reader has its own."""
        raise NotImplementedError

    def opened(self, stored: Stored) -> AbstractContextManager[IO[bytes]]:
        return stored.path.open("rb")

    def read(self, stored: Stored, start: int = 0) -> Iterator[Record]:
        try:
            with self.opened(stored) as file:
                for line in forwards(file, start):
                    if line.whole:
                        yield self._record(line.start, line.next, line.text)
        except OSError as error:
            yield _unreadable(start, error)

    def back(self, stored: Stored, end: int | None = None) -> Iterator[Record]:
        try:
            with self.opened(stored) as file:
                for line in backwards(file, end):
                    yield self._record(line.start, line.next, line.text)
        except OSError as error:
            yield _unreadable(0, error)

    def side(self, stored: Stored) -> Sequence[Stored]:
        return ()

    def _record(self, start: int, following: int, text: bytes | None) -> Record:
        if text is None:
            return Record(start, following, (damaged(start, f"a line of over {LONGEST >> 20} MB"),))
        return Record(start, following, self.entries(text, start))


def entries_of(reader: Reader, stored: Stored) -> Iterator[Entry]:
    """All that stands in a session, oldest first."""
    return (entry for record in reader.read(stored) for entry in record.entries)


def place(start: int, n: int = 0) -> str:
    """The id of the nth entry of the record that starts there."""
    return f"{start}.{n}"


def damaged(start: int, why: str) -> Entry:
    return Entry(id=place(start), kind="damaged", text=why, restored=False)


def _unreadable(start: int, error: OSError) -> Record:
    return Record(start, start, (damaged(start, f"it cannot be read: {error.strerror or error}"),))
