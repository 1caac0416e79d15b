"""At a limit another account takes the message, if the configuration says so; with the rehearsal agent."""

from __future__ import annotations

import msgspec
import pytest

from segue.app.ready_turn import ready_turn
from segue.app.workspace import open_workspace
from segue.turns.other_account import other_account
from tests.integration.conftest import Program
from tests.integration.talk import Talk

LIMITED = '[[rule]]\ntext = "go on"\ndo = "[[limit 5h 1 3600]][[error 429]]"\n'


SOON = LIMITED.replace("error 429", "error 429 retry-after 5")
SOON_OVER = f"{SOON}nth = 1\n"
"""Over when the message is sent again."""


class Accounts:
    """Three accounts of the rehearsal agent, each with a home of its own."""

    def __init__(self, segue: Program) -> None:
        self.segue, self.talk = segue, Talk(segue)
        self.write()

    def write(self, limits: str = 'on_limit = "switch"', carry: str = "", **each: str) -> None:
        accounts = ""
        for name in ("a", "b", "c"):
            home = self.segue.home.parent / name
            home.mkdir(exist_ok=True)
            (home / "scenario.toml").touch()
            env = f'env = {{ REHEARSAL_SCENARIO = "{home}/scenario.toml" }}'
            more = each.get(name, "")
            accounts += f'[accounts.{name}]\nagent = "rehearsal"\nhome = "{home}"\n{env}\n{more}\n'
        self.segue.config(f'[limits]\n{limits}\n[carry]\n{carry}\n[defaults]\naccount = "a"\n{accounts}')

    def limit(self, *names: str, do: str = LIMITED) -> None:
        for name in names:
            (self.segue.home.parent / name / "scenario.toml").write_text(do)

    def sent(self, name: str) -> str:
        files = (self.segue.home.parent / name).rglob("*.jsonl")
        return "\n".join(file.read_text() for file in files)


@pytest.fixture
def accounts(segue: Program) -> Accounts:
    return Accounts(segue)


def test_accounts_are_told_apart_by_their_keys(accounts: Accounts) -> None:
    """One home with a login, and a key for each account: who has the key that met the limit is left out."""
    home = accounts.segue.home.parent / "a"
    (home / "login.json").write_text('{"account": "ann"}')
    keyed = "".join(
        f'[accounts.{name}]\nagent = "rehearsal"\nhome = "{home}"\nenv = {{ REHEARSAL_KEY = "{key}",'
        f' REHEARSAL_SCENARIO = "{home.parent}/{name}/scenario.toml" }}\n'
        for name, key in (("a", "key-of-ann"), ("b", "key-of-ann"), ("c", "key-of-bob"))
    )
    limits = '[limits]\non_limit = "switch"\norder = "listed"\n'
    accounts.segue.config(f'{limits}[defaults]\naccount = "a"\n{keyed}')
    accounts.limit("a")
    turn = accounts.talk.run("please go on").turn
    assert (turn["account"], turn["state"]) == ("c", "done")


def test_the_next_account_takes_the_message(accounts: Accounts) -> None:
    first = accounts.talk.run("remember number 456").turn
    accounts.limit("a")
    turn = accounts.talk.run("please go on").turn
    assert (turn["account"], turn["state"], turn["mode"]) == ("b", "done", "fresh")
    assert len(turn["earlier"]) == 1
    assert turn["retry_of"] == turn["earlier"][0] != first["run"]
    assert "the account a reached its limit; b answers instead" in turn["notices"]
    assert "number 456" not in accounts.sent("b"), "nothing is carried over unless the rules say so"
    assert [row["text"] for row in accounts.talk.log()].count("please go on") == 1
    assert accounts.talk.run("hello").turn["account"] == "b"


def test_what_is_allowed_is_carried_over_once_before_the_message(accounts: Accounts) -> None:
    accounts.write(carry='rule = "allow"')
    accounts.talk.run("remember number 456")
    accounts.limit("a")
    turn = accounts.talk.run("please go on: what number?").turn
    assert (turn["account"], turn["mode"], turn["text"]) == ("b", "recap", "456")
    assert "b answers instead, with 1 turn carried over" in turn["notices"][0]
    sent = accounts.sent("b")
    assert sent.count("remember number 456") == 1
    assert sent.count("go on: what number?") == 1
    assert sent.index("remember number 456") < sent.index("go on: what number?")
    (row,) = msgspec.json.decode(accounts.segue("account", "audit", "--json").stdout)
    assert (row["from_account"], row["to_account"], row["asked_by"]) == ("a", "b", "policy")
    later = accounts.talk.run("what number?").turn
    assert (later["mode"], later["text"]) == ("resume", "456")


def test_what_a_long_turn_loses_on_the_way_is_told(accounts: Accounts) -> None:
    accounts.write(carry='rule = "allow"')
    accounts.talk.run(f"remember number 456 {'x ' * 33_000} remember number 789")
    accounts.limit("a")
    turn = accounts.talk.run("please go on: what numbers?").turn
    assert (turn["account"], turn["text"]) == ("b", "456, 789")
    (row,) = msgspec.json.decode(accounts.segue("account", "audit", "--json").stdout)
    lost = f"{row['left_out']:,} bytes of the last turn are left out, because it is too long"
    assert f"with 1 turn carried over; {lost}" in turn["notices"][0]


