"""Runs seen from outside: one run, the queue, and what can be changed about a run that waits."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
from anyio.to_thread import run_sync

from segue.app.questions import continued_by, questions_of
from segue.app.ready_turn import Options, ready_retry, ready_turn
from segue.app.run_shapes import AttachmentOrder, RunOrder, RunShown
from segue.app.workspace import Workspace
from segue.core.errors import Gone, Misuse, NotFound, SegueError
from segue.core.events import Event
from segue.core.outcome import Failure
from segue.core.request import Inherited
from segue.core.turn import State, Turn, status_of
from segue.runner.attempt import Cancel, Guarded, Replies
from segue.store.records import BEGUN, QueuedRow, TurnRow
from segue.turns.follow import follow
from segue.turns.known_run import settle_run
from segue.turns.live_turn import Callbacks
from segue.turns.liveness import liveness_of
from segue.turns.message import enqueue
from segue.turns.observer import Observer
from segue.turns.prepare import Prepared, prepare
from segue.turns.queued_run import take_out
from segue.turns.request import QueuedRequest, TurnRequest, utf8

if TYPE_CHECKING:
    from segue.core.attachments import Attachment

NOT_STARTED = "it was taken out of the queue before it began"
NOT_WAITING = "the run {} does not wait any more"
SETTLE_S = 60.0
"""How long a cancelled agent may take to end."""


def show_run(workspace: Workspace, run: str) -> RunShown:
    """A run as it is now. Raises ``NotFound``."""
    row, queued = workspace.store.turn(run), workspace.store.queued(run)
    if row is None or queued is None:
        raise NotFound(f"there is no run {run}")
    return _shown(workspace, row, queued)


def queue(workspace: Workspace, key: str | None = None) -> list[RunShown]:
    """The runs that wait, in their order; of one conversation, or of all."""
    conversation = workspace.conversation(key).id if key is not None else None
    return [
        _shown(workspace, row, queued)
        for queued in workspace.store.line(conversation)
        if (row := workspace.store.turn(queued.id)) is not None
    ]


def edit_queued(workspace: Workspace, run: str, text: str) -> RunShown:
    """Change the message of a run that waits."""
    queued = waiting(workspace, run)
    request = msgspec.json.decode(queued.request or "{}", type=QueuedRequest)
    if request.retry is not None:
        raise Misuse("it retries a message of the conversation; change that one with edit")
    if not utf8(text, "new text").strip():
        raise Misuse("the prompt is empty")
    changed = msgspec.structs.replace(request, ask=msgspec.structs.replace(request.ask, prompt=text))
    if not workspace.store.change_queued(queued, text, msgspec.json.encode(changed).decode()):
        raise Gone(NOT_WAITING.format(run))
    return show_run(workspace, run)


def move_queued(workspace: Workspace, run: str, place: int) -> list[RunShown]:
    """Give a run that waits another place in its line; 1 is next."""
    queued = waiting(workspace, run)
    line = [each.id for each in workspace.store.line(queued.conversation) if each.id != run]
    line.insert(max(0, place - 1), run)
    workspace.store.reorder(line)
    known = workspace.store.conversation_by_id(queued.conversation)
    return queue(workspace, known.key if known is not None else None)


def waiting(workspace: Workspace, run: str) -> QueuedRow:
    """The row of a run that waits. Raises ``NotFound``, or ``Gone`` if it does not wait any more."""
    queued = workspace.store.queued(run)
    if queued is None:
        raise NotFound(f"there is no run {run}")
    if queued.state not in ("queued", "parked") or queued.request is None:
        raise Gone(NOT_WAITING.format(run))
    return queued


def cancel_run(workspace: Workspace, run: str) -> bool:
    """End a run, whichever process runs it: one that waits is withdrawn, one that runs is asked to end.

    False: it is over. Raises ``NotFound``."""
    row = workspace.store.turn(run)
    if row is None:
        raise NotFound(f"there is no run {run}")
    failure = Failure("cancelled", NOT_STARTED)
    asked = workspace.store.ask_cancel(run)  # whoever waits with it stops waiting
    if take_out(workspace.store, row, _key_of(workspace, row.conversation), failure):
        return True
    return asked


async def settle_lost(workspace: Workspace, run: str) -> State | None:
    """Settle a run whose process is gone; if it was cancelled, its agent is ended first. Returns its state;
    None: it was deleted."""
    store = workspace.store
    row = await run_sync(store.turn, run)
    if row is None or row.state not in BEGUN or row.host != workspace.host.name:
        return row.state if row is not None else None
    if await run_sync(liveness_of, store, row, workspace.host) == "alive":
        return row.state
    prepared = await run_sync(observing, workspace, row)
    callbacks = Callbacks(None, Replies(None), Cancel(), Guarded("on_notice", None))
    row = await settle_run(prepared, store, run, callbacks, SETTLE_S)
    return row.state if row is not None else None


def observing(workspace: Workspace, row: TurnRow) -> Prepared:
    """What is needed to settle a turn that this process did not begin."""
    key, account = _key_of(workspace, row.conversation), row.account or "none"
    ask = TurnRequest(conversation=key, prompt=" ", agent=row.voice.agent, account=account, cwd=row.cwd)
    return prepare(ask, workspace.env, workspace.store, Path(row.cwd))


def unfinished(workspace: Workspace, name: str) -> list[str]:
    """The runs that are not settled, what runs first: the run of that id, or those of that conversation."""
    if workspace.store.queued(name) is not None:
        return [name]
    rows = workspace.store.unsettled(workspace.conversation(name).id)
    return [row.id for row in sorted(rows, key=lambda row: row.state not in BEGUN)]


def open_questions(workspace: Workspace) -> list[RunShown]:
    """The runs that wait for an answer, also those that ended without one."""
    return [show_run(workspace, run) for run in dict.fromkeys(row.run for row in workspace.store.asked())]


def count_questions(workspace: Workspace) -> int:
    """How many questions can be answered."""
    return len(workspace.store.asked())


def mark_read(workspace: Workspace, run: str) -> None:
    """Record that somebody has seen the answer of a run, unless the store is unavailable."""
    with suppress(SegueError):
        row = workspace.store.turn(run)
        if row is not None:
            workspace.store.reading.mark_read(row.conversation)


def is_alive(workspace: Workspace, run: str) -> bool:
    """Whether a process drives the run, or will."""
    row = workspace.store.turn(run)
    return row is not None and liveness_of(workspace.store, row, workspace.host) == "alive"


def followed(workspace: Workspace, run: str) -> AsyncGenerator[Event | Turn, None]:
    """The events of a run as they come, whichever process runs it; finally the turn."""
    shown = show_run(workspace, run)
    here = Observer.here(shown.conversation, workspace.env, workspace.config)
    return follow(workspace.store, run, here)


def enqueue_order(
    workspace: Workspace,
    key: str,
    order: RunOrder,
    options: Options | None = None,
    inherited: Inherited | None = None,
) -> RunShown:
    """Queue a run without driving it: a daemon does that. ``options``: in addition to those of the order.

    ``inherited``: what the agent gets from the caller's process."""
    prepared, retried = prepare_order(workspace, key, order, None, None, options)
    prepared = msgspec.structs.replace(
        prepared, ask=msgspec.structs.replace(prepared.ask, inherited=inherited)
    )
    row = enqueue(prepared, workspace.store, retried, order.not_before)
    return show_run(workspace, row.id)


