"""``Segue.conversations``: look through conversations from Python, page by page, and mark them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync

from segue.app.conversation_shapes import (
    AttachmentData,
    ConversationHit,
    MessagePage,
    MessageVersion,
    TurnLineage,
    TurnParent,
)
from segue.app.conversations import conversation_of, message_of
from segue.app.shapes import ConversationShown
from segue.app.workspace import Workspace
from segue.core.errors import Misuse, NotFound
from segue.core.ids import conversation_key
from segue.store.records import Conversation, Descent, TurnRow
from segue.system import clock
from segue.turns.request import NONE, Options, request_from_options, utf8

if TYPE_CHECKING:
    from segue.app.segue import Segue

LONGEST_PAGE = 1_000
LONGEST_TITLE = 200


class Conversations:
    """A message is named by its id, as ``#n``, or by the id of one of its runs."""

    def __init__(self, segue: Segue) -> None:
        self._segue = segue

    async def create(
        self,
        key: str,
        *,
        agent: str | None = None,
        account: str | None = None,
        model: str | None = None,
        role: str | None = None,
        cwd: str | Path | None = None,
        title: str = "",
    ) -> ConversationShown:
        """Create a conversation in which nothing was said yet. What is given is used by its first turn.

        ``run`` creates a conversation by itself; this is for a program that shows it before that.
        """
        return await run_sync(
            partial(
                create,
                self._workspace,
                key,
                agent=agent,
                account=account,
                model=model,
                role=role,
                cwd=cwd,
                title=title,
            )
        )

    async def show(self, key: str) -> ConversationShown:
        """One conversation, as in ``ls``."""
        return await run_sync(show, self._workspace, key)

    async def rename(self, key: str, title: str) -> None:
        """Give it a title. An empty one: lists show how it begins."""
        await run_sync(give_title, self._workspace, key, title)

    async def star(self, key: str, on: bool = True) -> None:
        """Mark it with a star, or take the star away."""
        await run_sync(lambda: self._workspace.store.reading.star(self._conversation(key).id, on))

    async def mark_read(self, key: str) -> None:
        """Record that somebody has seen its newest answer."""
        await run_sync(lambda: self._workspace.store.reading.mark_read(self._conversation(key).id))

    async def disallow(self, key: str, tool: str) -> ConversationShown:
        """Take back that a tool may always be used: the agents ask for permission again."""
        await run_sync(disallow, self._workspace, key, tool)
        return await self.show(key)

    async def messages(self, key: str, *, before: str | None = None, limit: int = 100) -> MessagePage:
        """The newest messages, or those before the message ``before`` (a page's ``first_id``).

        They are those of ``log``. ``NotFound`` if ``before`` was dropped: start with the newest page again.
        """
        return await run_sync(partial(messages, self._workspace, key, before=before, limit=limit))

    async def search(
        self, text: str, *, agent: str | None = None, since: str | None = None, limit: int = 20
    ) -> list[ConversationHit]:
        """Conversations whose title or key contains the text, then messages that do; the newest first.

        Upper and lower case are alike. ``agent``: only what was said to or by it. ``since``: ``7d``, ``12h``,
        or a date.
        """
        from segue.app.conversation_search import search

        wanted = partial(search, self._workspace, text, agent=agent, since=since, limit=_count(limit))
        return await run_sync(wanted)

    async def attachment(self, key: str, attachment: str) -> AttachmentData:
        """One attachment of its messages, by its id, with its bytes."""
        return await run_sync(attachment_data, self._workspace, key, attachment)

    async def siblings(self, key: str, message: str) -> list[MessageVersion]:
        """The versions of a message, oldest first: its wordings; of an answer, the answers of all runs."""
        return await run_sync(siblings, self._workspace, key, message)

    async def lineage(self, key: str) -> list[TurnLineage]:
        """All turns, oldest first, and what each came from."""
        return await run_sync(lineage, self._workspace, key)

    @property
    def _workspace(self) -> Workspace:
        return self._segue.workspace

    def _conversation(self, key: str) -> Conversation:
        return self._workspace.conversation(key)