def test_two_limited_accounts_leave_the_third(accounts: Accounts) -> None:
    accounts.limit("a", "b")
    turn = accounts.talk.run("please go on").turn
    assert (turn["account"], turn["state"], len(turn["earlier"])) == ("c", "done", 2)


def test_at_most_three_runs(accounts: Accounts) -> None:
    accounts.limit("a", "b", "c")
    home = accounts.segue.home.parent / "d"
    home.mkdir()
    file = accounts.segue.home / "config.toml"
    file.write_text(f'{file.read_text()}[accounts.d]\nagent = "rehearsal"\nhome = "{home}"\n')
    ran = accounts.talk.run("please go on", code=75)
    assert (ran.turn["account"], ran.turn["failure"]["kind"]) == ("c", "rate_limited")
    assert len(ran.turn["earlier"]) == 2
    assert [row["status"] for row in accounts.talk.log() if row["from"] == "user"] == ["failed"]


def test_an_account_that_is_known_to_be_limited_is_not_asked(accounts: Accounts) -> None:
    accounts.limit("a", "b")
    accounts.segue("run", "other", "please go on", "--account", "b")
    accounts.write(limits='on_limit = "switch"\norder = "listed"')
    before = accounts.sent("b")
    turn = accounts.talk.run("please go on").turn
    assert (turn["account"], len(turn["earlier"])) == ("c", 1)
    assert accounts.sent("b") == before


@pytest.mark.parametrize(("order", "chosen"), [("most_room", "c"), ("soonest_reset", "b"), ("listed", "b")])
def test_the_order(accounts: Accounts, order: str, chosen: str) -> None:
    accounts.write(limits=f'on_limit = "switch"\norder = "{order}"')
    accounts.segue("run", "x", "[[limit 5h 0.8 600]][[say hi]]", "--account", "b")
    accounts.segue("run", "x", "[[limit 5h 0.2 7200]][[say hi]]", "--account", "c")
    accounts.limit("a")
    assert accounts.talk.run("please go on").turn["account"] == chosen


def test_a_pair_between_which_nothing_is_carried_is_left_out(accounts: Accounts) -> None:
    accounts.write(carry='never = [["a", "b"]]')
    accounts.limit("a")
    assert accounts.talk.run("please go on").turn["account"] == "c"


def test_a_message_is_not_moved_to_an_account_that_must_not_get_its_words(accounts: Accounts) -> None:
    """The words of ``former`` were passed on to ``a`` with consent; a rule keeps them away from ``b``."""
    accounts.write(limits='on_limit = "fail"')
    accounts.limit("a")
    failed = accounts.talk.run("please go on", code=75).turn
    accounts.write(carry='never = [["former", "b"]]')
    with open_workspace(accounts.segue.env, accounts.segue.cwd) as workspace:
        store, prepared = workspace.store, ready_turn(workspace, "t", "please go on", {}).prepared
        row = store.turn(failed["run"])
        assert row is not None
        assert row.told is not None
        assert other_account(prepared, store, row.told) == "b"
        (message,) = store.messages(row.conversation)
        repeats = tuple(sorted({*message.under, "+rehearsal/former/f"}))
        store.address(msgspec.structs.replace(message, under=repeats))
        assert other_account(prepared, store, row.told) == "c"


def test_an_account_has_its_own_rule(accounts: Accounts) -> None:
    accounts.write(limits="", a='on_limit = "switch"')
    accounts.limit("a", "b")
    ran = accounts.talk.run("please go on", code=75)
    assert (ran.turn["account"], len(ran.turn["earlier"])) == ("b", 1), "b does not switch"


def test_a_turn_whose_tools_have_run_stays_where_it_is(accounts: Accounts) -> None:
    rule = LIMITED.replace('do = "', 'do = "[[shell true]]')
    accounts.limit("a", do=rule)
    ran = accounts.talk.run("please go on", "--permission", "full", code=75)
    assert (ran.turn["account"], ran.turn["earlier"], ran.turn["tools_run"]) == ("a", [], 1)


def test_what_cannot_be_used_is_passed_over(accounts: Accounts) -> None:
    home = accounts.segue.home.parent
    for name in ("b", "c"):
        (home / name / "login.json").write_text('{"account": "same"}')
    accounts.limit("a")
    ran = accounts.talk.run("please go on", code=75)
    assert ran.turn["account"] == "a"
    assert "the account b cannot take the message: the accounts" in ran.ran.stderr


def test_if_no_account_is_left_it_is_parked(accounts: Accounts) -> None:
    accounts.write(c='carry_in = "never"')
    accounts.limit("a")
    accounts.limit("b", do=SOON_OVER)
    spoke = accounts.talk.run("please go on", "--park")
    turn = spoke.turn
    assert (turn["account"], turn["state"], len(turn["earlier"])) == ("b", "done", 1)
    assert spoke.ran.stderr.index("b answers instead") < spoke.ran.stderr.index("parked until")
