"""A turn for a command line that waits for it: what ``segue run`` does itself when there is no daemon.

The caller's environment, directory and options come with the call, and the same steps are taken as in the
caller's own process. What the caller would show is told as frames.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec
from anyio.to_thread import run_sync

from segue.app.engine import Engine
from segue.app.frames import ELSEWHERE, Ended, Happened, Notice, Ready, Refused, Tell
from segue.app.ready_turn import Options, ReadyTurn, ready_retry, ready_turn
from segue.app.workspace import Workspace
from segue.config.load import load
from segue.core import events as ev
from segue.core.errors import SegueError
from segue.core.laws import Door
from segue.core.request import Inherited
from segue.core.turn import exit_code
from segue.runner.child import can_have
from segue.store.store import Store


class ForegroundCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``segue run`` or ``segue retry``. The caller draws the run's id, so that it can find the run if the
    connection is lost."""

    run: str
    key: str
    text: str | None
    """None: retry ``message``, or the last one."""
    message: str | None = None
    options: dict[str, Any]
    cwd: str
    env: dict[str, str]
    inherited: Inherited | None = None
    answers: bool = False
    events: bool = False
    """Tell every event. Otherwise only questions."""
    repeatable: bool = True
    """After a temporary failure, the same text retries this turn."""
    continues: bool = False
    """The caller has named the native session that the conversation continues."""


async def run_foreground(workspace: Workspace, engine: Engine, call: ForegroundCall, tell: Tell) -> None:
    """Run the turn to its end, telling what happens. It continues if nobody listens any more."""
    if call.inherited is not None and not can_have(call.inherited):
        tell(Refused("the daemon has lower resource limits", ELSEWHERE, 1))
        return
    try:
        ready = await run_sync(_ready, workspace.store, call)
        if ready is None:
            tell(Refused("the daemon uses another store", ELSEWHERE, 1))
            return
        tell(_started(ready))
        turn = await engine.run(
            ready,
            on_event=lambda event: _tell_event(call, tell, event),
            on_notice=lambda text: tell(Notice(text)),
        )
        number = await run_sync(ready.number_of, turn) if turn.failure is not None else None
        tell(Ended(exit_code(turn), number))
        tell(turn)
    except SegueError as error:
        tell(Refused(error.message, error.code, error.exit_code))


def _ready(store: Store, call: ForegroundCall) -> ReadyTurn | None:
    """The turn, with the caller's own configuration. None: that names another store."""
    config = load(call.env, Path(call.cwd))
    if config.store.url != store.url:
        return None
    workspace = Workspace(call.env, Path(call.cwd), store, config, "daemon")
    options = cast("Options", {**call.options, **_attached(call)})
    if call.text is None:
        ready = ready_retry(workspace, call.key, call.message, options, answers=call.answers)
    else:
        repeatable, answers = call.repeatable, call.answers
        door = Door.CONTINUE if call.continues else Door.RUN
        ready = ready_turn(
            workspace, call.key, call.text, options, answers=answers, repeatable=repeatable, door=door
        )
    ask = msgspec.structs.replace(ready.prepared.ask, inherited=call.inherited)
    prepared = msgspec.structs.replace(ready.prepared, run=call.run, ask=ask)
    return ReadyTurn(workspace, prepared, options, ready.retry_message)


def _attached(call: ForegroundCall) -> dict[str, object]:
    """The attachments: paths, or files in memory."""
    given = call.options.get("attachments")
    if not given:
        return {}
    from segue.core.attachments import Attachment

    files = [each if isinstance(each, str) else msgspec.convert(each, Attachment) for each in given]
    return {"attachments": files}


def _started(ready: ReadyTurn) -> Ready:
    run = ready.prepared.run
    return Ready(run, ready.agent, ready.label, ready.mentions, ready.model_from, ready.directory)


def _tell_event(call: ForegroundCall, tell: Tell, event: ev.Event) -> None:
    if call.events or isinstance(event, ev.Question | ev.Permission):
        tell(Happened(cast("ev.AnyEvent", event)))
