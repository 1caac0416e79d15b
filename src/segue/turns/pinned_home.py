"""Whether the home that holds a conversation's session is still the one that its account has."""

from __future__ import annotations

import os
from pathlib import Path

from segue.core.model import Pin
from segue.core.verdicts import Said, say
from segue.turns.prepare import Prepared


def moved_from(prepared: Prepared, pin: Pin | None) -> Said | None:
    """The session is in another home than the CLI will look in; None if it is not.

    A home is compared by identity, and a private one (see ``private_homes``) counts as the account's.
    """
    if pin is None or not prepared.host.has(pin):
        return None
    there, here = Path(pin.home), prepared.home
    if there.is_relative_to(prepared.segue_home.runners) or _is_same(there, here):
        return None
    whose = f"the account {prepared.account}" if prepared.account else prepared.agent.facts.label
    text = f"the session is in {there}, and the home of {whose} is {here} now"
    name = prepared.account or prepared.agent.facts.label
    return say(text, "account.moved", there=str(there), who=name, here=str(here))


def _is_same(there: Path, here: Path) -> bool:
    try:
        return os.path.samefile(there, here)
    except OSError:
        return os.path.realpath(there) == os.path.realpath(here)
