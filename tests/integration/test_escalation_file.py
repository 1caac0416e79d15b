"""``FLOW.toml``: what is read from it, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.app.escalation_file import EscalationFile
from segue.config.home import home_of
from segue.config.trust import trust
from segue.core.errors import ConfigError
from segue.flows.escalation_plan import EscalationPlan

TIERS = """
[[tier]]
name = "observe"
agent = "rehearsal"
full = "observe.md"
deny = ["write"]

[[tier]]
name = "repair"
agent = "rehearsal"
model = "large"
prompt = "repair.md"
full = "observe.md"
allow = ["shell"]
permission = "edit"
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "observe.md").write_text("Look around.\n")
    (tmp_path / "repair.md").write_text("You are tier 2.\n")
    (tmp_path / "empty.md").write_text("\n")
    (tmp_path / "latin.md").write_bytes(b"caf\xe9")
    return tmp_path


def env_of(directory: Path) -> dict[str, str]:
    return {"HOME": str(directory), "SEGUE_HOME": str(directory / "segue"), "PATH": "/usr/bin:/bin"}


def written(directory: Path, text: str) -> EscalationFile:
    """A file in a directory that the user trusts."""
    (directory / "FLOW.toml").write_text(text)
    trust(home_of(env_of(directory)), directory)
    return EscalationFile("FLOW.toml", env_of(directory), directory)


def checked(directory: Path, text: str) -> EscalationPlan:
    file = written(directory, text)
    return file.settled(file.read(), env_of(directory), directory)


def test_a_plan_has_the_texts_of_its_prompts(directory: Path) -> None:
    text = f'name = "shop"\nenvironment = "The shop."\n{TIERS}\n[policy]\nmax_tier = 2\nbudget = 3\n'
    text += '[[cooldown]]\nkind = "restart"\nlimit = 2\nhours = 4\ndeny = ["shell"]\n'
    plan = written(directory, text).read(max_tier=1, dry_run=True)
    assert (plan.name, plan.environment, plan.highest, plan.dry_run) == ("shop", "The shop.", 1, True)
    assert [(each.name, each.prompt, each.full) for each in plan.tiers] == [
        ("observe", "", "Look around."),
        ("repair", "You are tier 2.", "Look around."),
    ]
    assert (plan.policy.budget, plan.cooldowns[0].kind, plan.tiers[1].model) == (3.0, "restart", "large")
    assert [each.agent for each in checked(directory, text).tiers] == ["rehearsal", "rehearsal"]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "FLOW.toml: [[tier]]: there must be 1 to 20, not 0"),
        ("tier = 3", "FLOW.toml: tier: must be a"),
        ('[[tier]]\nname = "a"', "FLOW.toml: [[tier]] 1 full: the file with the prompt is missing"),
        ('[[tier]]\nname = "a"\nfull = "none.md"', "FLOW.toml: [[tier]] 1 full: cannot read"),
        ('[[tier]]\nname = "a"\nfull = "empty.md"', "FLOW.toml: [[tier]] 1 full: "),
        ('[[tier]]\nname = "a"\nfull = "latin.md"', "is not UTF-8"),
        ('[[tier]]\nfull = "observe.md"', "FLOW.toml: [[tier]] 1: needs name"),
        (TIERS.replace('prompt = "repair.md"', ""), "FLOW.toml: [[tier]] 2 prompt: the file"),
        (TIERS.replace("allow", "alow"), 'FLOW.toml: [[tier]] 2 alow: no key "alow"; did you mean "allow"?'),
        (TIERS.replace('"edit"', '"all"'), "FLOW.toml: [[tier]] 2 permission: must be"),
        (f"[policy]\nmax_tier = 9\n{TIERS}", "FLOW.toml: [policy] max_tier: there are only 2 tiers"),
        (f'[policy]\nescalate_on = ["network"]\n{TIERS}', 'has "network", which cannot escalate'),
        (f'[policy]\nescalate_on = ["rate_limited"]\n{TIERS}', 'has "rate_limited", which cannot escalate'),
        (f"{TIERS}\n[[tier]]\nname='p'\nhuman=true\nmodel='x'", "FLOW.toml: [[tier]] 3 model: a person has"),
        (f"{TIERS}\n[[cooldown]]\nkind='r'\nlimit=1\nhours=1", "FLOW.toml: [[cooldown]] 1: needs deny"),
        (f"{TIERS}\nquestion = 'x'", "FLOW.toml: [[tier]] 2 question: it is only for human = true"),
        ("[[tier", "FLOW.toml:1: is not TOML"),
    ],
)
def test_what_is_wrong_is_one_line_with_file_and_key(directory: Path, text: str, error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        written(directory, text).read()
    assert error in raised.value.message
    assert "\n" not in raised.value.message


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (TIERS.replace('["shell"]', '["Bash"]'), "[[tier]] 2 (repair): Rehearsal"),
        (TIERS.replace('deny = ["write"]', "budget = 1.0"), "[[tier]] 1 (observe): Rehearsal"),
        (TIERS.replace('agent = "rehearsal"', 'agent = "mine"', 1), "[[tier]] 1 (observe) deny: "),
        (TIERS.replace('agent = "rehearsal"', 'agent = "nobody"', 1), "[[tier]] 1 (observe) agent: "),
        (
            f"{TIERS}\n[[cooldown]]\nkind='r'\nlimit=1\nhours=1\ndeny=['restart']",
            "[[tier]] 1 (observe): Rehearsal",
        ),
    ],
)
def test_a_tier_that_its_agent_cannot_enforce_is_refused(directory: Path, text: str, error: str) -> None:
    (directory / "segue").mkdir(exist_ok=True)
    (directory / "segue" / "config.toml").write_text('[agents.mine]\ncommand = ["/bin/echo", "{prompt}"]\n')
    with pytest.raises(ConfigError) as raised:
        checked(directory, text)
    assert raised.value.message.startswith(f"FLOW.toml: {error}")
