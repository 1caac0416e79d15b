"""A scenario: rules in a TOML or JSON file that say what to do, where the prompt itself cannot.

    [[rule]]
    text = "deploy"          # the turn's text contains this …
    pattern = "^run .*"      # … matches this regular expression …
    protocol = "anthropic"   # … comes over this wire …
    nth = 2                  # … and it is the second time that all of this is so
    do = "[[shell make]] [[say deployed]]"

Every condition is optional. The first rule that holds wins over directives in the prompt.
"""

import re
import tomllib
from pathlib import Path

import msgspec
from msgspec import Struct

from segue.rehearsal.talk import Ask, Protocol
from segue.rehearsal.turn import Turn


class Rule(Struct, frozen=True, forbid_unknown_fields=True):
    do: str
    text: str | None = None
    pattern: str | None = None
    protocol: Protocol | None = None
    nth: int | None = None

    def fits(self, ask: Ask, turn: Turn) -> bool:
        return (
            (self.text is None or self.text in turn.text)
            and (self.pattern is None or re.search(self.pattern, turn.text, re.M) is not None)
            and (self.protocol is None or self.protocol == ask.protocol)
        )


class Scenario(Struct, frozen=True, forbid_unknown_fields=True):
    rule: tuple[Rule, ...] = ()


def load(path: Path) -> Scenario:
    """Read a scenario; raises `ValueError` with the place of the mistake."""
    raw = path.read_bytes()
    data = msgspec.json.decode(raw) if path.suffix == ".json" else tomllib.loads(raw.decode())
    scenario = msgspec.convert(data, Scenario)
    for rule in scenario.rule:
        if rule.pattern is not None:
            try:
                re.compile(rule.pattern)
            except re.error as error:
                raise ValueError(f"{path}: bad pattern {rule.pattern!r}: {error}") from error
    return scenario


class Counting:
    """Which rule holds for a turn; its later requests, after tools ran, stay with the rule it began under."""

    def __init__(self, scenario: Scenario) -> None:
        self._rules = scenario.rule
        self.clear()

    def clear(self) -> None:
        self._met = [0] * len(self._rules)
        self._standing: dict[tuple[str, str], str | None] = {}

    def directives(self, ask: Ask, turn: Turn) -> str | None:
        key = (ask.protocol, turn.text)
        if turn.tools_done == 0 or key not in self._standing:
            self._standing[key] = self._match(ask, turn)
        return self._standing[key]

    def _match(self, ask: Ask, turn: Turn) -> str | None:
        chosen = None
        for index, rule in enumerate(self._rules):
            if rule.fits(ask, turn):
                self._met[index] += 1
                if chosen is None and rule.nth in (None, self._met[index]):
                    chosen = rule.do
        return chosen
