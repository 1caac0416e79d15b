"""``Segue.conversations``: look through conversations from Python, page by page, and mark them."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from anyio.to_thread import run_sync

from segue.app import conversation_pages as pages
from segue.app.conversation_shapes import (
    AttachmentData,
    Chain,
    ConversationHit,
    ConversationLineage,
    ConversationSession,
    MessagePage,
    MessageVersion,
)
from segue.app.conversations import conversation_of
from segue.app.shapes import ConversationShown
from segue.app.workspace import Workspace
from segue.core.errors import Misuse, NotFound
from segue.core.ids import conversation_key
from segue.store.records import Conversation
from segue.system import clock
from segue.turns.request import NONE, Options, request_from_options, utf8

if TYPE_CHECKING:
    from segue.app.segue import Segue

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

    async def messages(
        self,
        key: str,
        *,
        before: str | None = None,
        at: str | None = None,
        after: str | None = None,
        limit: int = 100,
        events: bool = False,
    ) -> MessagePage:
        """The newest messages; those before the message ``before`` (a page's ``first_id``); those after the
        message ``after`` (a page's ``last_id``); or those around the message ``at``.

        They are those of ``log``. ``NotFound`` if the named message was dropped: start with the newest page
        again. ``events``: also the events of their runs. Long texts in them are cut; ``runs.event`` returns
        one whole.
        """
        return await run_sync(
            partial(
                pages.messages,
                self._workspace,
                key,
                before=before,
                at=at,
                after=after,
                limit=limit,
                events=events,
            )
        )

    async def search(
        self, text: str, *, agent: str | None = None, since: str | None = None, limit: int = 20
    ) -> list[ConversationHit]:
        """Conversations whose title or key contains the text, then messages that do; the newest first.

        Upper and lower case are alike. ``agent``: only what was said to or by it. ``since``: ``7d``, ``12h``,
        or a date.
        """
        from segue.app.conversation_search import search

        wanted = partial(search, self._workspace, text, agent=agent, since=since, limit=pages.count(limit))
        return await run_sync(wanted)

    async def attachment(self, key: str, attachment: str) -> AttachmentData:
        """One attachment of its messages, by its id, with its bytes."""
        return await run_sync(pages.attachment_data, self._workspace, key, attachment)

    async def siblings(self, key: str, message: str) -> list[MessageVersion]:
        """The versions of a message, oldest first: its wordings; of an answer, the answers of all runs."""
        return await run_sync(pages.siblings, self._workspace, key, message)

    async def lineage(self, key: str) -> ConversationLineage:
        """All turns, oldest first, and what each came from; and the conversations that came out of it."""
        from segue.app.lineage import lineage

        return await run_sync(lineage, self._workspace, key)

    async def chain(self, name: str) -> Chain:
        """All turns that came out of each other, and what they cost together. ``name``: the id of a run, a
        native session or a flow, or the key of a conversation or a flow."""
        from segue.app.chain import chain

        return await run_sync(chain, self._workspace, name)

    async def sessions(self, key: str) -> list[ConversationSession]:
        """The native sessions that its next turns would continue, and how to open each in a terminal."""
        from segue.app.conversation_sessions import sessions

        return await run_sync(sessions, self._workspace, key)

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
    place = _directory(workspace, cwd)
    who, under = _agent(workspace, agent, account, model, Path(place or workspace.cwd))
    now_ms = clock.now_ms()
    made = Conversation(
        id=clock.new_id(now_ms),
        key=conversation_key(key),
        agent=who,
        account=under,
        model=None if model == NONE else model,
        role="" if role in (None, NONE) else role,
        cwd=place,
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
    allowed = workspace.store.allowed_tools(conversation.id)
    condition = workspace.store.reading.conditions(conversation.id).get(conversation.id)
    return conversation_of(summary, allowed, condition)


def disallow(workspace: Workspace, key: str, tool: str) -> None:
    if not workspace.store.disallow_tool(workspace.conversation(key).id, tool):
        raise NotFound(f"{tool} was not allowed for good in {key}")


def give_title(workspace: Workspace, key: str, title: str) -> None:
    workspace.store.reading.give_title(workspace.conversation(key).id, _title(title))


def _title(text: str) -> str:
    """On one line."""
    title = " ".join(utf8(text, "title").split())
    if len(title) > LONGEST_TITLE:
        raise Misuse(f"the title is too long: {len(title)} characters, at most {LONGEST_TITLE}")
    return title


def _agent(
    workspace: Workspace, agent: str | None, account: str | None, model: str | None, place: Path
) -> tuple[str, str]:
    """The agent and its account, as the first turn would choose them; empty: it chooses."""
    from segue.turns.agent_choice import resolve_agent

    if agent is None and account in (None, NONE):
        if model is not None:
            raise Misuse("a model belongs to an agent; name the agent, too")
        return "", ""
    wanted = "" if account == NONE else account
    found, name, _ = resolve_agent(agent, wanted, workspace.config, workspace.env, place)
    return found.facts.name, name or ""


def _directory(workspace: Workspace, cwd: str | Path | None) -> str:
    if cwd is None:
        return ""
    path = os.path.abspath(workspace.cwd / Path(utf8(str(cwd), "name of the working directory")).expanduser())
    if not os.path.isdir(path):
        what = "is not a directory" if os.path.exists(path) else "does not exist"
        raise Misuse(f"the working directory {path} {what}")
    return path
