"""Briefs of many sessions. Thousands of files are divided among several processes, because making a brief is
mostly copying and searching bytes, which keeps a core busy.

``python -m segue.sessions.brief_workers AGENT`` is such a process: it reads sessions and writes their
briefs, in the same order. If it fails for any reason, this process does the work.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import msgspec

from segue.agents import registry
from segue.agents.base import SessionArchive, StoredSession
from segue.config.schema import Config
from segue.core.transcript import Brief

WORTH = 500
"""About as many sessions as can be read in the time that another process takes to start."""
MOST = 4
PATIENCE_S = 60

_Helper = tuple[subprocess.Popen[bytes], IO[bytes]]
_Wire = tuple[str, bytes, bytes, int, int, bool]
_sessions = msgspec.msgpack.Decoder(list[_Wire])
_briefs = msgspec.msgpack.Decoder(list[Brief])


def briefs(agent: str, reader: SessionArchive, sessions: Sequence[StoredSession]) -> list[Brief]:
    """One brief per session, in the same order."""
    processes = min(_cores(), MOST, len(sessions) // WORTH)
    share = (len(sessions) - WORTH) // processes if processes > 1 else 0
    if share < 1 or agent not in registry.BUILT_IN or not sys.executable:
        return [reader.brief(each) for each in sessions]
    own = len(sessions) - share * (processes - 1)
    mine, others = sessions[:own], [sessions[at : at + share] for at in range(own, len(sessions), share)]
    with ExitStack() as stack:
        try:
            helpers = [stack.enter_context(_helper(agent, theirs)) for theirs in others]
        except OSError:
            return [reader.brief(each) for each in sessions]
        found = [reader.brief(each) for each in mine]
        for helper, theirs in zip(helpers, others, strict=True):
            found += _result(helper, len(theirs)) or [reader.brief(each) for each in theirs]
    return found


@contextmanager
def _helper(agent: str, sessions: Sequence[StoredSession]) -> Iterator[_Helper]:
    """A helper process. It reads from a file and writes to one, so that neither process blocks the other."""
    with TemporaryFile() as given, TemporaryFile() as out:
        given.write(msgspec.msgpack.encode([_wired(each) for each in sessions]))
        given.seek(0)
        argv = [sys.executable, "-P", "-m", __name__, agent]  # -P: import nothing from the current directory
        process = subprocess.Popen(argv, stdin=given, stdout=out, stderr=subprocess.DEVNULL)
        try:
            yield process, out
        finally:
            process.kill()
            process.wait()


def _result(helper: _Helper, expected: int) -> list[Brief] | None:
    process, out = helper
    try:
        if process.wait(timeout=PATIENCE_S) != 0:
            return None
        out.seek(0)
        found = _briefs.decode(out.read())
    except (OSError, subprocess.TimeoutExpired, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return found if len(found) == expected else None


def _wired(each: StoredSession) -> _Wire:
    return each.id, os.fsencode(each.home), os.fsencode(each.file), each.size, each.changed_ns, each.appends


def _unwired(wire: _Wire) -> StoredSession:
    session, home, file, size, changed_ns, appends = wire
    return StoredSession(
        id=session,
        home=Path(os.fsdecode(home)),
        file=os.fsdecode(file),
        size=size,
        changed_ns=changed_ns,
        appends=appends,
    )


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def main() -> None:
    reader = registry.get(sys.argv[1], Config()).archive()
    assert reader is not None, "only agents with sessions have helpers"
    given = map(_unwired, _sessions.decode(sys.stdin.buffer.read()))
    sys.stdout.buffer.write(msgspec.msgpack.encode([reader.brief(each) for each in given]))


if __name__ == "__main__":
    main()
