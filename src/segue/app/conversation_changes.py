"""Changes of conversations: messages are edited and dropped, a conversation is forked or forgotten."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from functools import partial

from anyio.to_thread import run_sync

from segue.app.shapes import Undone
from segue.app.workspace import Workspace
from segue.core.ids import conversation_key
from segue.store.leases import held_for_change
from segue.store.records import Conversation
from segue.turns import changes
from segue.turns.request import utf8

WAIT_S = 2.0
"""How long a change waits for a turn that is over to let go of the conversation."""


async def edit(workspace: Workspace, key: str, message: str, text: str, *, cut: bool = False) -> int:
    """Change one message in place; with ``cut``, drop what follows it. Returns how many were dropped."""
    conversation = await run_sync(workspace.conversation, key)
    async with held(workspace, conversation):
        named = await run_sync(changes.find_message, workspace.store, conversation, message)
        new = utf8(text, "new text")
        edited = partial(changes.edit, workspace.store, conversation, named.id, new, cut=cut)
        return len(await run_sync(edited))


async def truncate(workspace: Workspace, key: str, message: str) -> int:
    """Drop a message and everything after it. Returns how many were dropped."""
    conversation = await run_sync(workspace.conversation, key)
    async with held(workspace, conversation):
        named = await run_sync(changes.find_message, workspace.store, conversation, message)
        return len(await run_sync(changes.truncate, workspace.store, conversation, named.id))


async def undo(workspace: Workspace, key: str) -> Undone:
    """Undo the last edit, truncation or retry, if nothing was said since."""
    conversation = await run_sync(workspace.conversation, key)
    async with held(workspace, conversation):
        done = await run_sync(changes.undo, workspace.store, conversation)
        return Undone(done.kind, len(done.removed))


def fork(workspace: Workspace, key: str, new_key: str | None = None, upto: str | None = None) -> str:
    """Create a conversation that begins with this one's messages: all, or up to ``upto``. Returns its key."""
    conversation = workspace.conversation(key)
    last = changes.find_message(workspace.store, conversation, upto).id if upto else None
    wanted = conversation_key(new_key) if new_key is not None else None
    return changes.fork(workspace.store, conversation, wanted, last).key


async def rm(workspace: Workspace, *keys: str, counts_for: str | None = None) -> None:
    """Forget conversations. If a key is unknown, none is forgotten. ``counts_for``: the conversation that
    they cost something for, if it is not they themselves."""
    known = [await run_sync(workspace.conversation, key) for key in keys]
    for conversation in known:
        async with held(workspace, conversation):
            await run_sync(partial(workspace.store.remove, conversation.id, counts_for=counts_for))


def held(workspace: Workspace, conversation: Conversation) -> AbstractAsyncContextManager[None]:
    """Hold a conversation while it is changed. Raises ``InUse`` at once if a turn of it runs."""
    return held_for_change(
        workspace.store,
        conversation,
        host=workspace.host,
        locks=workspace.home.locks,
        wait_s=WAIT_S,
    )
