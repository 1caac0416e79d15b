"""What errors are called over HTTP."""

from __future__ import annotations

import msgspec
import pytest

from segue.core import errors
from segue.server import problems
from segue.server.problems import KINDS, STATUS, TITLES, Refused, refusal, response


def test_every_kind_has_a_status_and_a_title() -> None:
    assert set(STATUS) == set(TITLES) == set(KINDS)


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        (errors.NotFound("x"), "not_found", 404),
        (errors.Misuse("x"), "misuse", 422),
        (errors.ConfigError("x"), "misuse", 422),
        (errors.NotInstalled("x"), "misuse", 422),
        (errors.InUse("x"), "conversation_busy", 409),
        (errors.Conflict("x"), "conflict", 409),
        (errors.Gone("x"), "gone", 410),
        (errors.StoreAway("x"), "unavailable", 503),
        (errors.DaemonUnavailable("x"), "unavailable", 503),
        (errors.Broken("x"), "internal", 500),
        (errors.SegueError("x"), "internal", 500),
    ],
)
def test_an_error_of_ours_has_its_kind(error: errors.SegueError, kind: str, status: int) -> None:
    answered = response(refusal(error))
    assert answered.status_code == status
    assert answered.media_type == "application/problem+json"
    assert msgspec.json.decode(bytes(answered.body)) == {
        "type": "about:blank",
        "title": TITLES[refusal(error).kind],
        "status": status,
        "detail": "x",
        "kind": kind,
    }


def test_all_errors_of_ours_are_covered() -> None:
    kinds = {
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, errors.SegueError) and each is not errors.SegueError
    }
    for each in kinds:
        assert any(issubclass(each, known) for known, _ in problems.BY_CLASS), each


def test_an_unexpected_error_says_nothing_about_the_inside() -> None:
    told = refusal(RuntimeError("secret at /home/me")).problem
    assert told.kind == "internal"
    assert "secret" not in told.detail


def test_a_page_goes_with_what_is_gone() -> None:
    body = bytes(response(Refused("gone", "x", page={"firstId": None})).body)
    assert msgspec.json.decode(body)["page"] == {"firstId": None}
