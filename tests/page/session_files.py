"""Session files of the rehearsal agent and of Claude, as the CLIs write them; the words are nobody's."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def rehearsal_folder(home: Path) -> Path:
    folder = home / ".local/share/segue-rehearsal/sessions"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def message(number: int, role: str, text: str, at: float | None = None) -> str:
    """One line of the rehearsal agent. ``at``: when, in seconds; else now."""
    return json.dumps(
        {
            "type": "message",
            "id": str(uuid.UUID(int=number + 1)),
            "kind": "text",
            "role": role,
            "text": text,
            "time_ms": int(1000 * (time.time() if at is None else at)),
        }
    )


def rehearsal(
    home: Path,
    texts: Iterable[str],
    *,
    cwd: str = "/home/anna/app",
    session: str | None = None,
    used: float | None = None,
) -> Path:
    """A session with these prompts and answers in turn. ``used``: when, in seconds; else now."""
    used = time.time() if used is None else used
    name = session or str(uuid.uuid4())
    path = rehearsal_folder(home) / f"{name}.jsonl"
    header = {
        "type": "session",
        "id": name,
        "cwd": cwd,
        "model": "rehearsal-1",
        "created_ms": int(1000 * used),
    }
    with path.open("w") as file:
        file.write(json.dumps(header) + "\n")
        for number, text in enumerate(texts):
            file.write(message(number, "assistant" if number % 2 else "user", text, used) + "\n")
    os.utime(path, (used, used))
    return path


class Claude:
    """A session of Claude, record by record."""

    def __init__(self, home: Path, *, cwd: str = "/home/anna/app") -> None:
        self.id = str(uuid.uuid4())
        self._cwd, self._parent, self._ms = cwd, None, int(1000 * time.time()) - 60_000
        folder = home / ".claude/projects" / cwd.replace("/", "-")
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{self.id}.jsonl"

    def record(self, kind: str, **more: Any) -> None:
        own = str(uuid.uuid4())
        self._ms += 1500
        when = datetime.fromtimestamp(self._ms / 1000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"
        base = {"parentUuid": self._parent, "isSidechain": False, "userType": "external", "cwd": self._cwd}
        base |= {"sessionId": self.id, "version": "2.1.325", "gitBranch": "main", "type": kind}
        if not more.get("isSidechain"):
            self._parent = own  # type: ignore[assignment]
        with self.path.open("a") as file:
            file.write(json.dumps({**base, **more, "uuid": own, "timestamp": when}) + "\n")

    def says(self, text: str, **more: Any) -> None:
        self.record("user", message={"role": "user", "content": text}, **more)

    def answers(self, *content: dict[str, Any], **more: Any) -> None:
        usage = {"input_tokens": 4, "cache_read_input_tokens": 60_000, "cache_creation_input_tokens": 900}
        said = {"id": f"msg_{uuid.uuid4().hex}", "type": "message", "role": "assistant"}
        said |= {"model": "claude-sonnet-4-6", "content": list(content), "stop_reason": "end_turn"}  # type: ignore[dict-item]
        self.record("assistant", message={**said, "usage": {**usage, "output_tokens": 20}}, **more)

    def writes(self, text: str, **more: Any) -> None:
        self.answers({"type": "text", "text": text}, **more)

    def calls(self, name: str, given: dict[str, Any], output: str, *, wrong: bool = False) -> None:
        call = f"toolu_{uuid.uuid4().hex[:24]}"
        self.answers({"type": "tool_use", "id": call, "name": name, "input": given})
        block = {"tool_use_id": call, "type": "tool_result", "content": output, "is_error": wrong}
        self.record("user", message={"role": "user", "content": [block]})

    def damage(self) -> None:
        with self.path.open("a") as file:
            file.write('{"type":"user","message":{"role":"us\n')