def prepare_order(
    workspace: Workspace,
    key: str,
    order: RunOrder,
    run_key: str | None,
    env: Mapping[str, str] | None,
    more: Options | None = None,
) -> tuple[Prepared, str | None]:
    """What was ordered, checked; and the message to retry, if it is not a new one."""
    workspace = _where(workspace, key, order, env)
    options = cast("Options", {**_options(order, run_key), **(more or {})})
    if order.retry_of is not None:
        ready = ready_retry(workspace, key, order.retry_of, options, answers=order.answers)
        return ready.prepared, ready.retry_message
    return ready_turn(workspace, key, order.message, options, answers=order.answers).prepared, None


def _where(workspace: Workspace, key: str, order: RunOrder, env: Mapping[str, str] | None) -> Workspace:
    """The caller's place. A client that names no directory is in the conversation's: it is nowhere else."""
    known = workspace.store.conversation(key)
    named = known.cwd if known is not None and order.cwd is None and known.cwd else None
    here = Path(named) if named is not None and Path(named).is_dir() else workspace.cwd
    environment = workspace.env if env is None else env
    return Workspace(environment, here, workspace.store, transport=workspace.transport)


def _options(order: RunOrder, run_key: str | None) -> Options:
    """The options of the turn."""
    named = ("agent", "account", "model", "role", "adopt", "cwd")
    options: dict[str, object] = {name: getattr(order, name) for name in named if getattr(order, name)}
    for name in ("fresh_session", "blank", "fork", "cut"):
        options[name] = getattr(order, name)
    options |= {
        name: value
        for name, value in msgspec.structs.asdict(order.options).items()
        if value is not None and value != ()
    }
    if run_key is not None:
        options["run_key"] = run_key
    if order.attachments:
        options["attachments"] = [_attachment(each) for each in order.attachments]
    return cast("Options", options)


def _attachment(order: AttachmentOrder) -> str | Attachment:
    from segue.core.attachments import Attachment

    if (order.data is None) == (order.path is None):
        raise Misuse("an attachment has data, or a path")
    if order.data is not None:
        return Attachment(order.name or "attachment", order.data, order.media_type)
    path = order.path or ""
    if order.name is not None or order.media_type is not None or not os.path.isabs(path):
        raise Misuse("the path of an attachment is absolute, and comes without a name and a type")
    return path


def _shown(workspace: Workspace, row: TurnRow, queued: QueuedRow) -> RunShown:
    questions = questions_of(workspace, row)
    held = row.state == "parked" and bool(questions)
    return RunShown(
        run=row.id,
        conversation=_key_of(workspace, row.conversation),
        message=row.message,
        agent=row.voice.agent,
        account=row.account or None,
        model=row.model,
        role=row.voice.role or None,
        cwd=row.cwd,
        mode=row.mode,
        state="needs_you" if held else row.state,
        place=_place(workspace, queued),
        not_before=queued.not_before_ms,
        held_by=queued.held_by,
        question=questions[0] if questions else None,
        questions=questions,
        continued_by=continued_by(workspace, row.id),
        cancel_asked=queued.cancel_asked_ms is not None,
        retry_of=row.retry_of,
        created=row.started_ms,
        ended=row.ended_ms,
        turn=row.told if status_of(row.state) is not None else None,
    )


def _place(workspace: Workspace, queued: QueuedRow) -> int | None:
    """Its place in the line; None: it does not wait."""
    if queued.state not in ("queued", "parked"):
        return None
    line = [row.id for row in workspace.store.line(queued.conversation)]
    return line.index(queued.id) + 1 if queued.id in line else None


def _key_of(workspace: Workspace, conversation: str) -> str:
    found = workspace.store.conversation_by_id(conversation)
    return found.key if found is not None else ""
