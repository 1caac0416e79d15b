"""Reading conversations: the log, the list, the last answer. Exporting and importing them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, cast

import msgspec

from segue.app.shapes import AllowedToolShown, ConversationShown, Dialogue, LastAnswer, LogMessage
from segue.app.workspace import Workspace
from segue.core.errors import Misuse, StoreAway
from segue.core.turn import Turn, status_of
from segue.core.usage import Context
from segue.core.view import has_walls
from segue.store.questions import AllowedTool, QuestionRow
from segue.store.records import LogRow, Summary, TurnRow

if TYPE_CHECKING:
    from segue.store.conditions import Condition

UNFINISHED = ("needs_you", "running", "parked", "queued")
POLL_S = 0.2
AWAY_S = 45.0
"""How long the store can be unavailable while a caller waits for a turn."""


def log(workspace: Workspace, key: str) -> Dialogue:
    """The conversation, message by message.

    If Segue was killed during a turn, the log shows what the next turn will record for it, and ``recovery``
    is set.
    """
    conversation = workspace.conversation(key)
    store = workspace.projected(conversation)
    turns = store.turns(conversation.id)
    rows = store.log(conversation.id, withdrawn=True)
    versions = store.reading.version_counts(rows)
    return dialogue_of(conversation.key, rows, turns, conversation.forked_from, versions)


def dialogue_of(
    key: str,
    rows: Sequence[LogRow],
    turns: Iterable[TurnRow],
    forked_from: str | None = None,
    versions: Mapping[str, int] = MappingProxyType({}),
) -> Dialogue:
    """A conversation as ``segue log`` shows it, from the rows of the store. ``versions``: of each message."""
    shown = [row.turn for row in rows if row.turn is not None]
    marks = (mark for row in rows for mark in row.under)
    return Dialogue(
        key=key,
        forked_from=forked_from,
        messages=tuple(message_of(row, versions.get(row.id, 1)) for row in rows),
        turns={turn.id: turn.told for turn in (*turns, *shown) if turn.told is not None},
        walled=len({row.account for row in rows}) > 1 or has_walls(marks),
    )


def message_of(row: LogRow, versions: int = 1) -> LogMessage:
    turn = row.turn.told if row.turn is not None else None
    context = turn.context if turn is not None else Context()
    return LogMessage(
        id=row.id if row.n or row.sender == "user" else None,
        n=row.n or None,
        sender=row.sender,
        agent=row.voice.agent,
        role=row.voice.role or None,
        account=row.account or None,
        text=row.text,
        attachments=row.attachments,
        revision=row.revision,
        edited=row.edited_ms,
        created=row.created_ms,
        blank=row.blank,
        kind=row.kind,
        run=row.turn.id if row.turn is not None else None,
        mode=turn.mode if turn is not None and (row.sender == "assistant" or turn.attempts) else None,
        state=row.turn.state if row.turn is not None else "done",
        status=status_of(row.turn.state) if row.turn is not None else "ok",
        recovery=row.turn.recovery if row.turn is not None else None,
        model=turn.model if turn is not None else None,
        usage=turn.usage if turn is not None else None,
        cost_usd=turn.cost_usd if turn is not None else None,
        cost_estimated=turn.cost_estimated if turn is not None else None,
        saved_usd=turn.saved.usd if turn is not None else None,
        sent=turn.sent if turn is not None else None,
        failure=turn.failure if turn is not None else None,
        duration_ms=turn.duration_ms if turn is not None else None,
        tools_run=turn.tools_run if turn is not None else None,
        notices=turn.notices if turn is not None else (),
        notice_clauses=turn.notice_clauses if turn is not None else (),
        context=context if context != Context() else None,
        predicted_usd=row.turn.predicted_usd if row.turn is not None else None,
        versions=versions,
    )


def ls(
    workspace: Workspace, *, limit: int | None = None, before: str | None = None
) -> list[ConversationShown]:
    """Conversations, most recently used first: all, or at most ``limit``. ``before``: only those after one
    that was listed, ``LAST_USED:KEY``."""
    from segue.turns.projection import list_projected

    allowed = workspace.store.allowed_tools()
    conditions = workspace.store.reading.conditions()
    if limit is None and before is None:
        summaries = list_projected(workspace.store, workspace.env, workspace.cwd)
    else:
        summaries = _page(workspace, limit, before)
    return [conversation_of(each, allowed, conditions.get(each.conversation.id)) for each in summaries]


def _page(workspace: Workspace, limit: int | None, before: str | None) -> list[Summary]:
    """Without reading the others."""
    from segue.turns.projection import summary_projected

    if limit is not None and limit < 1:
        raise Misuse(f"the limit must be at least 1, not {limit}")
    store, used_ms, last = workspace.store, None, ""
    if before is not None:
        used_ms, key = cursor_of(before)
        known = store.conversation(key)
        last = known.id if known is not None else ""
    found = map(store.conversation_by_id, store.reading.last_used(used_ms, last, limit))
    pages = (
        summary_projected(store, each, workspace.env, workspace.cwd) for each in found if each is not None
    )
    return [each for each in pages if each is not None]


def cursor_of(before: str) -> tuple[int, str]:
    """When it was last used, and its name: what a list was read up to."""
    used, _, name = before.partition(":")
    if not used.isdecimal() or len(used) > 18:
        raise Misuse(f"before takes LAST_USED:NAME of one that was listed, not {before!r:.60}")
    return int(used), name


def conversation_of(
    each: Summary, allowed: Sequence[AllowedTool] = (), condition: Condition | None = None
) -> ConversationShown:
    """``allowed``: the tools that were allowed for good, also those of other conversations."""
    state = each.state if each.state in UNFINISHED else "idle"
    failure = condition.failure if condition is not None else None
    return ConversationShown(
        key=each.conversation.key,
        title=each.title,
        agents=each.agents,
        agent=each.conversation.agent or None,
        account=each.conversation.account or None,
        model=each.conversation.model,
        role=each.conversation.role or None,
        cwd=each.conversation.cwd or None,
        messages=each.messages,
        state=cast("Literal['idle', 'needs_you', 'running', 'parked', 'queued']", state),
        status=status_of(each.state) if each.state is not None else None,
        recovery=each.recovery,
        created=each.conversation.created_ms,
        last_used=each.last_used_ms,
        tokens=each.tokens,
        cost_usd=each.cost_usd,
        cost_estimated=each.cost_estimated,
        saved_usd=each.saved_usd,
        forked_from=each.conversation.forked_from,
        starred=each.starred,
        unread=each.unread,
        allowed_tools=tuple(
            AllowedToolShown(agent=tool.agent, role=tool.role or None, tool=tool.tool)
            for tool in allowed
            if tool.conversation == each.conversation.id
        ),
        asks=_asks(condition.asked) if condition is not None and condition.asked is not None else None,
        until=condition.until_ms if condition is not None else None,
        failure=each.told.failure if each.told is not None else failure,
        context=condition.context if condition is not None else None,
        queued=condition.queued if condition is not None else 0,
    )


def _asks(asked: QuestionRow) -> str:
    from segue.core.question import OpenQuestion, question_words

    return question_words(msgspec.json.decode(asked.question, type=OpenQuestion))


def keys(workspace: Workspace) -> list[str]:
    return [each.conversation.key for each in workspace.store.conversations()]


def last(workspace: Workspace, key: str, *, wait: bool = False) -> LastAnswer:
    """The last answer of a conversation. ``wait``: first wait until no turn runs or is queued."""
    from segue.turns.liveness import under_way

    conversation = workspace.conversation(key)
    if wait:
        host = workspace.host
        wait_until_idle(lambda: under_way(workspace.store, conversation.id, host))
    store = workspace.projected(conversation)
    rows = store.log(conversation.id)
    present = {row.id for row in rows}
    runs = [turn for turn in store.turns(conversation.id) if _counts(turn, present)]
    answers = [row for row in rows if row.sender == "assistant"]
    newest = runs[-1] if runs else None
    over = newest is not None and status_of(newest.state) is not None
    told = newest.told if newest is not None and over else None
    return LastAnswer(
        text=answers[-1].text if answers else None,
        told=_told(workspace, answers[-1]) if answers else None,
        failed=told if told is not None and told.failure is not None else None,
        agent=newest.voice.agent if newest is not None else None,
        running=newest is not None and told is None,
    )


def wait_until_idle(is_busy: Callable[[], bool]) -> None:
    """Wait until no turn runs or is queued. An unavailable store is waited for, too, up to ``AWAY_S``."""
    away_until: float | None = None
    while True:
        try:
            if not is_busy():
                return
            away_until = None
        except StoreAway:
            away_until = time.monotonic() + AWAY_S if away_until is None else away_until
            if time.monotonic() > away_until:
                raise
        time.sleep(POLL_S)


def _counts(turn: TurnRow, present: set[str]) -> bool:
    """Whether it can be the newest turn: it was not withdrawn, and its message was not dropped since."""
    return turn.state == "queued" or (turn.state != "withdrawn" and turn.message in present)


def _told(workspace: Workspace, answer: LogRow) -> Turn | LogMessage:
    """The turn that gave an answer; for an imported answer, its message in the log."""
    turn = answer.turn
    if turn is not None and turn.told is not None:
        return turn.told
    return message_of(answer, workspace.store.reading.version_counts([answer])[answer.id])


def export(workspace: Workspace, key: str, form: Literal["json", "markdown"] = "json") -> str:
    """The conversation as JSON, which ``import_`` accepts, or as Markdown to read."""
    from segue.turns import exchange

    conversation = workspace.conversation(key)
    exported = exchange.export_of(workspace.projected(conversation), conversation)
    return exchange.markdown(exported) if form == "markdown" else exchange.json(exported)


def import_(workspace: Workspace, data: str | bytes, key: str | None = None) -> str:
    """Create a conversation from an export, under its own key or another one. Returns the key."""
    from segue.turns import exchange

    exported = exchange.read(data.encode() if isinstance(data, str) else data)
    return exchange.take_in(workspace.store, exported, key).key
