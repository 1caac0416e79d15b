"""Gemini's session format: find a session, look at its end, cut it, mend it.

An anchor is the id of a message. Gemini keeps ids through resumes and updates, and so do the copies and the
mended files written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from segue.agents.base import Found, Mended, Mending
from segue.agents.gemini import files, keeping, login, tail
from segue.agents.gemini.forms import form_of
from segue.agents.gemini.message import is_context, is_prompt
from segue.agents.gemini.story import Story, read
from segue.core.request import Request, Runtime, Start

if TYPE_CHECKING:
    from segue.agents.behind import Behind
    from segue.agents.reader import Stored

REPEATS = 1
"""A file that says everything again more often than this is written anew."""
_LATER = ("summary", "memoryScratchpad")
"""What a header says of a session's end, and not of one that was cut before."""


class GeminiSessions:
    """The session files of Gemini CLI, of all versions."""

    def look(self, home: Path, session: str, cwd: Path) -> Found | None:
        keeping.restore(home, session)
        here = [file for file in files.find(home, session) if files.belongs(file, cwd)]
        path = files.newest(here, session)
        try:
            size = path.stat().st_size if path is not None else 0
        except OSError:
            return None
        if path is None:
            return None
        return Found(path, size, tail.end(path) if files.owner(path) == session else None)

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
        story = _of(found, session)
        kept = story.upto(anchor) if story is not None else None
        # names that end alike are deleted together
        if story is None or kept is None or any(files.find(home, new_id)):
            return None
        form, now = form_of(runtime, found.path), datetime.now(UTC)
        copy = found.path.with_name(f"session-{now:%Y-%m-%dT%H-%M}-{new_id[:8]}{form.suffix}")
        stamp = now.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        header = {key: value for key, value in _header(story, found).items() if key not in _LATER}
        header |= {"sessionId": new_id, "startTime": stamp, "lastUpdated": stamp}
        try:
            files.put(copy, files.encoded(form.suffix, header, [form.shape(kept)]))
        except (OSError, ValueError, RecursionError):
            return None
        keeping.keep(copy)
        return Start("resume", session=new_id)

    def continues(self, found: Found, anchor: str) -> bool:
        story = read(found.path)
        ids = [message["id"] for message in story.messages] if story is not None else []
        if story is None or anchor not in ids:
            return False
        return any(map(is_prompt, story.messages[ids.index(anchor) + 1 :]))

    def mend(self, found: Found, session: str, runtime: Runtime) -> None:
        """Leave one file, in the form that this version reads, with each call and each result once."""
        story = _of(found, session)
        if story is None:
            return
        form = form_of(runtime, found.path)
        path, messages = found.path.with_suffix(form.suffix), form.shape(story.messages)
        with suppress(OSError, ValueError, RecursionError):
            rough = story.torn or story.repeated > REPEATS
            if path != found.path or messages != story.messages or rough:
                states = [*story.earlier, messages]
                files.put(path, files.encoded(form.suffix, _header(story, found), states))
            _drop_twins(path, session)
            keeping.keep(path)

    def behind(self, anchor: str) -> Behind:
        from segue.agents.behind import named

        return named(anchor)

    def repair(self, stored: Stored, new_id: str, mending: Mending) -> Mended:
        from segue.agents.gemini.repairing import repair

        return repair(stored, new_id, mending)

    def remove(self, stored: Stored) -> None:
        from segue.agents.gemini.removing import remove

        remove(stored)

    def login(self, home: Path, env: Mapping[str, str]) -> str | None:
        return login.login(home)


def _of(found: Found, session: str) -> Story | None:
    """What a file of this session tells; nothing, where it lacks its beginning or has only that."""
    story = read(found.path) if files.owner(found.path) == session else None
    return None if story is None or all(map(is_context, story.messages)) else story


def _header(story: Story, found: Found) -> dict[str, Any]:
    """Without a project's hash, Gemini does not take a file for a session."""
    return story.header | {"projectHash": story.header.get("projectHash") or found.path.parents[1].name}


def _drop_twins(path: Path, session: str) -> None:
    """Remove the same session in the other form, and empty twins."""
    for twin in list(files.alike(path.parent, session)):
        other_form = twin.stem == path.stem and files.owner(twin) == session
        if twin != path and (other_form or files.is_stub(twin, session)):
            twin.unlink(missing_ok=True)


SESSIONS = GeminiSessions()
