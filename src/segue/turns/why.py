"""What the next turn would do, and why, and what each way would cost: without running anything."""

from __future__ import annotations

import time

import msgspec

from segue.core.history import account_mark
from segue.core.ladder import decide
from segue.core.model import Message
from segue.core.situation import tokens
from segue.core.turn import Check, Mode
from segue.store import leases
from segue.store.store import Store
from segue.turns import foresight, owners
from segue.turns.lease import judge, lease_name
from segue.turns.prepared import Prepared
from segue.turns.survey import survey


class RungShown(msgspec.Struct, frozen=True):
    """One rung: what bars it, or what it would take."""

    mode: Mode
    state: str
    """``chosen``, ``open``, ``barred`` or ``impossible``."""
    why: str = ""
    new_tokens: int | None = None
    cached_tokens: int | None = None
    usd: float | None = None


class Sends(msgspec.Struct, frozen=True):
    """What the chosen rung would send: messages the session holds, messages as text, and about how much."""

    native_messages: int
    text_messages: int
    bytes: int
    tokens: int


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """The decision that a turn would take now."""

    schema: int = 1
    conversation: str
    agent: str
    account: str | None
    model: str | None
    role: str | None
    mode: Mode
    sends: Sends
    rungs: tuple[RungShown, ...]
    checks: tuple[Check, ...]
    epoch: int
    session_id: str | None = None
    context_window: int | None = None


def why(prepared: Prepared, store: Store, new_bytes: int) -> Why:
    """``new_bytes``: the size of the message that would be said."""
    new = Message(
        id="",
        sender="user",
        voice=prepared.voice,
        account=prepared.account_name,
        under=(account_mark(prepared.agent.name, prepared.account_name),),
        blank=prepared.ask.blank,
        size=new_bytes,
    )
    known = prepared.conversation.id
    surveyed = survey(prepared, store, known, new=new, busy=_busy(prepared, store))
    situation, decision = surveyed.situation, decide(surveyed.situation)
    costs = foresight.predicted(surveyed, prepared)
    native = decision.mode in ("resume", "branch")
    text = situation.cut.text if native else surveyed.view if decision.mode != "fresh" else surveyed.view[-1:]
    size = foresight.outlook(surveyed, prepared).text_bytes[decision.mode]
    rungs = []
    for rung in decision.rungs:
        cost = costs.get(rung.mode)
        rungs.append(
            RungShown(
                rung.mode,
                "chosen" if rung.mode == decision.mode else rung.state,
                rung.why,
                cost.new_tokens if cost is not None else None,
                cost.cached_tokens if cost is not None else None,
                cost.usd if cost is not None else None,
            )
        )
    return Why(
        conversation=prepared.conversation.key,
        agent=prepared.agent.name,
        account=prepared.account,
        model=prepared.request.model,
        role=prepared.role or None,
        mode=decision.mode,
        sends=Sends(situation.cut.kept if native else 0, len(text), size, tokens(size)),
        rungs=tuple(rungs),
        checks=decision.checks,
        epoch=surveyed.epoch,
        session_id=surveyed.pin.native_id if surveyed.pin is not None else None,
        context_window=situation.window,
    )


def _busy(prepared: Prepared, store: Store) -> str | None:
    row = leases.find(store, lease_name(prepared.conversation.id))
    if row is None or judge(row, time.time_ns() // 1_000_000, prepared.host) == "dead":
        return None
    return f"another turn is running ({owners.short_name(row.owner)})"
