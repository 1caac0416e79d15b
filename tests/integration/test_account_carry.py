"""What a carry takes from the old account, with the rehearsal agent: what stands there, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.integration.conftest import Program, Result

OMITTED = "…[earlier turns omitted]…"
ABOUT = "What was said before, under another account."


class Accounts:
    """Three accounts of the rehearsal agent; a conversation ``t`` that begins under ``a``."""

    def __init__(self, segue: Program) -> None:
        self.segue = segue
        self.write()

    def write(self, more: str = "", **each: str) -> None:
        text = '[defaults]\naccount = "a"\n'
        for name in ("a", "b", "c"):
            own = each.get(name, "")
            text += f'[accounts.{name}]\nagent = "rehearsal"\nhome = "{self.home(name)}"\n{own}\n'
        self.segue.config(text + more)

    def home(self, name: str) -> Path:
        return self.segue.home.parent / name

    def files(self, name: str) -> list[Path]:
        return sorted(self.home(name).rglob("*.jsonl"), key=lambda file: file.stat().st_mtime_ns)

    def run(self, text: str, *options: str, code: int = 0) -> dict[str, Any]:
        ran = self.segue("run", "t", text, "--json", *options)
        assert ran.code == code, ran.stderr
        return ran.turn

    def switch(self, account: str, *options: str, code: int = 0) -> Result:
        ran = self.segue("account", "switch", "t", account, *options)
        assert ran.code == code, (ran.stdout, ran.stderr)
        return ran

    def carried(self, account: str, *options: str) -> dict[str, Any]:
        shown: dict[str, Any] = msgspec.json.decode(
            self.switch(account, "--carry", *options, "--json").stdout
        )
        carried: dict[str, Any] = shown["carried"]
        return carried

    def block(self) -> str:
        """The last block in the conversation."""
        rows = msgspec.json.decode(self.segue("log", "t", "--json").stdout)
        return str([row["text"] for row in rows if row["kind"] == "carried"][-1])


@pytest.fixture
def accounts(segue: Program) -> Accounts:
    return Accounts(segue)


def words(block: str, *wanted: str) -> list[int]:
    return [block.count(word) for word in wanted]


def test_what_the_old_session_was_given_as_text_crosses_too(accounts: Accounts) -> None:
    for n in range(1, 4):
        accounts.run(f"remember word w{n}w")
    assert accounts.run("remember word w4w", "--fresh-session")["mode"] == "replay"
    carried = accounts.carried("b")
    assert (carried["mode"], carried["turns"], carried["omitted"]) == ("raw", 4, False)
    block = accounts.block()
    order = [block.index(f"remember word w{n}w") for n in range(1, 5)]
    assert order == sorted(order)
    assert words(block, *(f"remember word w{n}w" for n in range(1, 5))) == [1, 1, 1, 1]
    assert block.count("[assistant]") == 4


def test_what_was_carried_over_before_crosses_again(accounts: Accounts) -> None:
    accounts.run("remember number 456")
    accounts.carried("b")
    accounts.run("remember word zebra")
    carried = accounts.carried("c")
    assert (carried["turns"], carried["omitted"]) == (2, False)
    block = accounts.block()
    assert words(block, "remember number 456", "remember word zebra", ABOUT) == [1, 1, 1]
    assert block.index("456") < block.index("zebra")
    first = accounts.run("what number?")
    assert (first["account"], first["mode"], first["text"]) == ("c", "recap", "456")


def test_what_was_carried_over_is_not_said_to_be_left_behind(accounts: Accounts) -> None:
    accounts.run("remember number 456")
    assert "Not carried over: 2 messages." in accounts.switch("b").stderr
    accounts.carried("b")
    accounts.run("what number?")
    assert "Not carried over" not in accounts.switch("b").stderr
    accounts.switch("a")
    accounts.run("remember word zebra")
    assert "Not carried over: 2 messages." in accounts.switch("b").stderr, "what was said since"


def test_going_back_does_not_repeat_what_the_old_account_said(accounts: Accounts) -> None:
    accounts.run("remember number 456")
    accounts.carried("b")
    accounts.run("remember word zebra")
    accounts.carried("a")
    assert words(accounts.block(), "456", "remember word zebra") == [0, 1]
    back = accounts.run("what number?")
    assert (back["mode"], back["text"]) == ("resume", "456")


def test_the_blocks_turns_are_cut_one_by_one(accounts: Accounts) -> None:
    for n in range(4):
        accounts.run(f"[[say {'x' * 2500} end of {n}]]")
    assert accounts.carried("b")["omitted"] is False
    accounts.run(f"[[say {'y' * 2500} end of 4]]")
    carried = accounts.carried("c")
    assert (carried["omitted"], carried["bytes"] <= 24_000) == (True, True)
    block = accounts.block()
    assert words(block, OMITTED, *(f"xxx end of {n}]]" for n in range(4))) == [1, 0, 1, 1, 1]
    assert block.index(OMITTED) < block.index("[user]")


def test_a_rule_holds_for_what_came_as_text(accounts: Accounts) -> None:
    accounts.run("remember number 456")
    accounts.carried("b")
    accounts.run("hello", "--fresh-session")
    accounts.write('[carry]\nnever = [["a", "c"]]\n')
    assert "said under a is never carried over to c" in accounts.switch("c", "--carry", code=2).stderr


def test_what_was_edited_or_dropped_stays_out_also_after_a_replay(accounts: Accounts) -> None:
    for word in ("okapi", "zebra", "lemur"):
        accounts.run(f"remember word {word}")
    accounts.run("hello", "--fresh-session")
    assert accounts.segue("edit", "t", "#3", "remember word gazelle").code == 0
    assert accounts.segue("truncate", "t", "#5").code == 0
    accounts.carried("b")
    said = ("remember word okapi", "gazelle", "remember word zebra", "remember word lemur")
    assert words(accounts.block(), *said) == [1, 1, 0, 0]


def test_a_message_without_an_answer_says_so(accounts: Accounts) -> None:
    accounts.run("remember number 456")
    accounts.run("[[error 429]] please", code=75)
    accounts.carried("b")
    block = accounts.block()
    note = "(not answered: the usage limit was reached; its sender was told that it failed)\nDo what it"
    assert block.count(note) == 1
    assert block.index("please") < block.index(note)


def test_a_turn_that_was_interrupted_says_so(accounts: Accounts) -> None:
    accounts.run("remember number 456")
    accounts.run("[[shell true]] [[error 429]] please", "--permission", "full", code=75)
    accounts.carried("b")
    assert "(interrupted, after 1 tool call: the usage limit was reached" in accounts.block()


def test_a_session_whose_last_line_is_cut_carries_what_can_be_read(accounts: Accounts) -> None:
    accounts.run("remember number 456")
    accounts.run("remember word zebra")
    (file,) = accounts.files("a")
    file.write_bytes(file.read_bytes()[:-20])
    carried = accounts.carried("b")
    assert (carried["mode"], carried["turns"]) == ("raw", 2), carried["why"]
    block = accounts.block()
    assert words(block, "remember number 456", "remember word zebra") == [1, 1]
    assert block.count("[assistant]") == 2


def test_a_missing_file_is_never_replaced_by_another_one(accounts: Accounts) -> None:
    accounts.run("remember number 456")
    (file,) = accounts.files("a")
    accounts.segue("run", "newer", "remember word zebra")
    file.unlink()
    carried = accounts.carried("b")
    assert (carried["mode"], carried["why"]) == ("none", "its session's file is gone")
    assert accounts.run("what word?")["mode"] == "fresh"


def test_a_conversation_in_which_nothing_was_answered_switches(accounts: Accounts) -> None:
    accounts.run("[[error 429]] please", code=75)
    carried = accounts.carried("b")
    assert (carried["mode"], "no turn was completed" in carried["why"]) == ("none", True)
    assert accounts.run("hello")["account"] == "b"


def test_going_back_at_once_carries_nothing(accounts: Accounts) -> None:
    accounts.run("remember number 456")
    accounts.switch("b")
    carried = accounts.carried("a")
    assert (carried["mode"], carried["why"]) == ("none", "nothing was said under another account")


def test_what_never_leaves_an_account_does_not_when_it_is_removed(accounts: Accounts) -> None:
    accounts.write(a='carry_out = "never"')
    accounts.run("remember number 456")
    assert accounts.segue("account", "rm", "a").code == 0
    assert '[carry]\nclosed = ["a"]' in (accounts.segue.home / "config.toml").read_text()
    assert "said under a is never carried over to b" in accounts.switch("b", "--carry", code=2).stderr
    accounts.switch("b")
    assert accounts.run("what number?")["mode"] == "fresh"


def test_a_misspelt_account_in_a_pair_is_mentioned(accounts: Accounts) -> None:
    work = f'[accounts.work]\nagent = "rehearsal"\nhome = "{accounts.home("work")}"\n'
    accounts.write(f'{work}[carry]\nnever = [["wrok", "b"], ["gone", "b"]]\n')
    ran = accounts.segue("run", "t", "hello")
    told = '[carry] never names the account "wrok", which is not configured; did you mean "work"?'
    assert (ran.code, told in ran.stderr, "gone" in ran.stderr) == (0, True, False)
    found = accounts.segue("doctor").stdout
    assert [f'"{name}", which is not configured' in found for name in ("wrok", "gone")] == [True, True]
