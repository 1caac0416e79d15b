"""A scenario: rules in a TOML or JSON file that say what to do, if the prompt itself cannot.

    [[rule]]
    text = "deploy"          # the turn's text contains this …
    pattern = "^run .*"      # … matches this regular expression …
    protocol = "anthropic"   # … comes over this wire …
    nth = 2                  # … and it is the second time that all of this applies
    do = "[[shell make]] [[say deployed]]"

Every condition is optional. The first rule that applies wins over directives in the prompt.
"""

import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from segue.rehearsal import directives
from segue.rehearsal.current_turn import CurrentTurn
from segue.rehearsal.types import Ask, Protocol

_STANDING = 1000
"""For how many turns the rule is remembered that applied when they began; older turns have ended."""


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    do: str
    text: str | None = None
    pattern: str | None = None
    protocol: Protocol | None = None
    nth: Annotated[int, Meta(ge=1)] | None = None

    def fits(self, ask: Ask, turn: CurrentTurn) -> bool:
        return (
            (self.text is None or self.text in turn.text)
            and (self.pattern is None or re.search(self.pattern, turn.text, re.M) is not None)
            and (self.protocol is None or self.protocol == ask.protocol)
        )


class Scenario(Struct, frozen=True, forbid_unknown_fields=True):
    rule: tuple[Rule, ...] = ()


def load(path: Path) -> Scenario:
    """Read a scenario. Raises a `ValueError` that names the file and what is wrong in it."""
    try:
        raw = path.read_bytes()
        data = msgspec.json.decode(raw) if path.suffix == ".json" else tomllib.loads(raw.decode())
        scenario = msgspec.convert(data, Scenario)
        for number, rule in enumerate(scenario.rule, 1):
            _check(number, rule)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return scenario


def _check(number: int, rule: Rule) -> None:
    """Check what the types cannot."""
    try:
        re.compile(rule.pattern or "")
    except re.error as error:
        raise ValueError(f"rule {number}: bad pattern {rule.pattern!r}: {error}") from error
    if not directives.parse(rule.do):
        raise ValueError(f'rule {number}: do = "{rule.do}" has no directive such as [[say hi]]')


class Tally:
    """How often the conditions of each rule were met."""

    def __init__(self) -> None:
        self._met: Counter[int] = Counter()

    def clear(self) -> None:
        self._met.clear()

    def meet(self, rules: Sequence[int]) -> Mapping[int, int]:
        """Count these rules once more. Returns all counts."""
        self._met.update(rules)
        return self._met


class Counting:
    """Finds the rule for a turn. Later requests of the turn, after tools ran, keep the rule it began with."""

    def __init__(self, scenario: Scenario, tally: Tally | None = None) -> None:
        self._rules = scenario.rule
        self._tally = tally or Tally()
        self._standing: dict[bytes, str | None] = {}

    def clear(self) -> None:
        self._tally.clear()
        self._standing.clear()

    def directives(self, ask: Ask, turn: CurrentTurn) -> str | None:
        key = hashlib.sha256(f"{ask.protocol} {turn.text}".encode(errors="replace")).digest()
        if turn.tools_done == 0 or key not in self._standing:
            self._standing[key] = self._match(ask, turn)
            if len(self._standing) > _STANDING:
                del self._standing[next(iter(self._standing))]
        return self._standing[key]

    def _match(self, ask: Ask, turn: CurrentTurn) -> str | None:
        fitting = [index for index, rule in enumerate(self._rules) if rule.fits(ask, turn)]
        met = self._tally.meet(fitting) if fitting else {}
        holding = (self._rules[at] for at in fitting if self._rules[at].nth in (None, met[at]))
        return next((rule.do for rule in holding), None)
