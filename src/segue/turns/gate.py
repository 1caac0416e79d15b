"""The gate: whose words may be sent to whom.

What sends words without starting a run (a carry, a summary, a hand-off) asks ``may_send``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from segue.config.schema import Config
from segue.core.view import account_of, is_consented, mark_parts, old_account_mark, plain

Law = Literal["trust", "wall", "permission", "secrets", "one writer", "budget"]
Consent = Literal["none", "user", "trusted file", "policy"]
"""Who wants words to pass between two logins of one agent: nobody; the user, who named both accounts or asked
for a carry; a trusted file of a project; the user's own rule, after a limit."""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """It is not done. ``message``: why, in one line. ``way``: what can be done."""

    law: Law
    message: str
    way: str = ""


def may_send(config: Config, marks: Iterable[str], to: str, consent: Consent) -> Refused | None:
    """Why words with these marks may not reach the login of the mark ``to``; None: they may.

    A ``never`` rule counts whatever the agents, and also for words that were carried with consent before.
    Between two logins of one agent somebody must want it. Words that were carried with consent need no new
    consent, except for a policy: it may send only what the rules allow unasked.
    """
    agent, target, _ = mark_parts(to)
    own = (to, old_account_mark(agent, target))
    others = sorted({each for each in marks if plain(each) not in own}, key=plain)
    for mark in others:
        if config.carry_rule(account_of(mark), target) == "never":
            message = f"{_said_under(mark)} is never carried over to {target or NO_ACCOUNT}"
            return Refused(law="wall", message=message, way="see [carry] in config.toml, or use one account")
    for mark in others:
        if mark_parts(plain(mark))[0] != agent:
            continue
        by_policy = consent == "policy" and config.carry_rule(account_of(mark), target) != "allow"
        if by_policy or (consent == "none" and not is_consented(mark)):
            message = f"{_said_under(mark)} is not carried over to {target or NO_ACCOUNT} unasked"
            return Refused(law="wall", message=message, way="--carry; in a FLOW.toml: carry = true")
    return None


NO_ACCOUNT = "no account"


def _said_under(mark: str) -> str:
    return f"what was said under {account_of(mark) or NO_ACCOUNT}"
