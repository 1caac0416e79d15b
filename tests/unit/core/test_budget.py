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
    booked,
    budget_check,
    expected,
    first_in_the_way,
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
    unpriced: int = 0,
) -> Budget:
    parts = (SpentOn("rehearsal", 3, spent),) if spent else ()
    day = None if scope == "conversation" else "2026-11-17"
    return Budget(
        scope=scope,
        name=name,
        day=day,
        limit=limit,
        raised=raised,
        spent_on=parts,
        running=running,
        unpriced=unpriced,
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


def test_an_agent_whose_answers_never_had_a_known_cost_counts_as_free() -> None:
    assert expected(None, None, answered=True) == FREE
    assert expected(None, 2.0, answered=True) == Expected(2.0, "last")


FREE = Expected(0.0)


def about(usd: float) -> Expected:
    return Expected(usd, "forecast")


@pytest.mark.parametrize(
    ("given", "price", "verdict"),
    [
        pytest.param(budget(5), about(4.9), "begins", id="nothing is spent"),
        pytest.param(budget(5), about(5.0), "begins", id="exactly what is left"),
        pytest.param(budget(5), about(5.01), "asks", id="the first turn is too dear"),
        pytest.param(budget(5, 4.8), about(0.2), "begins", id="exactly the rest"),
        pytest.param(budget(5, 4.8), about(0.21), "asks", id="more than the rest"),
        pytest.param(budget(5, 4.8), FREE, "begins", id="free"),
        pytest.param(budget(5, 5.0), FREE, "asks", id="used up: also for a free turn"),
        pytest.param(budget(5, 5.0), UNKNOWN, "asks", id="used up: also for an unknown price"),
        pytest.param(budget(5, 7.0), FREE, "asks", id="overdrawn"),
        pytest.param(budget(5, 7.0, raised=10), about(2.9), "begins", id="raised"),
        pytest.param(budget(5, 7.0, raised=10), about(3.1), "asks", id="raised, and reached again"),
        pytest.param(budget(20, 7.0, raised=10), about(12.0), "begins", id="the configuration allows more"),
        pytest.param(budget(5, 4.0, running=0.9), about(0.1), "begins", id="what runs counts"),
        pytest.param(budget(5, 4.0, running=0.9), about(0.2), "waits", id="what runs leaves too little"),
        pytest.param(budget(5, 4.0, running=1.0), FREE, "waits", id="all the rest is reserved"),
        pytest.param(budget(5, 4.0, running=0.9), about(1.1), "asks", id="even without what runs"),
        pytest.param(budget(0.3, 0.1, running=0.1), about(0.1), "begins", id="dollars are not exact"),
        pytest.param(budget(5), UNKNOWN, "begins", id="the first of unknown price"),
        pytest.param(budget(5, unpriced=1), UNKNOWN, "waits", id="the second of unknown price"),
        pytest.param(budget(5, unpriced=1), about(1.0), "begins", id="a known price does not wait for it"),
        pytest.param(budget(5, unpriced=1), FREE, "begins", id="nor does a free turn"),
    ],
)
def test_when_a_budget_lets_a_turn_begin(given: Budget, price: Expected, verdict: str) -> None:
    assert given.verdict(price) == verdict
    assert first_in_the_way([given], price) is (None if verdict == "begins" else given)


def test_the_sum_of_many_small_costs_is_exact() -> None:
    parts = tuple(SpentOn(f"c{n}", 1, 0.1) for n in range(1000))
    many = Budget(scope="day", name="2026-11-17", limit=100.0, spent_on=parts)
    assert many.spent == 100.0
    assert many.verdict(FREE) == "asks"


def test_the_first_that_asks_comes_before_those_that_wait() -> None:
    wide, day = budget(50, 1), budget(2, 1.9, scope="day", name="2026-11-17")
    account = budget(1, 1, scope="account", name="work")
    reserved = budget(2, 1, running=1)
    assert first_in_the_way([wide, day, account], about(0.5)) is day
    assert first_in_the_way([wide, day, account], about(0.05)) is account
    assert first_in_the_way([reserved, account], about(0.5)) is account
    assert first_in_the_way([wide, reserved], about(0.5)) is reserved
    assert first_in_the_way([wide], UNKNOWN) is None
    assert first_in_the_way([], about(9.0)) is None


@pytest.mark.parametrize(
    ("usd", "reserved", "may_have_worked", "cost"),
    [
        (0.5, 0.2, True, 0.5),
        (0.0, 0.2, True, 0.0),
        (None, 0.2, True, 0.2),
        (None, 0.2, False, None),
        (None, None, True, None),
        (None, 0.0, True, None),
    ],
)
def test_a_cost_that_is_not_known_is_booked_as_it_was_reserved(
    usd: float | None, reserved: float | None, may_have_worked: bool, cost: float | None
) -> None:
    assert booked(usd, reserved, may_have_worked) == cost


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
