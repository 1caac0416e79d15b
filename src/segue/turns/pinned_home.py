"""Whether the home that holds a conversation's session is still the one that its account has."""

from __future__ import annotations

import os
from pathlib import Path

from segue.core.model import Pin
from segue.turns.prepare import Prepared


def moved_from(prepared: Prepared, pin: Pin | None) -> str:
    """In words: the session is in another home than the CLI will look in; empty if it is not.

    A home is compared by identity, and a private one (see ``private_homes``) counts as the account's.
    """
    if pin is None or not prepared.host.has(pin):
        return ""
    there, here = Path(pin.home), prepared.home
    if there.is_relative_to(prepared.segue_home.runners) or _is_same(there, here):
        return ""
    whose = f"the account {prepared.account}" if prepared.account else prepared.agent.facts.label
    return f"the session is in {there}, and the home of {whose} is {here} now"


def _is_same(there: Path, here: Path) -> bool:
    try:
        return os.path.samefile(there, here)
    except OSError:
        return os.path.realpath(there) == os.path.realpath(here)
