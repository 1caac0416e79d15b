"""Runs seen from outside: one run, the queue, and what can be changed about a run that waits."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import get_args

import msgspec
from anyio.to_thread import run_sync

from segue.app.questions import continued_by, questions_of
from segue.app.ready_turn import Options
from segue.app.run_orders import prepare_order
from segue.app.run_shapes import RunOptions, RunOrder, RunShown
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

NOT_STARTED = "it was taken out of the queue before it began"
NOT_WAITING = "the run {} does not wait any more"
MOST = 1_000
"""The longest list of runs."""
UNFINISHED: tuple[State, ...] = ("queued", "running", "needs_you", "parked")
SETTLE_S = 60.0
"""How long a cancelled agent may take to end."""


def show_run(workspace: Workspace, run: str) -> RunShown:
    """A run as it is now. Raises ``NotFound``."""
    shown = _if_there(workspace, run)
    if shown is None:
        raise NotFound(f"there is no run {run}")
    return shown


def _if_there(workspace: Workspace, run: str) -> RunShown | None:
    row, queued = workspace.store.turn(run), workspace.store.queued(run)
    return _shown(workspace, row, queued) if row is not None and queued is not None else None


def queue(workspace: Workspace, key: str | None = None) -> list[RunShown]:
    """The runs that wait, in their order; of one conversation, or of all."""
    conversation = workspace.conversation(key).id if key is not None else None
    return [
        _shown(workspace, row, queued)
        for queued in workspace.store.line(conversation)
        if (row := workspace.store.turn(queued.id)) is not None
    ]


def ls(
    workspace: Workspace, states: Sequence[State] = (), key: str | None = None, limit: int = MOST
) -> list[RunShown]:
    """The runs in these states, the newest first; without states, those that are not over: they wait, run, or
    have a question that can still be answered. Of one conversation, or of all."""
    if not 1 <= limit <= MOST:
        raise Misuse(f"the limit must be between 1 and {MOST:,}, not {limit}")
    if unknown := set(states) - set(get_args(State)):
        raise Misuse(f"there is no state {min(unknown)!r:.60}; known: {', '.join(get_args(State))}")
    store, conversation = workspace.store, workspace.conversation(key).id if key is not None else None
    stored = {*states, "queued", "parked"} if "needs_you" in states else {*(states or UNFINISHED)}
    found = dict(store.reading.runs_in(sorted(stored), conversation, limit))
    if not states:
        found |= {row.run: row.asked_ms for row in store.asked(conversation)}
    shown = [each for run in found if (each := _if_there(workspace, run)) is not None]
    shown = [each for each in shown if not states or each.state in states]
    return sorted(shown, key=lambda each: (each.created, each.run), reverse=True)[:limit]


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


def count_runs(workspace: Workspace) -> dict[str, int]:
    """How many runs there are in each state that is not an end, whichever process runs them."""
    return workspace.store.count_unfinished()


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


def digest_of(order: RunOrder) -> str:
    """What was ordered, as it was ordered: the same later, too, whatever has changed since."""
    return sha256(msgspec.json.encode(order)).hexdigest()


def _shown(workspace: Workspace, row: TurnRow, queued: QueuedRow) -> RunShown:
    questions = questions_of(workspace, row)
    held = row.state in ("queued", "parked") and bool(questions)
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
        waits="budget" if row.state == "queued" and queued.waits is not None else None,
        question=questions[0] if questions else None,
        questions=questions,
        continued_by=continued_by(workspace, row.id),
        cancel_asked=queued.cancel_asked_ms is not None,
        retry_of=row.retry_of,
        created=row.started_ms,
        ended=row.ended_ms,
        turn=row.told if status_of(row.state) is not None else None,
        text=workspace.store.texts([row.message]).get(row.message, ""),
        attachments=workspace.store.attachments([row.message]).get(row.message, ()),
        options=_options(queued),
    )


def _options(queued: QueuedRow) -> RunOptions | None:
    """The options that it was queued with; None: it is settled, or somebody waits for it."""
    if queued.request is None:
        return None
    ask = msgspec.json.decode(queued.request, type=QueuedRequest).ask
    return RunOptions(
        permission=ask.permission,
        allow_tools=ask.allow_tools,
        deny_tools=ask.deny_tools,
        max_turns=ask.max_turns,
        budget=ask.budget_usd,
        questions=ask.questions,
        timeout=ask.timeout_s,
        retries=ask.retries,
        park=ask.park,
        fail_on_denied=ask.fail_on_denied,
        save=ask.save,
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
