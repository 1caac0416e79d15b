"""The logins of browsers: they outlive the daemon, and end with their age, their port or their file."""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.server.logins import AGE_S, MOST, Logins
from segue.system import clock

PORT = 4242


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "logins"


def test_a_login_is_known_to_the_next_daemon_at_the_same_port(path: Path) -> None:
    value = Logins(path, PORT).add()
    assert Logins(path, PORT).knows(value)
    assert not Logins(path, PORT + 1).knows(value)
    assert not Logins(path, PORT).knows(value[:-1])
    assert not Logins(path, PORT).knows("")


def test_the_file_is_for_this_user_alone_and_has_no_cookie(path: Path) -> None:
    logins = Logins(path, PORT)
    value = logins.add()
    assert value not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    assert logins.knows(value)
    assert path.stat().st_mode & 0o777 == 0o600


def test_deleting_the_file_logs_everybody_out_at_once(path: Path) -> None:
    logins = Logins(path, PORT)
    first, second = logins.add(), logins.add()
    assert (logins.knows(first), logins.knows(second)) == (True, True)
    path.unlink()
    assert (logins.knows(first), logins.knows(second)) == (False, False)
    third = logins.add()
    assert (logins.knows(first), logins.knows(third)) == (False, True)


def test_a_login_ends_with_its_age(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = clock.now_ms()
    value = Logins(path, PORT).add()
    monkeypatch.setattr(clock, "now_ms", lambda: now + AGE_S * 1000 - 1000)
    assert Logins(path, PORT).knows(value)
    monkeypatch.setattr(clock, "now_ms", lambda: now + AGE_S * 1000 + 60_000)
    assert not Logins(path, PORT).knows(value)


def test_there_are_not_too_many(path: Path) -> None:
    logins = Logins(path, PORT)
    values = [logins.add() for _ in range(MOST + 1)]
    assert [logins.knows(each) for each in values] == [False, *[True] * MOST]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"logins": [{"digest": 1}]}'])
def test_a_broken_file_lets_nobody_in(path: Path, text: str) -> None:
    value = Logins(path, PORT).add()
    path.write_text(text)
    assert not Logins(path, PORT).knows(value)
