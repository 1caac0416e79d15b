"""How often something was done, and what is denied for it."""

from __future__ import annotations

import pytest

from segue.flows.cooldowns import CooldownState, Done, ToolUse, count_actions, denied, states
from segue.flows.escalation_plan import Cooldown
from segue.flows.escalation_signal import Action

HOUR = 3_600_000
RESTART = Cooldown(
    kind="restart",
    limit=2,
    hours=4,
    match=("Bash: docker restart {key}", "*: systemctl * restart {key}"),
    deny=("Bash(docker restart {key}:*)",),
)
DEPLOY = Cooldown(kind="deploy", limit=1, hours=24, deny=("Deploy",))


def bash(command: str) -> ToolUse:
    return ToolUse("Bash", {"command": command, "description": "do it"})


@pytest.mark.parametrize(
    ("uses", "counted"),
    [
        ([bash("docker restart web")], {("restart", "web"): 1}),
        ([bash("docker  restart   'web'")], {"web": 1}),
        ([bash("cd /srv && docker restart web; docker restart db")] * 2, {"web": 2, "db": 2}),
        ([ToolUse("Read", {"path": "docker restart web"})], {}),
        ([ToolUse("exec", {"argv": ["systemctl", "--user", "restart", "web.service"]})], {"web.service": 1}),
        ([bash("my-docker restart web")], {}),
        ([bash("docker ps")], {}),
    ],
)
def test_matching_tool_calls_count(uses: list[ToolUse], counted: dict[object, int]) -> None:
    wanted = {key if isinstance(key, tuple) else ("restart", key): n for key, n in counted.items()}
    assert count_actions([RESTART, DEPLOY], [], uses) == wanted


def test_what_is_reported_and_seen_counts_once() -> None:
    told = [Action("restart", "web"), Action("restart", "db"), Action("unknown", "x"), Action("deploy")]
    seen = [bash("docker restart web"), bash("docker restart web")]
    assert count_actions([RESTART, DEPLOY], told, seen) == {
        ("restart", "web"): 2,
        ("restart", "db"): 1,
        ("deploy", ""): 1,
    }


def test_a_limit_applies_per_key_and_only_for_its_time() -> None:
    now = 100 * HOUR
    past = [
        Done("restart", "web", 1, now - 5 * HOUR),
        Done("restart", "web", 1, now - 3 * HOUR),
        Done("restart", "web", 1, now - HOUR),
        Done("restart", "db", 1, now - HOUR),
        Done("deploy", "web", 1, now - 25 * HOUR),
    ]
    found = states([RESTART, DEPLOY], past, now)
    assert found == [
        CooldownState(kind="restart", key="db", done=1, limit=2, hours=4.0),
        CooldownState(kind="restart", key="web", done=2, limit=2, hours=4.0, free_at=now + HOUR),
    ]
    assert denied([RESTART, DEPLOY], found) == ("Bash(docker restart web:*)",)


def test_a_limit_that_was_exceeded_is_free_when_enough_is_forgotten() -> None:
    past = [Done("restart", "web", 3, 0), Done("restart", "web", 1, HOUR)]
    (state,) = states([RESTART], past, 2 * HOUR)
    assert (state.done, state.free_at) == (4, 4 * HOUR)
