"""What changes right before a run is judged by the gate, after all that was checked when it was prepared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from segue.core.laws import Door
from segue.turns import gate
from segue.turns.prepare import Prepared
from tests.laws.stage import Stage


def at_the_gate(
    monkeypatch: pytest.MonkeyPatch, stage: Stage, door: Door, change: Callable[[Prepared], Prepared]
) -> list[str]:
    """Change each run of the door there. Returns a list that their ids are added to."""
    as_of_now, runs = vars(gate)["as_of_now"], list[str]()

    def changed(prepared: Prepared, store: Any) -> Any:
        if _by(stage, prepared) is not door:
            return as_of_now(prepared, store)
        runs.append(prepared.run)
        return change(as_of_now(prepared, store))

    monkeypatch.setattr(gate, "as_of_now", changed)
    return runs


def _by(stage: Stage, prepared: Prepared) -> Door:
    """The door by which a run comes now."""
    told = stage.rows("SELECT told FROM turns WHERE id = ?", prepared.run)
    return Door.WAKES if told and told[0][0] is not None else prepared.ask.door
