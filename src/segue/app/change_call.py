"""A change that the daemon makes for a command line: what the command does itself when there is no daemon.

The caller's environment and directory come with the call. The first frame says that the change begins. As
long as the caller has not seen it, nothing was done. If the caller goes away, the change is cancelled, as it
is if the caller makes it and is interrupted.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import msgspec
from anyio.to_thread import run_sync

from segue.app.caller_changes import AnyChange, make_change
from segue.app.frames import ELSEWHERE, Frame, Refused
from segue.app.workspace import Workspace
from segue.config.load import load
from segue.core.errors import SegueError
from segue.store.store import Store


class ChangeCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    change: AnyChange
    cwd: str
    env: dict[str, str]


class Begun(Frame, frozen=True, tag="begun"):
    """``mentions``: what of the caller's configuration has no effect."""

    mentions: tuple[str, ...] = ()


class Changed(Frame, frozen=True, tag="changed"):
    result: Any = None


class Failed(Frame, frozen=True, tag="failed"):
    """The system refused something: what the caller's own process would have met."""

    errno: int
    strerror: str
    filename: str | None = None


AnyAnswer = Begun | Changed | Failed | Refused


async def answers_to(store: Store, call: ChangeCall) -> AsyncGenerator[AnyAnswer]:
    """Make the change, telling that it begins and what came of it."""
    try:
        workspace = await run_sync(_workspace, store, call)
        if workspace is None:
            yield Refused("the daemon uses another store", ELSEWHERE, 1)
            return
        yield Begun(workspace.config.mentions)
        yield Changed(await make_change(workspace, call.change))
    except SegueError as error:
        yield Refused(error.message, error.code, error.exit_code)
    except OSError as error:
        name = str(error.filename) if error.filename is not None else None
        yield Failed(error.errno or 0, error.strerror or str(error), name)


def _workspace(store: Store, call: ChangeCall) -> Workspace | None:
    """With the caller's own configuration. None: that names another store."""
    config = load(call.env, Path(call.cwd))
    return Workspace(call.env, Path(call.cwd), store, config) if config.store.url == store.url else None
