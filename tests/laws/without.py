"""Takes one condition out of the product, to see which tests fail then: a law whose removal fails nothing has
no test.

    .venv/bin/python -m tests.laws.without            # every condition, one after the other
    .venv/bin/python -m pytest tests/laws --without wall
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from segue.config.schema import Config
from segue.store.budgets import Budgets
from segue.store.records import Claim
from segue.turns import gate

Put = Callable[[object, str, Any], None]


def _law(name: str) -> Callable[[Put], None]:
    def take_out(put: Put) -> None:
        put(gate, "LAWS", tuple(law for law in gate.LAWS if law.__name__ != name))

    return take_out


def _may_send(put: Put) -> None:
    """Everything may be sent to everybody: at the start of a flow, in a carry, and at the gate."""
    _law("wall")(put)
    for name in (
        "app.escalations",
        "app.flow_turns",
        "app.flow_walls",
        "app.account_switch",
        "accounts.switch",
    ):
        put(import_module(f"segue.{name}"), "may_send", lambda *_: None)
    put(gate, "may_send", lambda *_: None)


def _view(put: Put) -> None:
    """No rule keeps anything out of what an agent is shown of its conversation."""
    put(Config, "closed_to", lambda *_: lambda _: False)


def _account(put: Put) -> None:
    """An account is no wall in what an agent is shown of its conversation."""
    put(import_module("segue.core.view"), "_passing", lambda _: lambda _: True)


def _budget(put: Put) -> None:
    """Every budget covers everything."""
    put(gate, "first_in_the_way", lambda *_: None)


@contextmanager
def _beside_others(self: Budgets, lease: Claim) -> Iterator[bool]:
    """Others look at the budgets and begin at the same time."""
    yield self.renew_lease(lease)


def _lock(put: Put) -> None:
    put(Budgets, "alone_to_begin", _beside_others)


@contextmanager
def _whoever(self: Budgets, lease: Claim) -> Iterator[bool]:
    """The lease may be somebody else's by now."""
    with self._db.writing():
        self._db.lock_to_begin()
        self.renew_lease(lease)
        yield True


def _claim(put: Put) -> None:
    put(Budgets, "alone_to_begin", _whoever)


def _trust(put: Put) -> None:
    """Every directory is trusted."""
    put(import_module("segue.config.trust"), "is_trusted", lambda *_: True)


CONDITIONS: dict[str, Callable[[Put], None]] = {
    "wall": _law("wall"),
    "may_send": _may_send,
    "view": _view,
    "account": _account,
    "permission": _law("permission"),
    "secrets": _law("secrets"),
    "budget": _budget,
    "lock": _lock,
    "claim": _claim,
    "trust": _trust,
}


def take_out(condition: str, put: Put) -> None:
    CONDITIONS[condition](put)


def main() -> int:
    """Print the tests that fail without each condition, beside those that fail anyway."""
    tests = sys.argv[1:] or ["tests/laws"]
    anyway, nothing = _failing(tests), 0
    print("fail anyway:", *sorted(anyway), sep="\n  ")
    for condition in CONDITIONS:
        found = sorted(_failing([*tests, "--without", condition]) - anyway)
        nothing += not found
        print(f"without {condition}: {len(found)}", *found, sep="\n  ", flush=True)
    return 1 if nothing else 0


def _failing(words: list[str]) -> set[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--tb=no", "-rfE", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return {line.split(" ")[1] for line in lines}


if __name__ == "__main__":
    sys.exit(main())
