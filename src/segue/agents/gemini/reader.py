"""Gemini's sessions, for those who only look."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from segue.agents.gemini import brief, document, expiry, listing, walking
from segue.agents.gemini.removing import artifacts
from segue.agents.reader import Allowance, Reader, Record, Stored, damaged
from segue.core.transcript import Brief


class GeminiReader:
    """Sessions of lines, and of one object as versions before 0.39 wrote them."""

    # Both versions compact at half of their table of windows, by the last request's input
    # (``DEFAULT_COMPRESSION_TOKEN_THRESHOLD``); they ask for no length of an answer and keep nothing free.
    allowance = Allowance(reserved=0, compacts_at=0.5, window=1_048_576, tried=("0.29.0", "0.61.0"))

    def stored(self, home: Path) -> Iterator[Stored]:
        return listing.stored(home)

    def find(self, home: Path, session: str) -> Stored | None:
        return listing.find(home, session)

    def brief(self, stored: Stored) -> Brief:
        return brief.brief(stored)

    def read(self, stored: Stored, start: int = 0) -> Iterator[Record]:
        if not stored.appends:
            yield from document.records(stored.path)[start:]
            return
        try:
            with stored.path.open("rb") as file:
                yield from walking.forward(file, start)
        except OSError as error:
            yield _unreadable(start, error)

    def back(self, stored: Stored, end: int | None = None) -> Iterator[Record]:
        if not stored.appends:
            yield from reversed(document.records(stored.path)[:end])
            return
        try:
            with stored.path.open("rb") as file:
                yield from walking.backward(file, end)
        except OSError as error:
            yield _unreadable(0, error)

    def side(self, stored: Stored) -> Sequence[Stored]:
        """New versions keep a subagent's session below its parent's id."""
        found = []
        for path in sorted((stored.path.parent / stored.id).glob("*.jsonl")):
            with suppress(OSError):
                seen = path.stat()
                found.append(
                    Stored(
                        id=path.stem,
                        home=stored.home,
                        file=str(path),
                        size=seen.st_size,
                        changed_ns=seen.st_mtime_ns,
                    )
                )
        return found

    def files(self, stored: Stored) -> Sequence[Path]:
        """With the name of its directory, by which Gemini knows a project's folder again."""
        project = stored.path.parents[1]
        beside = [file for path in artifacts(project, stored.id) for file in (path, *sorted(path.rglob("*")))]
        found = [stored.path, project / ".project_root", *beside]
        return [file for file in found if file.is_file() and file.is_relative_to(stored.home)]

    def expires_ms(self, stored: Stored, brief: Brief) -> int | None:
        return expiry.expires_ms(stored, brief)


def _unreadable(start: int, error: OSError) -> Record:
    return Record(start, start, (damaged(start, f"it cannot be read: {error.strerror or error}"),))


READER: Reader = GeminiReader()
