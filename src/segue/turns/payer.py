"""What pays for a turn, and what paid for the one before."""

from __future__ import annotations

from collections.abc import Sequence

from segue.agents.decoding import TellsPays
from segue.core.usage import Pays
from segue.store.records import TurnRow
from segue.turns.prepare import Prepared


def pays_of(prepared: Prepared) -> Pays:
    """What will pay for the turn, as far as it can be told before."""
    agent = prepared.agent
    return agent.pays(prepared.home, prepared.child.env) if isinstance(agent, TellsPays) else "unknown"


def paid_before(recent: Sequence[TurnRow], prepared: Prepared) -> Pays:
    """What paid for the last turn of this voice and account for which that is known."""
    for row in reversed(recent):
        same = (row.voice, row.account) == (prepared.voice, prepared.account_name)
        if same and row.told is not None and row.told.pays != "unknown":
            return row.told.pays
    return "unknown"
