"""A summary that the old account writes before a switch; and what is carried over if there is none."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.database import database
from tests.integration.conftest import Program
from tests.integration.test_account_carry import Accounts

SUMMARY = '[[rule]]\ntext = "Write only the summary"\ndo = "{do}"\n'


@pytest.fixture
def accounts(segue: Program) -> Accounts:
    made = Accounts(segue)
    made.run("remember number 456")
    return made


def write(accounts: Accounts, do: str, more: str = "") -> None:
    """What the old account answers if it is asked for a summary."""
    file = accounts.home("a") / "scenario.toml"
    file.write_text(SUMMARY.format(do=do))
    accounts.write(more, a=f'env = {{ REHEARSAL_SCENARIO = "{file}" }}')


def summarised(accounts: Accounts) -> tuple[dict[str, Any], str]:
    """The record, and what the command line says about it."""
    said = accounts.switch("b", "--carry", "summary").stderr
    (row,) = msgspec.json.decode(accounts.segue("account", "audit", "--json").stdout)
    return row, said


def test_it_says_that_it_is_a_summary_and_what_it_cost(accounts: Accounts) -> None:
    write(accounts, "[[say They want 456.]]")
    row, said = summarised(accounts)
    assert (row["mode"], row["why"]) == ("summary", "")
    assert "Carried over a summary of 1 turn, " in said
    assert "; writing it: " in said
    assert "[summary]\nThey want 456." in accounts.block()


def test_a_summary_of_what_was_too_long_says_what_it_lacks(accounts: Accounts) -> None:
    write(accounts, "[[say They want 456.]]")
    accounts.run(f"remember number 789 {'x ' * 33_000}")
    row, said = summarised(accounts)
    assert (row["mode"], row["turns"], row["omitted"]) == ("summary", 1, True)
    lost = f"{row['left_out']:,} bytes of it are left out"
    assert f"; it is too long, and {lost}; earlier turns are left out; writing it: " in said


@pytest.mark.parametrize(
    ("do", "more", "why"),
    [
        ("[[error 500]]", "", ""),
        ("[[slow 60 10]] [[say a b c]]", "[carry]\nsummary_timeout = 1\n", "time limit"),
        (f"[[say {'x' * 1200}]]", "[carry]\nmax_bytes = 1000\n", "too long"),
    ],
    ids=["failure", "timeout", "too long"],
)
def test_if_it_cannot_be_written_the_turns_are_carried_over(
    accounts: Accounts, do: str, more: str, why: str
) -> None:
    write(accounts, do, more)
    row, said = summarised(accounts)
    assert (row["mode"], row["turns"]) == ("raw", 1)
    assert row["why"].startswith("not summarised: ")
    assert why in row["why"]
    assert "Carried over 1 turn as it is, " in said
    assert f"({row['why']}" in said
    assert accounts.run("what number?")["text"] == "456"


def limit(accounts: Accounts, seconds: int) -> None:
    """Another conversation meets a limit of the account."""
    ran = accounts.segue("run", "other", f"[[limit 5h 1 {seconds}]][[error 429]]", "--account", "a")
    assert ran.code == 75, ran.stderr


def test_it_is_not_tried_while_the_account_is_limited(accounts: Accounts) -> None:
    write(accounts, "[[say They want 456.]]")
    limit(accounts, 3600)
    row, _ = summarised(accounts)
    assert (row["mode"], row["why"]) == ("raw", "not summarised: its account is limited")


def test_it_is_tried_when_the_limit_is_over(accounts: Accounts) -> None:
    write(accounts, "[[say They want 456.]]")
    assert accounts.run("[[limit 5h 1 3600]][[error 429 retry-after 3600]]", code=75)
    with database(accounts.segue.home / "segue.db") as db:
        db.execute("UPDATE limits SET resets_ms = 1")
    assert summarised(accounts)[0]["mode"] == "summary"


def test_another_login_does_not_get_to_read_it(accounts: Accounts) -> None:
    write(accounts, "[[say They want 456.]]")
    (accounts.home("a") / "login.json").write_text('{"account": "eve"}')
    before = [file.read_text() for file in accounts.files("a")]
    row, _ = summarised(accounts)
    assert (row["mode"], "another login" in row["why"]) == ("raw", True)
    assert [file.read_text() for file in accounts.files("a")] == before


def test_the_word_carry_stands_anywhere(accounts: Accounts) -> None:
    ran = accounts.segue("account", "switch", "--carry", "t", "b", "--json")
    assert (ran.code, msgspec.json.decode(ran.stdout)["carried"]["mode"]) == (0, "raw"), ran.stderr
    assert accounts.segue("account", "switch", "--carry", "summary", "t", "c").code == 0
    assert accounts.segue("account", "switch", "t", "c", "--carry=all").code == 2


def test_a_removed_account_leads_to_the_switch(accounts: Accounts) -> None:
    file = accounts.segue.home / "config.toml"
    file.write_text('[accounts.b]\nagent = "rehearsal"\n')
    ran = accounts.segue("run", "t", "hello")
    assert (ran.code, "segue account switch t ACCOUNT" in ran.stderr) == (2, True)
    assert accounts.segue("account", "switch", "t", "b").code == 0
    assert accounts.run("hello")["account"] == "b"
