"""The configuration is read once for a command, wherever that needs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from segue.app import workspace
from segue.app.ready_turn import ready_turn
from segue.config.load import load
from tests.integration.conftest import Program


@pytest.mark.parametrize("elsewhere", [False, True])
def test_the_configuration_is_read_once(
    segue: Program, monkeypatch: pytest.MonkeyPatch, elsewhere: bool
) -> None:
    read: list[Path] = []

    def counted(env: Any, cwd: Path) -> Any:
        read.append(cwd)
        return load(env, cwd)

    monkeypatch.setattr("segue.app.workspace.load", counted)
    monkeypatch.setattr("segue.turns.prepare.load", counted)
    other = segue.cwd / "sub"
    other.mkdir()
    cwd = other if elsewhere else segue.cwd
    with workspace.open_workspace(segue.env, segue.cwd) as opened:
        ready_turn(opened, "t", "hello", {"agent": "rehearsal", "cwd": cwd})
    assert read == [segue.cwd, other] if elsewhere else read == [segue.cwd], "and where the turn works"
