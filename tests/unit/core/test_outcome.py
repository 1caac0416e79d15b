"""Kinds of failure: from HTTP statuses, exit codes and signals."""

from __future__ import annotations

import pytest

from segue.core.outcome import (
    Exit,
    Failure,
    Kind,
    Outcome,
    by_exit,
    by_status,
    fallen,
    last_line,
    nothing_known,
)
from segue.core.usage import Usage


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (None, None),
        (200, None),
        (400, "model_error"),
        (401, "auth"),
        (403, "auth"),
        (413, "context_exceeded"),
        (429, "rate_limited"),
        (500, "model_error"),
        (502, "network"),
        (503, "model_error"),
        (504, "network"),
        (529, "model_error"),
    ],
)
def test_a_status_has_its_kind(status: int | None, kind: Kind | None) -> None:
    assert by_status(status) == kind


@pytest.mark.parametrize(
    ("failure", "retryable"),
    [
        (Failure("rate_limited", ""), True),
        (Failure("network", ""), True),
        (Failure("session_busy", ""), True),
        (Failure("model_error", "", status=529), True),
        (Failure("model_error", ""), True),
        (Failure("model_error", "", status=400), False),
        (Failure("auth", ""), False),
        (Failure("refused", ""), False),
        (Failure("context_exceeded", ""), False),
        (Failure("timeout", ""), False),
    ],
)
def test_what_is_worth_trying_again(failure: Failure, retryable: bool) -> None:
    assert failure.retryable is retryable


@pytest.mark.parametrize(
    ("code", "signal"), [(0, None), (1, None), (-9, 9), (143, 15), (137, 9), (144, None), (None, None)]
)
def test_a_signal_is_seen_also_through_a_launcher(code: int | None, signal: int | None) -> None:
    assert Exit(code).signal == signal


@pytest.mark.parametrize(
    ("ended", "kind"),
    [
        (Exit(0), "protocol"),
        (Exit(-9), "killed"),
        (Exit(143), "killed"),
        (Exit(-11), "crashed"),
        (Exit(1), "crashed"),
    ],
)
def test_an_end_without_a_word(ended: Exit, kind: Kind) -> None:
    assert fallen(ended, "It").kind == kind


def test_what_we_ended_ourselves_is_not_a_crash() -> None:
    cancelled, limited = by_exit(Exit(-15, "cancelled")), by_exit(Exit(-15, "timeout"))
    assert cancelled is not None
    assert limited is not None
    assert (cancelled.kind, limited.kind) == ("cancelled", "timeout")
    assert by_exit(Exit(-15)) is None


def test_the_last_line_that_says_something_is_quoted_and_bounded() -> None:
    assert last_line("first\nsecond \n\n  \n") == "second"
    assert len(last_line("x" * 10_000)) == 500


ZERO = Usage(0, 0, 0, 0)


@pytest.mark.parametrize(
    ("failure", "usage", "unknown"),
    [
        (None, ZERO, False),
        (Failure("network", ""), ZERO, True),
        (Failure("network", ""), Usage(input=0, output=0), True),
        (Failure("network", ""), Usage(0, 5, 0, 0), False),
        (Failure("model_error", ""), ZERO, True),
        (Failure("model_error", "", status=500), ZERO, False),
        (Failure("rate_limited", "", status=429), ZERO, False),
        (Failure("rate_limited", ""), ZERO, False),
        (Failure("auth", ""), ZERO, False),
        (Failure("timeout", ""), ZERO, True),
        (Failure("timeout", ""), Usage(1, 0, 0, 0), False),
        (Failure("cancelled", ""), ZERO, True),
        (Failure("killed", ""), ZERO, True),
    ],
)
def test_zero_is_believed_only_where_the_model_was_not_at_work(
    failure: Failure | None, usage: Usage, unknown: bool
) -> None:
    assert nothing_known(Outcome(failure=failure, usage=usage)) is unknown