def create(
    workspace: Workspace,
    key: str,
    *,
    agent: str | None = None,
    account: str | None = None,
    model: str | None = None,
    role: str | None = None,
    cwd: str | Path | None = None,
    title: str = "",
) -> ConversationShown:
    options: Options = {"agent": agent, "account": account, "model": model, "role": role}
    request_from_options(key, "", options, may_be_empty=True)
    who, under = _agent(workspace, agent, account, model)
    now_ms = clock.now_ms()
    made = Conversation(
        id=clock.new_id(now_ms),
        key=conversation_key(key),
        agent=who,
        account=under,
        model=None if model == NONE else model,
        role="" if role in (None, NONE) else role,
        cwd=_directory(workspace, cwd),
        title=_title(title),
        created_ms=now_ms,
        updated_ms=now_ms,
    )
    workspace.store.add(made, [])
    return show(workspace, made.key)


def show(workspace: Workspace, key: str) -> ConversationShown:
    from segue.turns.projection import summary_projected

    conversation = workspace.conversation(key)
    summary = summary_projected(workspace.store, conversation, workspace.env, workspace.cwd)
    if summary is None:
        raise NotFound(f"{key} was deleted in the meantime")
    return conversation_of(summary, workspace.store.allowed_tools(conversation.id))


def disallow(workspace: Workspace, key: str, tool: str) -> None:
    if not workspace.store.disallow_tool(workspace.conversation(key).id, tool):
        raise NotFound(f"{tool} was not allowed for good in {key}")


def give_title(workspace: Workspace, key: str, title: str) -> None:
    workspace.store.reading.give_title(workspace.conversation(key).id, _title(title))


def messages(workspace: Workspace, key: str, *, before: str | None, limit: int) -> MessagePage:
    from segue.turns.projection import ProjectedStore

    conversation = workspace.conversation(key)
    page = workspace.store.reading.page(conversation.id, before, _count(limit))
    store = workspace.projected(conversation)
    rows = store.completed(conversation.id, page.rows) if isinstance(store, ProjectedStore) else page.rows
    return MessagePage(
        messages=tuple(map(message_of, rows)),
        first_id=page.first,
        has_more=page.has_more,
        rewrites=page.rewrites,
        size=page.size,
    )


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


def lineage(workspace: Workspace, key: str) -> list[TurnLineage]:
    conversation, store = workspace.conversation(key), workspace.store
    parents: dict[str, list[Descent]] = {}
    for each in store.descents(conversation.id):
        parents.setdefault(each.run, []).append(each)
    return [
        TurnLineage(
            run=run.id,
            message=run.message,
            agent=run.voice.agent,
            role=run.voice.role or None,
            mode=run.mode,
            state=run.state,
            created=run.ms,
            session=next((each.session for each in parents.get(run.id, ()) if each.session), None),
            parents=tuple(map(_parent, parents.get(run.id, ()))),
        )
        for run in store.reading.runs(conversation.id)
    ]


def _parent(descent: Descent) -> TurnParent:
    return TurnParent(
        kind=descent.kind,
        run=descent.parent,
        conversation=descent.parent_key,
        session=descent.parent_session,
    )


def _count(limit: int) -> int:
    if not 1 <= limit <= LONGEST_PAGE:
        raise Misuse(f"the limit must be between 1 and {LONGEST_PAGE:,}, not {limit}")
    return limit


def _title(text: str) -> str:
    """On one line."""
    title = " ".join(utf8(text, "title").split())
    if len(title) > LONGEST_TITLE:
        raise Misuse(f"the title is too long: {len(title)} characters, at most {LONGEST_TITLE}")
    return title


def _agent(
    workspace: Workspace, agent: str | None, account: str | None, model: str | None
) -> tuple[str, str]:
    """The agent and its account, as the first turn would choose them; empty: it chooses."""
    from segue.turns.agent_choice import resolve_agent

    if agent is None and account in (None, NONE):
        if model is not None:
            raise Misuse("a model belongs to an agent; name the agent, too")
        return "", ""
    wanted = "" if account == NONE else account
    found, name, _ = resolve_agent(agent, wanted, workspace.config, workspace.env)
    return found.facts.name, name or ""


def _directory(workspace: Workspace, cwd: str | Path | None) -> str:
    if cwd is None:
        return ""
    path = os.path.abspath(workspace.cwd / Path(utf8(str(cwd), "name of the working directory")).expanduser())
    if not os.path.isdir(path):
        what = "is not a directory" if os.path.exists(path) else "does not exist"
        raise Misuse(f"the working directory {path} {what}")
    return path
