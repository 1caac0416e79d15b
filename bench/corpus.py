"""A made-up past: 5,000 Claude sessions of 780 MB in all, and one transcript of 1 GB.

They are written once, from a seed, beside the programs of the live tests (``SEGUE_TEST_CACHE``), and take
about 1.8 GB there. ``python -m bench.corpus`` writes them and says where. The records are shaped as the real
CLI writes them, old and new; the words are nobody's.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.clis import cache

from bench.language import Language

SEED = 20261101
FORM = 1
"""Raised whenever this file writes something else than before."""
SESSIONS, BYTES = 5_000, 780_000_000
HUGE_BYTES = 1_000_000_000
PROJECTS = 60
SMALLEST = 4_000
SPREAD = 1.5
"""Most sessions are small and a few are large: their sizes are log-normal."""
END_S = 1_793_500_000
DAYS = 90
HUGE_ID = "00000000-0000-4000-8000-000000000001"


def homes() -> tuple[Path, Path]:
    """The home of the many sessions and that of the huge one; both are written if they are not there."""
    root = cache() / f"corpus-{FORM}"
    if not (root / ".written").exists():
        shutil.rmtree(root, ignore_errors=True)
        _many(root / "many")
        _huge(root / "huge")
        (root / ".written").write_text(f"{SEED}\n")
    return root / "many", root / "huge"


def _many(home: Path) -> None:
    rng = random.Random(SEED)
    language = Language(rng)
    projects = [f"/home/me/work/{language.name()}-{number}" for number in range(PROJECTS)]
    drawn = [rng.lognormvariate(0, SPREAD) for _ in range(SESSIONS)]
    share = (BYTES - SESSIONS * SMALLEST) / sum(drawn)
    owed = 0.0
    for number, part in enumerate(drawn):
        ended = END_S - DAYS * 86_400 * (1 - (number + 1) / SESSIONS)
        cwd = projects[min(int(rng.expovariate(1 / 12)), PROJECTS - 1)]
        owed += SMALLEST + part * share
        owed -= _session(home, language, cwd, _uuid(rng), max(int(owed), SMALLEST), ended)


def _huge(home: Path) -> None:
    language = Language(random.Random(SEED + 1))
    _session(home, language, "/home/me/work/huge", HUGE_ID, HUGE_BYTES, END_S)


def _session(home: Path, language: Language, cwd: str, session: str, size: int, ended: float) -> int:
    """Writes about so many bytes, and says how many they are: the last record is written to its end."""
    folder = home / "projects" / "".join(char if char.isalnum() else "-" for char in cwd)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{session}.jsonl"
    written = 0
    with path.open("w", encoding="utf-8") as file:
        for record in _Writer(language, cwd, session, ended).records(size):
            written += file.write(json.dumps(record, separators=(",", ":"), ensure_ascii=False) + "\n")
            if written >= size:
                break
    os.utime(path, (ended, ended))
    return path.stat().st_size


def _uuid(rng: random.Random) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"


class _Writer:
    """The records of one session, in the order in which the CLI appends them."""

    def __init__(self, language: Language, cwd: str, session: str, ended: float) -> None:
        self._language, self._rng = language, language.rng
        self._new = self._rng.random() < 0.4
        self._cwd, self._session = cwd, session
        self._now = ended - 7_200
        self._parent: str | None = None
        self._prompt = ""

    def records(self, size: int) -> Iterator[dict[str, object]]:
        """More than enough of them; whoever writes stops at the size."""
        if self._new:
            yield self._plain("queue-operation", operation="enqueue", timestamp=self._time())
            yield self._plain("queue-operation", operation="dequeue", timestamp=self._time())
        for turn in range(size):
            yield from self._turn(snapshot=turn == 0 and size > 60_000 and self._rng.random() < 0.5)
            if turn == 1:
                yield self._plain("ai-title", aiTitle=self._language.sentence(5))
            yield self._plain("last-prompt", lastPrompt=self._prompt[:200], leafUuid=self._parent)

    def _turn(self, *, snapshot: bool) -> Iterator[dict[str, object]]:
        self._prompt = self._language.prose(self._rng.choice((60, 200, 200, 900)))
        text = [{"type": "text", "text": self._prompt}]
        yield self._chained("user", message={"role": "user", "content": text if self._new else self._prompt})
        if self._new and snapshot:
            yield self._chained("attachment", attachment=self._snapshot())
        for _ in range(min(int(self._rng.expovariate(1 / 4)), 30)):
            yield from self._tool()
        yield self._answer(
            [{"type": "text", "text": self._language.prose(self._rng.choice((150, 600, 2_000)))}]
        )

    def _tool(self) -> Iterator[dict[str, object]]:
        if self._rng.random() < 0.25:
            yield self._answer([{"type": "text", "text": self._language.prose(120)}])
        if self._rng.random() < 0.2:
            thought: dict[str, object] = {
                "type": "thinking",
                "thinking": self._language.prose(500),
                "signature": self._noise(300),
            }
            yield self._answer([thought])
        call = f"toolu_{self._rng.getrandbits(96):024x}"
        name, given, output, kept = self._language.tool(self._cwd)
        yield self._answer([{"type": "tool_use", "id": call, "name": name, "input": given}])
        block = {"tool_use_id": call, "type": "tool_result", "content": output, "is_error": False}
        yield self._chained("user", message={"role": "user", "content": [block]}, toolUseResult=kept)

    def _answer(self, content: list[dict[str, object]]) -> dict[str, object]:
        usage = {
            "input_tokens": 4,
            "cache_creation_input_tokens": self._rng.randrange(9_000),
            "cache_read_input_tokens": self._rng.randrange(150_000),
            "output_tokens": self._rng.randrange(2_000),
            "service_tier": "standard",
        }
        message = {
            "id": f"msg_{self._rng.getrandbits(80):020x}",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-6",
            "content": content,
            "stop_reason": "tool_use" if content[0]["type"] == "tool_use" else "end_turn",
            "stop_sequence": None,
            "usage": usage,
        }
        return self._chained("assistant", message=message, requestId=f"req_{self._rng.getrandbits(80):020x}")

    def _snapshot(self) -> dict[str, object]:
        """The system prompt as it was sent, which newer versions write into the session."""
        return {"type": "prompt_snapshot", "systemPrompt": [self._language.prose(20_000)]}

    def _chained(self, kind: str, **more: object) -> dict[str, object]:
        own, parent = _uuid(self._rng), self._parent
        self._parent = own
        return {
            "parentUuid": parent,
            "isSidechain": False,
            "userType": "external",
            "cwd": self._cwd,
            "sessionId": self._session,
            "version": "2.1.325" if self._new else "2.1.50",
            "gitBranch": "main",
            "type": kind,
            **more,
            "uuid": own,
            "timestamp": self._time(),
        }

    def _plain(self, kind: str, **more: object) -> dict[str, object]:
        return {"type": kind, **more, "sessionId": self._session}

    def _time(self) -> str:
        from datetime import UTC, datetime

        self._now += self._rng.random()
        return datetime.fromtimestamp(self._now, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"

    def _noise(self, length: int) -> str:
        return f"{self._rng.getrandbits(length * 4):0{length}x}"


if __name__ == "__main__":
    many, huge = homes()
    print(f"{many}\n{huge}", file=sys.stderr)
