"""What a client orders: a run of a conversation, or one that continues a native session, ready to be
queued."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec

from segue.app.ready_turn import Options, ready_retry, ready_turn
from segue.app.run_shapes import AttachmentOrder, RunOrder
from segue.app.workspace import Workspace
from segue.core.errors import Misuse
from segue.core.laws import Door
from segue.store.records import Receipt
from segue.system import clock
from segue.turns.prepare import Prepared

if TYPE_CHECKING:
    from segue.core.attachments import Attachment


def prepare_order(
    workspace: Workspace,
    key: str,
    order: RunOrder,
    run_key: str | None,
    env: Mapping[str, str] | None,
    more: Options | None = None,
) -> tuple[Prepared, str | None]:
    """What was ordered, checked; and the message to retry, if it is not a new one."""
    workspace = place(workspace, key, order.cwd, env)
    options = cast("Options", {**_options(order, run_key), **(more or {})})
    if order.retry_of is not None:
        ready = ready_retry(workspace, key, order.retry_of, options, answers=order.answers)
        return ready.prepared, ready.retry_message
    return ready_turn(workspace, key, order.message, options, answers=order.answers).prepared, None


def prepare_continuation(
    workspace: Workspace,
    session: str | None,
    key: str | None,
    order: RunOrder,
    receipt: Receipt | None,
    env: Mapping[str, str] | None,
) -> Prepared | str:
    """The run that continues a native session: in its conversation, or in a new one. Or the id of the run
    that was ordered so before."""
    from segue.app.native import continuation

    if order.retry_of or order.adopt or order.fork or order.fresh_session or order.blank:
        raise Misuse("a session is continued by a new message; leave out retry_of, adopt, fork and the like")
    found = continuation(workspace, session, key, _options(order, receipt.key if receipt else None))
    known = run_of_receipt(workspace, found.key, receipt) if receipt is not None else None
    if known is not None:
        return known
    there = place(workspace, found.key, order.cwd, env)
    ready = ready_turn(
        there, found.key, order.message, found.options, answers=order.answers, door=Door.CONTINUE
    )
    return ready.prepared


def run_of_receipt(workspace: Workspace, key: str, receipt: Receipt) -> str | None:
    """The run of the conversation that was ordered with this receipt before. Raises ``Misuse`` if something
    else was ordered under its key."""
    conversation = workspace.store.conversation(key)
    if conversation is None:
        return None
    return workspace.store.run_of_key(conversation.id, receipt, clock.now_ms())


def place(workspace: Workspace, key: str, cwd: str | None, env: Mapping[str, str] | None) -> Workspace:
    """The caller's place. A client that names no directory is in the conversation's: it is nowhere else."""
    known = workspace.store.conversation(key)
    named = known.cwd if known is not None and cwd is None and known.cwd else None
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
