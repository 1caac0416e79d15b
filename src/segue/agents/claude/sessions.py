"""Claude's own sessions: where they end, how they are cut, and who is logged in.

An anchor is the ``uuid`` of the last message of a turn. Claude keeps these ids when it forks a session, so
they stay valid in every branch. A prompt that failed stays in the file, with a notice behind it: then the
end is not where we left it.

A session is cut by the CLI itself (``--resume-session-at`` with ``--fork-session``) where a turn ended with
an answer. Behind the answer the CLI may have written a snapshot of what it sent; only a cut behind that
sends the same bytes again. Elsewhere the file is copied up to the cut, under the new id:

- where the CLI has compacted the history: it no longer finds what lies before the summary, and its forks
  lose that;
- where a turn was interrupted: the flag does not take every record (2.1.50 refuses an open call), and a
  resume of the copy is treated as one of the original;
- where the session lies in another directory's folder, or the program has no ``--fork-session``.

The CLI's own branches count the cost on from the original's total; a copy begins at nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from segue.agents.base import Found, Mended, Mending
from segue.agents.claude import cutting, projects
from segue.agents.claude.identity import fingerprint
from segue.agents.claude.records import Record, newest_first
from segue.core.errors import Misuse
from segue.core.keys import uuid
from segue.core.request import Request, Runtime, Start

if TYPE_CHECKING:
    from segue.agents.behind import Behind
    from segue.agents.reader import Stored


class ClaudeSessions:
    """The format of Claude's sessions."""

    def look(self, home: Path, session: str, cwd: Path) -> Found | None:
        path = projects.find(home, session, cwd)
        if path is None:
            return None
        try:
            end = next((record.uuid for record in newest_first(path) if record.is_message), None)
            return Found(path, path.stat().st_size, end)
        except FileNotFoundError:
            return None
        except OSError:
            return Found(path, 0, None)

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
            place = cutting.find(found.path, anchor)
            if place is None:
                return None
            own = projects.folder(home, request.cwd)
            native = runtime.capabilities.fork and place.is_answer and not place.compacted
            if native and found.path.parent == own and _is_uuid(place.at):
                return Start("branch", session, place.at, new_id)
            cutting.copy(found.path, place, new_id, own / f"{new_id}.jsonl")
        except OSError:
            return None
        return Start("resume", new_id)

    def continues(self, found: Found, anchor: str) -> bool:
        """By the file's order and by the chain. A session that still ends at its anchor has not strayed."""
        later: list[Record] = []
        try:
            for record in newest_first(found.path):
                if record.uuid == anchor:
                    return _follows(record, later[::-1])
                later.append(record)
        except OSError:
            pass
        return False

    def mend(self, found: Found, session: str, runtime: Runtime) -> None:
        """Claude resumes its sessions as they are."""

    def behind(self, anchor: str) -> Behind:
        from segue.agents.behind import named

        return named(anchor)

    def repair(self, stored: Stored, new_id: str, mending: Mending) -> Mended:
        from segue.agents.claude.repairing import repair

        return repair(stored, new_id, mending)

    def remove(self, stored: Stored) -> None:
        from segue.agents.claude.removing import remove

        remove(stored)

    def login(self, home: Path, env: Mapping[str, str]) -> str | None:
        return fingerprint(home, env)


def _follows(anchor: Record, later: list[Record]) -> bool:
    """Whether the newest prompt is the first that was said after the anchor, and was said in answer to it."""
    said = [record for record in later if record.is_said]
    if not said:
        return True
    prompts = [record for record in later if record.is_prompt]
    prompts = [record for record in prompts if record.permission_mode] or prompts
    if not prompts or prompts[-1] is not said[0]:
        return False
    parent, chain = said[0].parent_uuid, {record.uuid: record.parent_uuid for record in later}
    while parent in chain:
        parent = chain.pop(parent)
    dropped = "tool_use" in anchor.blocks  # older versions leave a call out that has no result
    return parent == anchor.uuid or (dropped and parent is not None)


def _is_uuid(text: str) -> bool:
    try:
        return bool(uuid(text))
    except Misuse:
        return False


SESSIONS = ClaudeSessions()
