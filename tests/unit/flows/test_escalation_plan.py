"""What a tier of an escalation may do: as its file says, or in a dry run only look."""

from __future__ import annotations

import msgspec
import pytest

from segue.core.request import Posture
from segue.flows.escalation_plan import EscalationPlan, Tier

LOOK = Tier(name="look", agent="a", permission="read", allow=("Bash(ls *)",))
WORK = Tier(name="work", agent="a", permission="edit", allow=("Bash(make *)",))


def test_each_tier_has_its_own_tools() -> None:
    plan = EscalationPlan(name="p", tiers=(LOOK, WORK))
    assert [(plan.permission(tier), plan.allowed(tier)) for tier in plan.tiers] == [
        ("read", ("Bash(ls *)",)),
        ("edit", ("Bash(make *)",)),
    ]


def test_in_a_dry_run_every_tier_has_those_of_the_first_which_only_looks() -> None:
    plan = EscalationPlan(name="p", tiers=(LOOK, WORK), dry_run=True)
    assert [(plan.permission(tier), plan.allowed(tier)) for tier in plan.tiers] == [
        ("read", ("Bash(ls *)",)),
        ("read", ("Bash(ls *)",)),
    ]


@pytest.mark.parametrize(("permission", "agent"), [("default", "a"), ("edit", "a"), ("read", "b")])
def test_in_a_dry_run_nothing_is_allowed_by_name_if_the_first_may_do_more_or_is_another_agent(
    permission: Posture, agent: str
) -> None:
    first = msgspec.structs.replace(LOOK, permission=permission, agent=agent)
    plan = EscalationPlan(name="p", tiers=(first, WORK), dry_run=True)
    assert (plan.permission(WORK), plan.allowed(WORK)) == ("read", ())
