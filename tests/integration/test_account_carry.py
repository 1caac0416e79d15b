"""What a carry takes from the old account, with the rehearsal agent: what stands there, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.integration.conftest import Program, Result
from tests.integration.talk import OTHER

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


def test_another_agent_sees_the_originals_and_not_the_block(accounts: Accounts) -> None:
    """Also if they were edited since: what was edited does not come back with the block."""
    accounts.write(OTHER)
    accounts.run("remember number 456")
    accounts.run("remember word zebra")
    accounts.carried("b")
    accounts.run("remember word okapi")
    said = ("remember number 456", "remember word zebra", "remember word okapi", ABOUT)

    def heard() -> list[int]:
        turn = accounts.run("hello", "--agent", "other", "--fresh-session")
        assert turn["mode"] == "replay"
        (file,) = accounts.segue.cwd.parent.rglob(f"sessions/{turn['session_id']}.jsonl")
        return words(file.read_text(), *said)

    assert heard() == [1, 1, 1, 0]
    assert accounts.segue("edit", "t", "#1", "remember number 789").code == 0
    assert heard() == [0, 1, 1, 0]
    assert accounts.segue("truncate", "t", "#3").code == 0
    assert heard() == [0, 0, 0, 0]


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


def test_one_long_message_is_carried_with_its_beginning_and_its_end(accounts: Accounts) -> None:
    accounts.run("remember word zebra")
    accounts.run(f"remember number 456 {'x ' * 33_000} remember number 789")
    told = accounts.switch("b", "--carry").stderr
    (row,) = msgspec.json.decode(accounts.segue("account", "audit", "--json").stdout)
    assert (row["mode"], row["turns"], row["omitted"], row["why"]) == ("raw", 1, True, "")
    assert 42_000 < row["left_out"] < 43_000
    assert 23_900 < row["bytes"] <= 24_000
    lost = f"{row['left_out']:,} bytes"
    assert f"Carried over 1 turn, 24 KB; it is too long, and {lost} of it are left out; earlier turns" in told
    assert f"raw, 1 turn, 24 KB, {lost} left out" in accounts.segue("account", "audit").stdout
    block = accounts.block()
    assert words(block, f"…[{lost} left out]…", OMITTED, "remember word zebra") == [1, 1, 0]
    first = accounts.run("what numbers?")
    assert (first["account"], first["mode"], first["text"]) == ("b", "recap", "456, 789")


def test_of_one_long_answer_the_end_is_carried(accounts: Accounts) -> None:
    accounts.run("remember number 456 [[say BEGIN]][[huge 29000]][[say END]]")
    carried = accounts.carried("b")
    assert (carried["mode"], carried["turns"], carried["omitted"]) == ("raw", 1, False)
    block = accounts.block()
    asked, _, answer = block.partition("[assistant]\n")
    assert words(answer, "BEGIN", "END", "bytes left out]…") == [0, 1, 1]
    assert asked.count("remember number 456") == 1
    assert f"…[{carried['left_out']:,} bytes left out]…" in answer
    assert 5_000 < carried["left_out"] < 6_000


def test_what_was_shortened_crosses_again_as_it_is(accounts: Accounts) -> None:
    accounts.run(f"remember number 456 {'x ' * 33_000} remember number 789")
    first = accounts.carried("b")
    accounts.run("remember word zebra")
    accounts.write("[carry]\nmax_bytes = 30000\n")
    again = accounts.carried("c")
    assert (again["mode"], again["turns"], again["left_out"]) == ("raw", 2, 0)
    block = accounts.block()
    marks = (f"…[{first['left_out']:,} bytes left out]…", "bytes left out", "number 456", "number 789")
    assert words(block, *marks, "remember word zebra") == [1, 1, 1, 1, 1]


def test_a_rule_holds_for_what_came_as_text(accounts: Accounts) -> None:
    accounts.run("remember number 456")
    accounts.carried("b")
    accounts.run("hello", "--fresh-session")
    accounts.write('[carry]\nnever = [["a", "c"]]\n')
    assert "said under a is never carried over to c" in accounts.switch("c", "--carry", code=2).stderr


RULES = [
    pytest.param('[carry]\nnever = [["a", "c"]]\n', {}, "a", id="a pair, of a third account"),
    pytest.param('[carry]\nnever = [["c", "b"]]\n', {}, "b", id="a pair"),
    pytest.param("", {"b": 'carry_out = "never"'}, "b", id="nothing leaves it"),
]


@pytest.mark.parametrize(("more", "each", "named"), RULES)
def test_no_hint_proposes_what_a_rule_forbids(
    accounts: Accounts, more: str, each: dict[str, str], named: str
) -> None:
    accounts.run("remember number 456")
    accounts.carried("b")
    accounts.run("remember word zebra")
    accounts.write(more, **each)
    told = accounts.switch("c").stderr
    rule = f"A rule forbids it: what was said under {named} is never carried over to c ([carry] in config"
    assert ("--carry" in told, rule in told) == (False, True), told
    assert named in msgspec.json.decode(accounts.switch("c", "--json").stdout)["forbidden"]
    ran = accounts.run("hello")
    assert ("not carried over" in ran["notices"][0], "--carry" in str(ran["notices"])) == (True, False)
    assert f"said under {named} is never" in accounts.switch("c", "--carry", code=2).stderr


def test_a_hint_proposes_what_no_rule_forbids(accounts: Accounts) -> None:
    """Also if something else in the conversation must not cross: it is not in the session that would."""
    accounts.run("remember number 456")
    accounts.switch("b")
    accounts.run("remember word zebra")
    accounts.write('[carry]\nnever = [["a", "c"]]\n')
    ran = accounts.run("hello", "--account", "c")
    assert "to do that: segue account switch t c --carry" in ran["notices"][0]
    assert "To carry them over: segue account switch t c --carry" in accounts.switch("c").stderr
    assert accounts.carried("c")["mode"] == "raw"
    assert words(accounts.block(), "remember number 456", "remember word zebra") == [0, 1]


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


class OneHome(Accounts):
    """All accounts use the same home; its sessions are listed under ``b``."""

    def write(self, more: str = "", **each: str) -> None:
        shared = self.home("shared")
        text = "".join(f'[accounts.{n}]\nagent = "rehearsal"\nhome = "{shared}"\n' for n in ("b", "a", "c"))
        self.segue.config(text + more)

    def leave_a_session(self) -> str:
        """Its conversation continues with another one."""
        left = self.run("remember word plutonium", "--account", "a")["session_id"]
        self.run("hello", "--fresh-session", "--account", "a")
        return str(left)

    def adopt(self, session: str, key: str = "new") -> Result:
        return self.segue("run", key, "what word?", "--account", "b", "--adopt", session, "--json")


@pytest.fixture
def one_home(segue: Program) -> OneHome:
    return OneHome(segue)


NEVER = '[carry]\nnever = [["a", "b"]]\n'
REFUSED = "what was said under a is never carried over to b"


@pytest.mark.parametrize("how", ["left", "copied", "forgotten"])
def test_a_session_that_segue_wrote_is_not_adopted_under_an_account_that_a_rule_keeps_apart(
    one_home: OneHome, how: str
) -> None:
    one_home.write(NEVER)
    session = one_home.leave_a_session()
    if how == "copied":
        ran = one_home.segue("sessions", "repair", session, "--trim", "--json")
        session = msgspec.json.decode(ran.stdout)["session"]
    if how == "forgotten":
        assert one_home.segue("rm", "t").code == 0
    ran = one_home.adopt(session)
    assert (ran.code, REFUSED in ran.stderr) == (2, True), ran.stderr


def test_a_rule_that_comes_later_holds_for_an_adopted_session(one_home: OneHome) -> None:
    session = one_home.leave_a_session()
    assert one_home.adopt(session).turn["mode"] == "resume"
    one_home.write(NEVER)
    ran = one_home.segue("run", "new", "what word?", "--json")
    assert (ran.turn["mode"], "plutonium" in ran.turn["text"]) == ("fresh", False), ran.stderr
