"""Our copies of native sessions, around a turn: restored before it, updated after it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from segue.config.home import Home
from segue.core.errors import InUse, Misuse, SegueError
from segue.core.model import Host, Pin
from segue.core.verdicts import Said, say
from segue.store.copies import KeptRow
from segue.store.leases import LeaseBusy, alone, native_lease
from segue.store.store import Store
from segue.turns.prepare import Prepared
from segue.turns.run_dir import Plan

if TYPE_CHECKING:
    from segue.sessions.copies.restore import Restored

UNKEPT = "no copy of the session could be kept"


def restore_session(prepared: Prepared, store: Store, pin: Pin, copy: KeptRow) -> Said:
    """Restore the session to where it was; or, if it was on another host, to the account's home on this one.

    Returns a notice for the user. Raises ``SegueError`` with the reason if it cannot be done.
    """
    from segue.sessions.copies.chunks import chunks_of
    from segue.sessions.copies.restore import restore_copy

    label, here = prepared.agent.facts.label, prepared.host.has(pin)
    home = Path(pin.home) if here else prepared.home
    restore_copy(copy, chunks_of(store, prepared.segue_home.kept), home, behind=not here)
    session_format = prepared.agent.format
    stored = (
        session_format.find(home, pin.native_id, prepared.request.cwd) if session_format is not None else None
    )
    if stored is None or session_format is None:
        raise SegueError(f"{label} does not find it there")
    if here:
        text = f"{label}'s session was gone from disk; restored from Segue's copy"
        return say(text, "notice.restored", agent=label)
    if pin.end is not None and session_format.end(stored) != pin.end:
        raise SegueError("it is older than the session")
    store.move_session(prepared.conversation.id, pin, prepared.host, str(home))
    text = f"{label}'s session was on {pin.host}; restored here from Segue's copy"
    return say(text, "notice.restored_here", agent=label, host=pin.host)


def copies_lease(prepared: Prepared, pin: Pin) -> str:
    """The lease that resuming the session on this host needs as well."""
    return native_lease(pin.voice.agent, prepared.host, pin.native_id)


async def restore_if_gone(store: Store, row: KeptRow, home: Path, segue_home: Home, host: Host) -> Restored:
    """Restore the newest copy of the session to this home. Raises ``InUse`` while the session is in use."""
    from anyio.to_thread import run_sync

    from segue.sessions.copies.chunks import chunks_of
    from segue.sessions.copies.restore import restore_copy

    try:
        name = native_lease(row.agent, host, row.native_id)
        async with alone(store, name, host=host, locks=segue_home.locks):
            newest = store.session_copy(row.agent, row.account, row.native_id)
            if newest is None:
                raise Misuse(f"the copy of session {row.native_id} was dropped just now")
            return await run_sync(restore_copy, newest, chunks_of(store, segue_home.kept), home)
    except LeaseBusy as busy:
        raise InUse(f"session {row.native_id} is in use ({busy.holder}); try again later") from None


def load_early(prepared: Prepared) -> None:
    """Import what keeping a copy needs while the agent works, so that it does not delay the end."""
    with suppress(Exception):
        if prepared.config.keep.enabled and prepared.agent.archive() is not None:
            import zstandard  # noqa: F401 - only to load it

            from segue.sessions.copies import keep as keeping  # noqa: F401 - likewise


def keep_copy(prepared: Prepared, store: Store, plan: Plan, native_id: str) -> Said | None:
    """Update the copy of the session that this turn has pinned. Returns None, or what went wrong."""
    if not prepared.config.keep.enabled or prepared.agent.archive() is None:
        return None
    from segue.sessions.copies import keep as keeping

    session = keeping.SessionFiles(
        agent=plan.voice.agent,
        account=plan.account,
        native_id=native_id,
        conversation=plan.conversation,
        host=Host(plan.host, plan.host_id),
        home=plan.home,
        cwd=plan.request.cwd,
    )
    try:
        keeping.keep_copy(store, prepared.segue_home.kept, prepared.config.keep, prepared.agent, session)
    except OSError as error:
        return _unkept(error.strerror or str(error))
    except SegueError as error:
        return _unkept(str(error))
    except Exception as error:  # a bug of ours must not cost the user an answer
        return _unkept(f"{type(error).__name__}: {error}"[: 300 - len(f"{UNKEPT}: ")])
    return None


def _unkept(why: str) -> Said:
    return say(f"{UNKEPT}: {why}", "notice.unkept", why=why)
