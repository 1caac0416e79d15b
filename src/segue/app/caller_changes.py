"""The changes that the commands make, each with what the command line gives for it.

The same is done in the command's own process and in the daemon, which gets it over its Unix socket. What a
change returns goes over that socket, too, and is therefore made of JSON's types in both cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec
from anyio.to_thread import run_sync

from segue.app.run_shapes import RunOrder, ToolAnswer
from segue.app.workspace import Workspace
from segue.core.request import Inherited

if TYPE_CHECKING:
    from segue.app.ready_turn import Options


class Change(msgspec.Struct, frozen=True, kw_only=True, tag_field="change", forbid_unknown_fields=True):
    """One change. Its tag is its name."""

    async def make(self, workspace: Workspace) -> Any:
        raise NotImplementedError


class Edit(Change, frozen=True, tag="edit"):
    key: str
    message: str
    text: str
    cut: bool = False

    async def make(self, workspace: Workspace) -> int:
        from segue.app import conversation_changes

        return await conversation_changes.edit(workspace, self.key, self.message, self.text, cut=self.cut)


class Truncate(Change, frozen=True, tag="truncate"):
    key: str
    message: str

    async def make(self, workspace: Workspace) -> int:
        from segue.app import conversation_changes

        return await conversation_changes.truncate(workspace, self.key, self.message)


class Undo(Change, frozen=True, tag="undo"):
    key: str

    async def make(self, workspace: Workspace) -> Any:
        from segue.app import conversation_changes

        return await conversation_changes.undo(workspace, self.key)


class Fork(Change, frozen=True, tag="fork"):
    key: str
    new_key: str | None = None
    upto: str | None = None

    async def make(self, workspace: Workspace) -> str:
        from segue.app import conversation_changes

        return await run_sync(conversation_changes.fork, workspace, self.key, self.new_key, self.upto)


class Import(Change, frozen=True, tag="import"):
    data: bytes
    key: str | None = None

    async def make(self, workspace: Workspace) -> str:
        from segue.app import conversations

        return await run_sync(conversations.import_, workspace, self.data, self.key)


class Remove(Change, frozen=True, tag="rm"):
    keys: tuple[str, ...]

    async def make(self, workspace: Workspace) -> None:
        from segue.app import conversation_changes

        await conversation_changes.rm(workspace, *self.keys)


class SwitchAccount(Change, frozen=True, tag="account switch"):
    key: str
    account: str
    carry: Literal["raw", "summary"] | None = None
    cancel: bool = False
    queued: Literal["keep", "move"] | None = None

    async def make(self, workspace: Workspace) -> Any:
        from segue.app.account_switch import switch

        return await switch(
            workspace,
            self.key,
            self.account,
            carry=self.carry,
            cancel=self.cancel,
            queued=self.queued,
            asked_by="command line",
        )


class Enqueue(Change, frozen=True, tag="queue"):
    """Put a run into the queue. Returns it."""

    key: str
    message: str
    options: dict[str, Any]
    not_before: int | None = None
    inherited: Inherited | None = None

    async def make(self, workspace: Workspace) -> Any:
        from segue.app.runs import enqueue_order

        order = RunOrder(message=self.message, not_before=self.not_before)
        options = cast("Options", self.options)
        return await run_sync(enqueue_order, workspace, self.key, order, options, self.inherited)


class EditQueued(Change, frozen=True, tag="queue edit"):
    run: str
    text: str

    async def make(self, workspace: Workspace) -> None:
        from segue.app.runs import edit_queued

        await run_sync(edit_queued, workspace, self.run, self.text)


class MoveQueued(Change, frozen=True, tag="queue move"):
    run: str
    place: int

    async def make(self, workspace: Workspace) -> None:
        from segue.app.runs import move_queued

        await run_sync(move_queued, workspace, self.run, self.place)


class RemoveQueued(Change, frozen=True, tag="queue rm"):
    run: str

    async def make(self, workspace: Workspace) -> None:
        from segue.app.runs import cancel_run, waiting

        await run_sync(waiting, workspace, self.run)
        await run_sync(cancel_run, workspace, self.run)


class CancelRuns(Change, frozen=True, tag="cancel"):
    """Cancel a run, or all of a conversation. Returns the id of each, and its state then."""

    name: str

    async def make(self, workspace: Workspace) -> list[tuple[str, str | None]]:
        from segue.app.runs import cancel_run, settle_lost, unfinished

        runs = await run_sync(unfinished, workspace, self.name)
        asked = [run for run in runs if await run_sync(cancel_run, workspace, run)]
        return [(run, await settle_lost(workspace, run)) for run in asked]


class AnswerQuestion(Change, frozen=True, tag="answer"):
    """Answer a question. Returns the run that the answer is sent with, if it is a message of its own."""

    run: str
    given: ToolAnswer

    async def make(self, workspace: Workspace) -> str | None:
        from segue.app.questions import answer

        return await run_sync(answer, workspace, self.run, self.given)


class Repair(Change, frozen=True, tag="sessions repair"):
    """Repair a session. Returns its id, and the report."""

    session: str
    trim: bool = False
    since: str | None = None

    async def make(self, workspace: Workspace) -> tuple[str, Any]:
        from segue.app import native, upkeep

        found = await run_sync(native.find, workspace, self.session)
        return found.id, await upkeep.repair(workspace, found, trim=self.trim, since=self.since)


class Restore(Change, frozen=True, tag="sessions restore"):
    session: str

    async def make(self, workspace: Workspace) -> Any:
        from segue.app import upkeep

        return await upkeep.restore(workspace, self.session)


class Prune(Change, frozen=True, tag="sessions prune"):
    """Delete what ``upkeep.plan_prune`` chooses with these rules."""

    rules: dict[str, Any]
    confirm: str | None = None

    async def make(self, workspace: Workspace) -> Any:
        from segue.app import upkeep

        plan = await run_sync(partial(upkeep.plan_prune, workspace, **self.rules))
        plan.refuse_unconfirmed(self.confirm)
        return await upkeep.prune(workspace, plan)


AnyChange = (
    Edit
    | Truncate
    | Undo
    | Fork
    | Import
    | Remove
    | SwitchAccount
    | Enqueue
    | EditQueued
    | MoveQueued
    | RemoveQueued
    | CancelRuns
    | AnswerQuestion
    | Repair
    | Restore
    | Prune
)


async def make_change(workspace: Workspace, change: AnyChange) -> Any:
    """Make the change. Returns what it returns, in JSON's types."""
    return msgspec.to_builtins(await change.make(workspace))


async def make_named(workspace: Workspace, name: str, given: Mapping[str, Any]) -> Any:
    """The same, for a change that is named as over the socket."""
    return await make_change(workspace, msgspec.convert({"change": name, **given}, AnyChange))
