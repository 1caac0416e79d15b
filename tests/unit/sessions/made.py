"""Sessions in memory, for tests of what works on any format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from segue.agents.base import JsonlArchive, StoredSession, WindowRules
from segue.core.transcript import Brief, Entry


class MadeReader(JsonlArchive):
    """Each line is an entry as JSON, or a list of entries; a session is a file ``<id>.jsonl``."""

    allowance = WindowRules(reserved=1_000, compacts_at=0.9)
    read_briefs = 0

    def stored(self, home: Path) -> Iterator[StoredSession]:
        for path in home.glob("*.jsonl"):
            stat = path.stat()
            yield StoredSession(
                id=path.stem, home=home, file=str(path), size=stat.st_size, changed_ns=stat.st_mtime_ns
            )

    def find(self, home: Path, session: str) -> StoredSession | None:
        return next((each for each in self.stored(home) if each.id == session), None)

    def brief(self, stored: StoredSession) -> Brief:
        self.read_briefs += 1
        first = msgspec.json.decode(stored.path.read_bytes().split(b"\n")[0] or b"{}")
        return msgspec.convert(first.get("brief", {}), Brief) if isinstance(first, dict) else Brief()

    def entries(self, text: bytes, start: int) -> Sequence[Entry]:
        said = msgspec.json.decode(text)
        said = [each for each in (said if isinstance(said, list) else [said]) if "kind" in each]
        return [msgspec.convert({"id": f"{start}.{n}", **each}, Entry) for n, each in enumerate(said)]

    def files(self, stored: StoredSession) -> Sequence[Path]:
        return (stored.path,)

    def expires_ms(self, stored: StoredSession, brief: Brief) -> int | None:
        return None


def write(home: Path, name: str, *lines: object, brief: dict[str, object] | None = None) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    path = home / f"{name}.jsonl"
    head: list[object] = [{"brief": brief}] if brief is not None else []
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in (*head, *lines)))
    return path
