"""Marks of what Segue composes: whose words a message repeats, beside the user's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from segue.core.laws import Consent
from segue.core.view import consented, is_consented, mark_parts, old_account_mark, plain
from segue.system import clock

if TYPE_CHECKING:
    from segue.store.carries import CarryRow
    from segue.store.store import Store
    from segue.turns.prepare import Prepared


def marks_of(prepared: Prepared) -> tuple[str, ...]:
    """The marks of a turn's message: its own, and the consented form of each other one that it was given.

    The plain form would hide the message from the account that it is for."""
    return message_marks(prepared.mark, prepared.ask.given)


def message_marks(own: str, given: tuple[str, ...]) -> tuple[str, ...]:
    """The same for a message of the login ``own``."""
    mine = _own_marks(own)
    return tuple(sorted({own, *(consented(each) for each in given if plain(each) not in mine)}))


def with_words_of(prepared: Prepared, store: Store, message: str | None) -> Prepared:
    """The turn, which sends this message again, so it is given what the message was given.

    The user's own words belong to whom they are sent to. What Segue has composed repeats words of the login
    that it was composed for."""
    if message is None:
        return prepared
    marks, composed = store.marks.of_message(message)
    again = {each for each in marks if composed or is_consented(each)} - {prepared.mark}
    if again <= set(prepared.ask.given):
        return prepared
    given = tuple(sorted({*prepared.ask.given, *again}))
    return msgspec.structs.replace(prepared, ask=msgspec.structs.replace(prepared.ask, given=given))


ASKED_BY: dict[Consent, str] = {"user": "flow", "trusted file": "trusted file", "policy": "policy"}
"""Who asked for what a flow carries over, in the audit."""


def carried_by_flow(
    conversation: str, given: Iterable[str], to: str, consent: Consent
) -> tuple[CarryRow, ...]:
    """What the audit says if a flow's prompt for the login of the mark ``to`` repeats words with these marks:
    one row for each other account of the same agent. ``conversation``: its key."""
    from segue.store.carries import CarryRow

    agent, account, _ = mark_parts(to)
    others = {mark_parts(plain(each))[:2] for each in given if plain(each) not in _own_marks(to)}
    now_ms = clock.now_ms()
    return tuple(
        CarryRow(
            id=clock.new_id(now_ms),
            conversation=conversation,
            at_ms=now_ms,
            from_agent=agent,
            from_account=source,
            to_agent=agent,
            to_account=account,
            mode="flow",
            asked_by=ASKED_BY[consent],
        )
        for other, source in sorted(others)
        if other == agent and consent in ASKED_BY
    )


def record_carried(prepared: Prepared, store: Store) -> None:
    """Record what the turn of a flow carries over, if that is not recorded yet."""
    ask = prepared.ask
    if ask.flow is None or ask.consent == "none":
        return
    rows = carried_by_flow(ask.conversation, ask.given, prepared.mark, ask.consent)
    if rows:
        store.carries.record_once(ask.flow.flow, rows)


def _own_marks(own: str) -> tuple[str, str]:
    agent, account, _ = mark_parts(own)
    return own, old_account_mark(agent, account)
