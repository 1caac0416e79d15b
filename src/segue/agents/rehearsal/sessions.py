"""The rehearsal agent's sessions: ``<home>/sessions/<id>.jsonl``, a header and one line per message.

An anchor is a message's id. The agent cuts a session at an answer by itself, and keeps the ids; where a turn
was interrupted, the session is copied up to the cut. A last line that was torn by a kill does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from segue.agents.base import Found, Mended, Mending
from segue.agents.rehearsal import disk
from segue.agents.rehearsal.disk import Line
from segue.core.errors import Misuse
from segue.core.keys import native_id
from segue.core.request import Request, Runtime, Start

if TYPE_CHECKING:
    from segue.agents.behind import Behind
    from segue.agents.reader import Stored

FIRST_BYTES = 4 * 1024


class RehearsalSessions:
    """The format of the rehearsal agent's sessions."""

    def look(self, home: Path, session: str, cwd: Path) -> Found | None:
        try:
            path = home / "sessions" / f"{native_id(session)}.jsonl"
            size = path.stat().st_size
        except (Misuse, OSError):
            return None
        messages = _newest(path, bool)
        return Found(path, size, messages[-1].id if messages else None)

    def cut(
        self,
        found: Found,
        session: str,
        anchor: str,
        new_id: str,
        request: Request,
        home: Path,
        runtime: Runtime,
    ) -> Start | None:
        try:
            header, *lines = found.path.read_bytes().split(b"\n")[:-1]
            kept = disk.up_to(lines, anchor)
            if kept and disk.read(kept[-1]).is_answer:
                return Start("branch", session, anchor, new_id)
            if kept:
                copied = disk.renamed(header, id=new_id, parent=session, at=anchor)
                disk.write(found.path.with_name(f"{new_id}.jsonl"), [copied, *kept])
                return Start("resume", new_id)
        except (OSError, ValueError, msgspec.MsgspecError):
            pass
        return None

    def continues(self, found: Found, anchor: str) -> bool:
        """Nothing but one turn stands behind the anchor, or nothing at all."""
        messages = _newest(found.path, lambda some: any(message.id == anchor for message in some))
        ids = [message.id for message in messages]
        if anchor not in ids:
            return False
        later = messages[ids.index(anchor) + 1 :]
        prompts = [message for message in later if message.is_prompt]
        return later[:1] == prompts

    def mend(self, found: Found, session: str, runtime: Runtime) -> None:
        """The agent resumes its sessions as they are."""

    def behind(self, anchor: str) -> Behind:
        from segue.agents.behind import named

        return named(anchor)

    def repair(self, stored: Stored, new_id: str, mending: Mending) -> Mended:
        from segue.agents.rehearsal import repairing

        return repairing.repair(stored, new_id, mending)

    def remove(self, stored: Stored) -> None:
        from segue.agents.rehearsal import removing

        removing.remove(stored)

    def login(self, home: Path, env: Mapping[str, str]) -> str | None:
        return disk.login(home / "login.json")


def _newest(path: Path, enough: Callable[[list[Line]], bool]) -> list[Line]:
    """The messages at the end of a session, as many as are enough, in their order."""
    size, whole = FIRST_BYTES, False
    messages: list[Line] = []
    while not whole and not enough(messages):
        try:
            lines, whole = disk.tail(path, size)
        except OSError:
            return []
        messages, size = disk.messages(lines), size * 8
    return messages


SESSIONS = RehearsalSessions()
