"""What a turn is granted: as requested, else as remembered, else as configured."""

from __future__ import annotations

import msgspec
import pytest

from segue.config.schema import Defaults
from segue.core.errors import Misuse
from segue.core.request import Capabilities, Grant, Posture
from segue.core.tools import Tools
from segue.turns.permissions import Granted, grant_terms
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


TOOLS = Tools(names=("Bash", "Look"), narrowed=("Bash",), looking=("Look",), others="mcp__.+")
TOLD = Capabilities(
    allow_tools=True, deny_tools=True, tools=TOOLS, postures=("read", "default", "edit", "full")
)


NOTHING = Grant()


def granted(
    permission: Posture, *allow: str, before: Grant = NOTHING, always: tuple[str, ...] = ()
) -> Granted:
    ask = TurnRequest(conversation="k", prompt="hi", permission=permission, allow_tools=allow)
    return grant_terms(ask, before, Defaults(), TOLD, "it", always)


@pytest.mark.parametrize("rule", ["Bash", "Bash(*)"])
def test_reading_does_not_go_with_a_whole_tool_that_writes_or_runs(rule: str) -> None:
    with pytest.raises(Misuse, match=r"--permission read does not go with --allow-tool Bash") as refused:
        granted("read", rule)
    assert 'such as "Bash(PATTERN)"' in str(refused.value)
    assert "\n" not in str(refused.value)
    with pytest.raises(Misuse, match="remembered from an earlier turn: --allow-tool none resets it"):
        granted("read", before=Grant(allow_tools=(rule,)))
    assert granted("edit", rule).allow_tools == (rule,)


def test_reading_goes_with_parts_of_it_and_with_what_looks() -> None:
    assert granted("read", "Bash(ls *)", "Look").allow_tools == ("Bash(ls *)", "Look")


def test_a_default_that_gives_a_whole_tool_is_left_out_when_only_reading() -> None:
    found = grant_terms(
        TurnRequest(conversation="k", prompt="hi", permission="read"),
        Grant(),
        Defaults(allow_tools=("Bash", "Look")),
        TOLD,
        "it",
    )
    assert found.allow_tools == ("Look",)
    (notice,) = found.notices
    assert notice.text.startswith(
        "[defaults] allow_tools: Bash may write or run anything, so it is not allowed"
    )


def test_what_was_allowed_for_good_does_not_count_when_only_reading() -> None:
    always = ("Bash", "Look", "mcp__tracker__add")
    assert granted("read", always=always).allow_tools == ("Look",)
    assert granted("default", always=always).allow_tools == always
