"""Reading a conversation in parts: pages of messages, their events, versions, attachments; and the search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from segue.app.conversation_shapes import AttachmentData, MessagePage, MessageVersion
from segue.app.conversations import message_of
from segue.app.run_shapes import FeedEvent
from segue.app.workspace import Workspace
from segue.core.errors import Misuse, NotFound
from segue.store.records import Conversation, LogRow, TurnRow

LONGEST_PAGE = 1_000
LONGEST_TEXT = 4_000
"""How many characters of a text within an event a page shows."""
MOST_EVENTS = 400
"""How many events of a run a page shows."""
AROUND = 60
"""How many characters a snippet shows before and after what was found."""


def messages(
    workspace: Workspace,
    key: str,
    *,
    before: str | None = None,
    at: str | None = None,
    after: str | None = None,
    limit: int,
    events: bool = False,
) -> MessagePage:
    from segue.turns.projection import ProjectedStore

    if sum(each is not None for each in (before, at, after)) > 1:
        raise Misuse("give one of before, at and after")
    conversation, reading = workspace.conversation(key), workspace.store.reading
    named = _named(workspace, conversation, at)
    page = reading.page(conversation.id, before, count(limit), at=named, after=after)
    store = workspace.projected(conversation)
    rows = store.completed(conversation.id, page.rows) if isinstance(store, ProjectedStore) else page.rows
    versions = reading.version_counts(rows)
    told, left_out = _events(workspace, rows) if events else (None, None)
    return MessagePage(
        messages=tuple(message_of(row, versions[row.id]) for row in rows),
        first_id=page.first,
        has_more=page.has_more,
        rewrites=page.rewrites,
        size=page.size,
        last_id=page.last,
        has_newer=page.has_newer,
        events=told,
        events_left_out=left_out,
    )


def _named(workspace: Workspace, conversation: Conversation, at: str | None) -> str | None:
    """The id of the message. A link may name it by its number."""
    if at is None or not at.startswith("#"):
        return at
    from segue.turns.changes import find_message

    return find_message(workspace.store, conversation, at).id


def _events(
    workspace: Workspace, rows: Iterable[LogRow]
) -> tuple[dict[str, tuple[FeedEvent, ...]], dict[str, int]]:
    """The events of the messages' runs, by run; and how many of each are left out, if any are."""
    runs = list(dict.fromkeys(row.turn.id for row in rows if row.turn is not None))
    found = workspace.store.reading.run_events(runs, MOST_EVENTS)
    told = {
        run: tuple(_shortened(run, *row) for row in found[run].rows) if run in found else () for run in runs
    }
    return told, {run: each.left_out for run, each in found.items() if each.left_out}


def event(workspace: Workspace, run: str, number: int) -> FeedEvent:
    """One event of a run, as it is stored."""
    found = workspace.store.reading.run_event(run, number)
    if found is None:
        raise NotFound(f"the run {run} has no event {number}, or not any more")
    return FeedEvent(run=run, n=number, ms=found[0], event=msgspec.Raw(found[1].encode()))


def _shortened(run: str, number: int, ms: int, text: str) -> FeedEvent:
    """The event without the rest of long texts."""
    if len(text) > LONGEST_TEXT:
        whole = msgspec.json.decode(text)
        cut = _cut(whole)
        if cut != whole:
            raw = msgspec.Raw(msgspec.json.encode(cut))
            return FeedEvent(run=run, n=number, ms=ms, event=raw, cut=True)
    return FeedEvent(run=run, n=number, ms=ms, event=msgspec.Raw(text.encode()))


def _cut(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else value[:LONGEST_TEXT]
    if isinstance(value, dict):
        return {name: _cut(each) for name, each in value.items()}
    return [_cut(each) for each in value] if isinstance(value, list) else value


def attachment_data(workspace: Workspace, key: str, attachment: str) -> AttachmentData:
    store = workspace.store
    found = store.attachment_in(workspace.conversation(key).id, attachment)
    data = store.attachment_data(attachment) if found is not None else None
    if found is None or data is None:
        raise NotFound(f'{key} has no attachment "{attachment[:80]}"')
    return AttachmentData(found.id, found.name, found.media_type, data)


def siblings(workspace: Workspace, key: str, message: str) -> list[MessageVersion]:
    from segue.turns.changes import find_message

    conversation, store = workspace.conversation(key), workspace.store
    named = find_message(store, conversation, message)
    if named.sender == "user":
        return _wordings(workspace, named.id)
    turn = store.reading.answered_by([named.id]).get(named.id)
    runs = store.runs_of([turn.message])[turn.message] if turn is not None else []
    given: dict[str, str | None] = {named.id: None}
    given |= {run.answer: run.id for run in runs if run.answer is not None}
    return [
        MessageVersion(
            message=each.message,
            revision=each.revision,
            text=each.text,
            run=given[each.message],
            created=each.ms,
            current=each.stands,
        )
        for each in store.reading.versions(list(given))
    ]


def _wordings(workspace: Workspace, message: str) -> list[MessageVersion]:
    runs = workspace.store.runs_of([message]).get(message, [])
    found = workspace.store.reading.versions([message])
    ends = [each.ms for each in found[1:]]
    return [
        MessageVersion(
            message=message,
            revision=each.revision,
            text=each.text,
            run=_last_between(runs, each.ms, until),
            created=each.ms,
            current=each.stands,
        )
        for each, until in zip(found, [*ends, None], strict=True)
    ]


def _last_between(runs: Sequence[TurnRow], since: int, until: int | None) -> str | None:
    """The last run that began with the wording of that time."""
    begun = [run.id for run in runs if since <= run.started_ms and (until is None or run.started_ms < until)]
    return begun[-1] if begun else None


def count(limit: int) -> int:
    if not 1 <= limit <= LONGEST_PAGE:
        raise Misuse(f"the limit must be between 1 and {LONGEST_PAGE:,}, not {limit}")
    return limit
