"""Whose words may reach whom, when they are sent."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from segue.config.schema import Account, Carry, CarryRule, Config
from segue.core.laws import Consent
from segue.turns.gate import Refused, may_send

A, B, C = "claude/A/a", "claude/B/b", "claude/C/c"
CODEX, X = "codex//own", "codex/X/x"
NEVER, UNASKED = "never carried over", "not carried over to"
EVERY: tuple[Consent, ...] = ("none", "user", "trusted file", "policy")


def config(carry: Carry | None = None, **out: CarryRule) -> Config:
    """Accounts A, B and C of one agent and X of another. ``out``: the ``carry_out`` of an account."""
    agents = {"A": "claude", "B": "claude", "C": "claude", "X": "codex"}
    accounts = {name: Account(agent=agent, carry_out=out.get(name)) for name, agent in agents.items()}
    return Config(accounts=accounts, carry=carry or Carry())


FREE = config()
PAIR = config(Carry(never=(("A", "C"),)))
CLOSED = config(A="never")
ALLOWED = config(Carry(rule="allow"))


@pytest.mark.parametrize(
    ("rules", "marks", "to", "consent"),
    [
        pytest.param(FREE, [], B, "none", id="nothing"),
        pytest.param(FREE, [B], B, "none", id="its own words"),
        pytest.param(FREE, ["claude/B"], B, "none", id="its own words, from before logins were recorded"),
        pytest.param(FREE, [f"+{B}"], B, "none", id="its own words, carried elsewhere and back"),
        pytest.param(FREE, [A], B, "user", id="the user wants it"),
        pytest.param(FREE, [A], B, "trusted file", id="a trusted file wants it"),
        pytest.param(FREE, [f"+{A}", B], B, "none", id="what was carried with consent goes on"),
        pytest.param(FREE, [A], CODEX, "none", id="another agent"),
        pytest.param(FREE, [X, CODEX], B, "policy", id="another agent, after a limit"),
        pytest.param(ALLOWED, [A], B, "policy", id="a rule allows it after a limit"),
        pytest.param(ALLOWED, [f"+{A}", B], C, "policy", id="a rule allows what was carried before"),
        pytest.param(PAIR, [A], B, "user", id="a pair closes only itself"),
        pytest.param(CLOSED, [B], A, "user", id="closed outwards is open inwards"),
        pytest.param(CLOSED, [A], A, "none", id="closed outwards, to itself"),
    ],
)
def test_words_may_be_sent(rules: Config, marks: Sequence[str], to: str, consent: Consent) -> None:
    assert may_send(rules, marks, to, consent) is None


@pytest.mark.parametrize(
    ("rules", "marks", "to", "consent", "why"),
    [
        pytest.param(FREE, [A], B, "none", f"under A is {UNASKED} B unasked", id="nobody wants it"),
        pytest.param(FREE, [A], B, "policy", f"under A is {UNASKED} B unasked", id="a rule says: ask"),
        pytest.param(
            FREE,
            [f"+{A}", B],
            B,
            "policy",
            f"under A is {UNASKED} B unasked",
            id="a rule says: ask, carried before",
        ),
        pytest.param(
            FREE, ["claude/B/other"], B, "none", f"under B is {UNASKED} B unasked", id="another login"
        ),
        pytest.param(
            FREE,
            ["claude//own"],
            B,
            "none",
            f"under no account is {UNASKED} B unasked",
            id="from the agent's login",
        ),
        pytest.param(
            FREE,
            [A],
            "claude//own",
            "none",
            f"under A is {UNASKED} no account unasked",
            id="to the agent's login",
        ),
        pytest.param(
            ALLOWED, [A], B, "none", f"under A is {UNASKED} B unasked", id="a rule allows, but nobody asked"
        ),
        pytest.param(CLOSED, [A], B, "user", f"under A is {NEVER} to B", id="a rule of the account"),
        pytest.param(CLOSED, [A], X, "user", f"under A is {NEVER} to X", id="a rule, whatever the agents"),
        pytest.param(
            CLOSED, [A], CODEX, "none", f"under A is {NEVER} to no account", id="a rule, to another's login"
        ),
        pytest.param(PAIR, [A], C, "trusted file", f"under A is {NEVER} to C", id="a pair"),
        pytest.param(PAIR, [C], A, "user", f"under C is {NEVER} to A", id="a pair, the other way"),
        pytest.param(
            PAIR, [f"+{A}", B], C, "user", f"under A is {NEVER} to C", id="passed on by a third account"
        ),
        pytest.param(
            PAIR, [f"+{A}", B], C, "none", f"under A is {NEVER} to C", id="a rule is named before a question"
        ),
        pytest.param(
            config(Carry(closed=("gone",))),
            ["claude/gone/g"],
            B,
            "user",
            f"under gone is {NEVER} to B",
            id="an account that is configured no more",
        ),
    ],
)
def test_words_are_refused(rules: Config, marks: Sequence[str], to: str, consent: Consent, why: str) -> None:
    refused = may_send(rules, marks, to, consent)
    assert isinstance(refused, Refused)
    assert (refused.law, refused.message.partition("what was said ")[2]) == ("wall", why)
    assert ("[carry] in config.toml" if NEVER in why else "--carry") in refused.way


@pytest.mark.parametrize("consent", EVERY)
@pytest.mark.parametrize("mark", [A, f"+{A}", "claude/A"])
def test_no_consent_overrules_never(mark: str, consent: Consent) -> None:
    refused = may_send(PAIR, [B, mark], C, consent)
    assert refused is not None
    assert refused.message == "what was said under A is never carried over to C"
