"""The daemon's log: what it says, and what it never says."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from segue.server import log
from segue.server.endpoint import Call, Endpoint, Found


async def nothing(call: Call) -> None:
    """Answers nothing."""


FOUND = Found(Endpoint("GET", "/api/v1/c/{key}/log", (), nothing, ""), {"key": "secret-project"})


def written(tmp_path: Path, *, as_json: bool) -> list[str]:
    path = tmp_path / "daemon.log"
    log.start_log(as_json=as_json, path=path)
    log.log_request("GET", log.shown_path("/api/v1/c/secret-project/log", FOUND), 200, 3)
    log.log_request("GET", "/api/v1/health", 200, 0)
    try:
        raise ValueError("secret words")
    except ValueError as error:
        log.log_failure(error)
        log.LOG.exception("caught")
    assert path.stat().st_mode & 0o077 == 0
    for handler in log.LOG.handlers:
        handler.close()
    return path.read_text().splitlines()


def test_lines_for_people(tmp_path: Path) -> None:
    request, failure, caught = written(tmp_path, as_json=False)
    assert request[8:] == f" GET /api/v1/c/{log.hashed('secret-project')}/log 200 3 ms"
    assert "error: ValueError at test_log.py:" in failure
    assert caught.endswith("error: caught (ValueError)")
    assert "secret" not in request + failure + caught


def test_lines_for_programs(tmp_path: Path) -> None:
    request, failure, _ = (
        msgspec.json.decode(line, type=log.LogLine) for line in written(tmp_path, as_json=True)
    )
    assert (request.method, request.status, request.ms) == ("GET", 200, 3)
    assert request.path == f"/api/v1/c/{log.hashed('secret-project')}/log"
    assert (failure.level, failure.method) == ("error", None)


def test_a_long_log_is_rotated_and_stays_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "FILE_BYTES", 1000)
    path = tmp_path / "daemon.log"
    before = os.umask(0o022)
    try:
        log.start_log(as_json=False, path=path)
        for number in range(200):
            log.LOG.info("line %d", number)
    finally:
        os.umask(before)
        for handler in log.LOG.handlers:
            handler.close()
    files = sorted(tmp_path.iterdir())
    assert [each.name for each in files] == ["daemon.log", *(f"daemon.log.{n}" for n in (1, 2, 3))]
    assert all(each.stat().st_size <= 1000 for each in files)
    assert {each.stat().st_mode & 0o777 for each in files} == {0o600}
    kept = [line for each in (*files[:0:-1], files[0]) for line in each.read_text().splitlines()]
    numbers = [int(line.rpartition(" ")[2]) for line in kept]
    assert numbers == list(range(200 - len(numbers), 200)), "the newest, without a gap"


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/login", "/login"),
        ("/api/static/vendor/../../token", "/api/static/…"),
        ("/api/v1/unknown/secret", log.NOWHERE),
        ("/secret", log.NOWHERE),
    ],
)
def test_an_unknown_path_is_not_repeated(path: str, shown: str) -> None:
    assert log.shown_path(path, None) == shown
