"""Another account takes a message whose own account has met a limit (``[limits] on_limit = "switch"``)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
from anyio.to_thread import run_sync

from segue.accounts import failover as accounts
from segue.app import conversation_changes
from segue.app.workspace import Workspace
from segue.core.errors import SegueError
from segue.core.turn import Turn
from segue.turns.other_account import other_account
from segue.turns.prepare import Prepared


async def failover(
    workspace: Workspace, prepared: Prepared, failed: Turn, notice: Callable[[str], None]
) -> Prepared | None:
    """The run of the next account that can take the message, with what its rules let it carry over."""
    store, without = workspace.store, set[str]()
    while name := await run_sync(other_account, prepared, store, failed, without):
        try:
            other = await run_sync(accounts.prepare_under, prepared, store, failed, name)
        except SegueError as error:
            notice(f"the account {name} cannot take the message: {error.message}")
            without.add(name)
            continue
        try:
            async with conversation_changes.held(workspace, other.conversation):
                bind = partial(accounts.bind, store, prepared, other, failed)
                conversation, what = await run_sync(bind)
        except SegueError as error:
            notice(f"no other account takes the message: {error.message}")
            return None
        return msgspec.structs.replace(other, conversation=conversation, notices=(what,))
    return None
