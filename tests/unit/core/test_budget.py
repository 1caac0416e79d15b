"""Budgets: which turn they cover, what is asked otherwise, and what an answer means."""

from __future__ import annotations

import pytest

from segue.core.budget import (
    STOP,
    Budget,
    Expected,
    Scope,
    SpentOn,
    amount_of,
    as_question,
    asked_in_full,
    budget_check,
    expected,
    first_reached,
    in_dollars,
    is_enough,
    raise_command,
    raise_label,
    reached_in_words,
    reached_of,
)

UNKNOWN = Expected()


def budget(
    limit: float = 5.0,
    spent: float = 0.0,
    *,
    scope: Scope = "conversation",
    name: str = "k",
    raised: float | None = None,
    running: float = 0.0,
) -> Budget:
    parts = (SpentOn("rehearsal", 3, spent),) if spent else ()
    day = None if scope == "conversation" else "2026-11-17"
    return Budget(
        scope=scope, name=name, day=day, limit=limit, raised=raised, spent_on=parts, running=running
    )


@pytest.mark.parametrize(
    ("predicted", "last", "counts"),
    [
        (0.5, 2.0, Expected(0.5, "forecast")),
        (0.0, 2.0, Expected(0.0, "forecast")),
        (None, 2.0, Expected(2.0, "last")),
        (None, None, Expected(None, None)),
    ],
)
def test_an_unknown_price_counts_as_the_last_known(
    predicted: float | None, last: float | None, counts: Expected
) -> None:
    assert expected(predicted, last) == counts


@pytest.mark.parametrize(
    ("given", "price", "covered"),
    [
        pytest.param(budget(5), 4.9, True, id="nothing is spent"),
        pytest.param(budget(5), 5.0, True, id="exactly what is left"),
        pytest.param(budget(5), 5.01, False, id="the first turn is too dear"),
        pytest.param(budget(5, 4.8), 0.2, True, id="exactly the rest"),
        pytest.param(budget(5, 4.8), 0.21, False, id="more than the rest"),
        pytest.param(budget(5, 4.8), 0.0, True, id="free"),
        pytest.param(budget(5, 5.0), 0.0, False, id="used up: also for an unknown price"),
        pytest.param(budget(5, 7.0), 0.0, False, id="overdrawn"),
        pytest.param(budget(5, 7.0, raised=10), 2.9, True, id="raised"),
        pytest.param(budget(5, 7.0, raised=10), 3.1, False, id="raised, and reached again"),
        pytest.param(budget(20, 7.0, raised=10), 12.0, True, id="the configuration allows more by now"),
        pytest.param(budget(5, 4.0, running=0.9), 0.1, True, id="what runs counts"),
        pytest.param(budget(5, 4.0, running=0.9), 0.2, False, id="what runs leaves too little"),
        pytest.param(budget(0.3, 0.1, running=0.1), 0.1, True, id="dollars are not exact"),
    ],
)
def test_which_turn_a_budget_covers(given: Budget, price: float, covered: bool) -> None:
    assert given.covers(price) is covered
    assert first_reached([given], Expected(price, "forecast")) is (None if covered else given)


def test_the_sum_of_many_small_costs_is_exact() -> None:
    parts = tuple(SpentOn(f"c{n}", 1, 0.1) for n in range(1000))
    many = Budget(scope="day", name="2026-11-17", limit=100.0, spent_on=parts)
    assert many.spent == 100.0
    assert not many.covers(0.0)


def test_the_first_that_is_reached_is_asked_about() -> None:
    wide, day = budget(50, 1), budget(2, 1.9, scope="day", name="2026-11-17")
    account = budget(1, 1, scope="account", name="work")
    assert first_reached([wide, day, account], Expected(0.5, "forecast")) is day
    assert first_reached([wide, day, account], Expected(0.05, "forecast")) is account
    assert first_reached([wide], UNKNOWN) is None
    assert first_reached([], Expected(9.0, "forecast")) is None


@pytest.mark.parametrize(
    ("given", "price", "suggested"),
    [
        (budget(5, 4.8), 0.3, 10.0),
        (budget(5, 5.0), 0.0, 10.0),
        (budget(5, 9.0, raised=10), 1.2, 15.0),
        (budget(5, 17.0), 4.0, 25.0),
        (budget(0.1, 0.29), 0.0, 0.3),
        (budget(0.1, 0.3), 0.0, 0.4),
    ],
)
def test_what_is_suggested_covers_the_turn(given: Budget, price: float, suggested: float) -> None:
    reached = reached_of(given, Expected(price, "forecast"), "hi")
    assert reached.suggested == pytest.approx(suggested)
    assert is_enough(reached, reached.suggested)
    assert not is_enough(reached, reached.limit)


