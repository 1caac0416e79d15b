"""Sessions in memory, for tests of what works on any format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from segue.agents.base import CutRequest, RepairedCopy, RepairOptions, StoredSession, WindowRules
from segue.agents.jsonl import JsonlArchive
from segue.core.request import Runtime, Start
from segue.core.transcript import Brief, Entry
from segue.sessions.agent_homes import AgentHome


class MadeReader(JsonlArchive):
    """Each line is an entry as JSON, or a list of entries; a session is a file ``<id>.jsonl``."""

    window_rules = WindowRules(reserved=1_000, compacts_at=0.9)
    read_briefs = 0

    def stored(self, home: Path) -> Iterator[StoredSession]:
        for path in home.glob("*.jsonl"):
            stat = path.stat()
            yield StoredSession(
                id=path.stem, home=home, file=str(path), size=stat.st_size, changed_ns=stat.st_mtime_ns
            )

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

    def repair(self, stored: StoredSession, new_id: str, options: RepairOptions) -> RepairedCopy:
        raise NotImplementedError

    def remove(self, stored: StoredSession) -> None:
        stored.path.unlink()


class MadeFormat:
    """Where those sessions are found. They are never run."""

    def __init__(self, reader: MadeReader) -> None:
        self._reader = reader

    def find(self, home: Path, session: str, cwd: Path | None = None) -> StoredSession | None:
        return next((each for each in self._reader.stored(home) if each.id == session), None)

    def end(self, stored: StoredSession) -> str | None:
        return None

    def cut(self, stored: StoredSession, wanted: CutRequest) -> Start | None:
        return None

    def continues(self, stored: StoredSession, anchor: str) -> bool:
        return False

    def make_resumable(self, stored: StoredSession, runtime: Runtime) -> None: ...

    def login(self, home: Path, env: Mapping[str, str]) -> str | None:
        return None


def made_home(home: Path, reader: MadeReader, agent: str = "made", account: str | None = None) -> AgentHome:
    return AgentHome(agent, account, home, MadeFormat(reader), reader)


def write(home: Path, name: str, *lines: object, brief: dict[str, object] | None = None) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    path = home / f"{name}.jsonl"
    head: list[object] = [{"brief": brief}] if brief is not None else []
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in (*head, *lines)))
    return path
