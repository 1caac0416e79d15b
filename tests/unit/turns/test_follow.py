"""How often a growing stream is looked at."""

from __future__ import annotations

import time

import pytest

from segue.turns import follow
from segue.turns.follow import PAUSE_S, QUIET_PAUSE_S, QUIET_S, Pauses


def test_pauses_stay_short_while_a_stream_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    pauses = Pauses()
    assert pauses.next_s(True) == 0
    waited = []
    while now < QUIET_S:
        waited.append(pauses.next_s(False))
        now += waited[-1]
    assert waited[0] < waited[1] < PAUSE_S[1] == max(waited) == 0.02
    assert pauses.next_s(False) > PAUSE_S[1]
    assert [pauses.next_s(False) for _ in range(5)][-1] == QUIET_PAUSE_S
    assert pauses.next_s(True) == 0
    assert pauses.next_s(False) == 2 * PAUSE_S[0] == 2 * follow.PAUSE_S[0]