def test_what_is_done_and_what_is_open_is_said() -> None:
    parts = (SpentOn("claude", 5, 4.1), SpentOn("codex (reviewer)", 1, 0.7), SpentOn("free", 1, 0.0))
    given = Budget(scope="conversation", name="k", limit=5.0, spent_on=parts, running=0.1)
    reached = reached_of(given, Expected(0.31, "forecast"), "Fix the\n tests, please. " + 99 * "again ")
    assert reached_in_words(reached) == (
        "the budget of this conversation is $5.00: $4.80 is spent, turns that run will cost about $0.100,"
        " and this turn will cost about $0.310"
    )
    full = asked_in_full(reached)
    assert full.startswith("The budget of this conversation is $5.00")
    assert "Spent on: claude $4.10 (5 turns), codex (reviewer) $0.700 (1 turn)." in full
    assert "What waits: Fix the tests, please." in full
    assert len(reached.message) <= 200
    assert reached.message.endswith("…"), "it is cut, and says so"
    assert raise_command("r1", reached) == "segue answer r1 --budget 10"


@pytest.mark.parametrize(
    ("given", "price", "words"),
    [
        (budget(5, 5.1), UNKNOWN, "the budget of this conversation is $5.00: $5.10 is spent"),
        (
            budget(5, 4, scope="day", name="2026-11-17"),
            Expected(1.5, "last"),
            "today's budget is $5.00: $4.00 is spent, and the price of this turn is not known"
            " (the last one cost $1.50)",
        ),
        (
            budget(0.004, 0.0039, scope="account", name="work"),
            Expected(0.0002, "forecast"),
            "today's budget of the account work is $0.004: $0.0039 is spent, and this turn will cost about"
            " $0.0002",
        ),
    ],
)
def test_each_budget_in_words(given: Budget, price: Expected, words: str) -> None:
    assert reached_in_words(reached_of(given, price, "")) == words


def test_only_the_dearest_are_named() -> None:
    parts = tuple(SpentOn(f"c{n}", 1, float(n)) for n in range(1, 9))
    reached = reached_of(Budget(scope="day", name="d", limit=1.0, spent_on=parts), UNKNOWN, "")
    assert [each.name for each in reached.spent_on] == ["c8", "c7", "c6", "c5", "others"]
    assert reached.spent_on[-1] == SpentOn("others", 4, 10.0)
    assert reached.spent == 36.0


@pytest.mark.parametrize(
    ("answer", "amount"),
    [
        ("Raise it to $10.00", 10.0),
        ("$7.50", 7.5),
        ("7.5", 7.5),
        (" 12 $ ", 12.0),
        ("1,000", 1000.0),
        (STOP, None),
        ("$5", None),
        ("-7", None),
        ("go on, it is fine", None),
        ("nan", None),
        ("", None),
    ],
)
def test_the_amount_in_an_answer(answer: str, amount: float | None) -> None:
    reached = reached_of(budget(5, 4.8), Expected(0.3, "forecast"), "hi")
    assert amount_of(reached, answer) == amount


def test_the_question_can_be_asked_as_an_agent_asks() -> None:
    reached = reached_of(budget(5, 4.8), Expected(0.3, "forecast"), "hi")
    (question,) = as_question(reached)
    assert question["question"] == asked_in_full(reached)
    assert [each["label"] for each in question["options"]] == [STOP, raise_label(reached)], "Enter stops"


def test_the_check_rules_nothing_out() -> None:
    fine = budget_check([budget(5, 1), budget(20, 3, scope="day")], Expected(0.5, "forecast"))
    assert (fine.verdict, fine.bars) == ("pass", ())
    assert fine.detail == "conversation $1.00 of $5.00, day $3.00 of $20.00; this turn about $0.500"
    over = budget_check([budget(5, 1), budget(3, 3, scope="account", name="work")], Expected(0.5, "last"))
    assert (over.verdict, over.bars) == ("fail", ())
    assert over.detail == (
        "account work $3.00 of $3.00; the last turn cost $0.500; a turn now would ask you first"
    )


@pytest.mark.parametrize(
    ("usd", "words"),
    [(0, "$0.00"), (12.5, "$12.50"), (1234.5, "$1,234.50"), (0.031, "$0.031"), (0.0042, "$0.0042")],
)
def test_dollars(usd: float, words: str) -> None:
    assert in_dollars(usd) == words
