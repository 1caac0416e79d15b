"""What a turn is granted: as requested, else as remembered, else as configured."""

from __future__ import annotations

import msgspec

from segue.config.schema import Defaults
from segue.core.request import Capabilities, Grant
from segue.turns.permissions import grant_terms
from segue.turns.request import Fixed, QueuedRequest, TurnRequest

CAN = Capabilities(budget=True, postures=("read", "default", "edit", "full"))


def test_a_queued_run_has_its_own_terms_and_leaves_alone_what_is_remembered_since() -> None:
    before, now = Grant(permission="read", budget_usd=2.0), Grant(permission="full", budget_usd=9.0)
    ask = TurnRequest(conversation="k", prompt="hi")
    granted = grant_terms(ask, before, Defaults(), CAN, "it", now=now)
    assert (granted.permission, granted.budget_usd) == ("read", 2.0)
    assert (granted.grant, granted.before) == (now, before)
    asked = msgspec.structs.replace(ask, permission="edit")
    granted = grant_terms(asked, before, Defaults(), CAN, "it", now=now)
    assert (granted.permission, granted.budget_usd) == ("edit", 2.0)
    assert granted.grant == Grant(permission="edit", budget_usd=9.0)


def test_what_is_fixed_is_stored_with_the_request() -> None:
    fixed = Fixed(grant=Grant(budget_usd=2.0), defaults=Defaults(budget=5, max_turns=3, permission="edit"))
    request = QueuedRequest(ask=TurnRequest(conversation="k", prompt="hi", fixed=fixed))
    assert msgspec.json.decode(msgspec.json.encode(request), type=QueuedRequest) == request
