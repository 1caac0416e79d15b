"""A second name for a session's file while a run goes on in it.

While 0.61 goes on with a session of an earlier minute, its empty twin lies beside the file, and whoever
starts another session in the project then deletes both: what the run still writes becomes a file that has
no beginning. The second name, which Gemini does not look at, keeps the beginning, so that both can be joined.
"""

from __future__ import annotations

import glob
import os
from contextlib import suppress
from pathlib import Path

from segue.agents.gemini.files import alike, is_stub, owner, put

MARK = ".kept-"


def keep(path: Path) -> None:
    """Before a run. Where a file cannot have two names, it has to do with one."""
    second = path.with_name(MARK + path.stem + ".jsonl")
    with suppress(OSError):
        second.unlink(missing_ok=True)
        if path.suffix == second.suffix:
            os.link(path, second)


def release(home: Path, session: str) -> None:
    """After a run: make whole what was deleted meanwhile, and let go of the second name."""
    for second in _kept(home, session):
        with suppress(OSError):
            _join(second, session)
            second.unlink(missing_ok=True)


def restore(home: Path, session: str) -> None:
    """At any time: make whole what was deleted, and keep the second name where nothing was."""
    for second in _kept(home, session):
        with suppress(OSError):
            if _join(second, session):
                second.unlink(missing_ok=True)


def _kept(home: Path, session: str) -> list[Path]:
    found = home.glob(f".gemini/tmp/*/chats/{MARK}session-*-{glob.escape(session[:8])}.jsonl")
    return [second for second in found if owner(second) == session]


def _join(second: Path, session: str) -> bool:
    """Put both parts together; but not where the session has a file, under whatever name."""
    path = second.with_name(second.name.removeprefix(MARK))
    if any(owner(file) == session and not is_stub(file, session) for file in alike(path.parent, session)):
        return False
    rest = path.read_bytes() if path.exists() and owner(path) is None else b""
    put(path, second.read_bytes() + rest)
    return True
