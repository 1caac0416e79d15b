"""Whether words may cross from one account to another: the strictest rule counts."""

from __future__ import annotations

import pytest

from segue.config.schema import Account, Carry, Config

DEFAULT = Carry()


def config(carry: Carry = DEFAULT, **rules: tuple[str | None, str | None]) -> Config:
    accounts = {
        name: Account(agent="claude", carry_out=out, carry_in=into)  # type: ignore[arg-type]
        for name, (out, into) in rules.items()
    }
    return Config(accounts=accounts, carry=carry)


@pytest.mark.parametrize(
    ("given", "source", "target", "rule"),
    [
        (config(), "a", "b", "ask"),
        (config(), "a", "a", "allow"),
        (config(Carry(rule="never")), "a", "b", "never"),
        (config(Carry(rule="never")), "a", "a", "allow"),
        (config(Carry(rule="allow")), "", "b", "allow"),
        (config(Carry(never=(("a", "b"),))), "a", "b", "never"),
        (config(Carry(never=(("a", "b"),))), "b", "a", "never"),
        (config(Carry(never=(("a", "b"),))), "a", "c", "ask"),
        (config(a=("never", None), b=(None, None)), "a", "b", "never"),
        (config(Carry(closed=("a",)), b=(None, None)), "a", "b", "never"),
        (config(Carry(closed=("a",)), a=("allow", None), b=(None, None)), "a", "b", "never"),
        (config(Carry(closed=("a",)), b=(None, None)), "b", "a", "ask"),
        (config(a=("never", None), b=(None, None)), "b", "a", "ask"),
        (config(a=(None, None), b=(None, "never")), "a", "b", "never"),
        (config(Carry(rule="never"), a=("ask", None), b=(None, "ask")), "a", "b", "ask"),
        (config(Carry(rule="allow"), a=("ask", None), b=(None, None)), "a", "b", "ask"),
    ],
)
def test_rules(given: Config, source: str, target: str, rule: str) -> None:
    assert given.carry_rule(source, target) == rule
    assert given.closed_to(target)(source) == (rule == "never")
