"""The wall between accounts holds in flows: what one role or tier said reaches another account only with the
user's consent, and never against a rule. The rehearsal agent's own sessions show what it was sent."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from segue import Flow, FlowShown, Segue, SegueError, flow
from tests.integration.conftest import Program
from tests.integration.test_escalate import DONE, UP, Files
from tests.integration.test_review import (
    APPROVE,
    CODER_DELTA,
    CODER_FULL,
    REVIEWER_DELTA,
    REVIEWER_FULL,
    Stage,
    reject,
    result,
)

T = TypeVar("T")
SECRET = "xsecretx"
BACK = "xbackx"
NEVER = '[carry]\nnever = [["a", "b"]]\n'
Row = tuple[str, str, str, str]


class Walled(Stage):
    """Three accounts of the rehearsal agent, each with its own home."""

    def __init__(self, segue: Program) -> None:
        super().__init__(segue)
        segue.trust()
        del self.env["REHEARSAL_HOME"], self.env["REHEARSAL_SCENARIO"]
        self.rules()

    def play(self, *rules: tuple[str, str] | tuple[str, str, int]) -> None:
        self.env["REHEARSAL_SCENARIO"] = str(self.scenario)
        super().play(*rules)

    def rules(self, text: str = "", **each: str) -> None:
        found = ""
        for name in ("a", "b", "c"):
            found += (
                f'[accounts.{name}]\nagent = "rehearsal"\nhome = "{self.home(name)}"\n{each.get(name, "")}\n'
            )
        self.segue.config(found + text)

    def home(self, name: str) -> Path:
        return self.segue.home.parent / f"home-{name}"

    def heard(self, account: str, word: str = SECRET) -> bool:
        """Whether the word is anywhere in the sessions of the account."""
        files = self.home(account).rglob("*")
        return any(word.encode() in each.read_bytes() for each in files if each.is_file())

    def audit(self) -> list[Row]:
        async def rows(segue: Segue) -> list[Row]:
            found = await segue.accounts.audit()
            return sorted((r.from_account or "", r.to_account or "", r.mode, r.asked_by) for r in found)

        return self.within(rows)

    def under(self) -> dict[str, list[str]]:
        """Whose words each turn of a flow was given, by its step: the accounts of the marks."""
        rows = self.query("SELECT step, under FROM turns WHERE flow IS NOT NULL ORDER BY started_ms, id")
        return {
            step: sorted(each.rpartition("/")[0] for each in msgspec.json.decode(under))
            for step, under in rows
        }

    def parked(self) -> bool:
        """Whether a turn of a flow is parked."""
        return bool(self.query("SELECT 1 FROM turns WHERE state = 'parked' AND flow IS NOT NULL"))

    def query(self, sql: str) -> list[Any]:
        with sqlite3.connect(self.segue.home / "segue.db") as db:
            return db.execute(sql).fetchall()


@pytest.fixture
def walled(segue: Program) -> Walled:
    return Walled(segue)


def played(walled: Walled) -> None:
    """Two rounds: the coder says a word, and the reviewer says another one."""
    walled.play(
        (CODER_FULL, f"[[write code.txt one]] [[say I used {SECRET}]]"),
        (CODER_DELTA, f"[[write code.txt two]] [[say {SECRET} again]]"),
        (REVIEWER_FULL, reject("a", text=BACK)),
        (REVIEWER_DELTA, APPROVE),
    )


NAMED = {"coder_account": "a", "reviewer_account": "b"}


def test_a_review_of_two_named_accounts_carries_and_says_so(walled: Walled) -> None:
    played(walled)
    shown = walled.review(**NAMED)
    assert (shown.state, shown.end) == ("done", "approved"), shown.failure
    assert walled.heard("b")
    assert walled.audit() == [("a", "b", "flow", "flow"), ("b", "a", "flow", "flow")]
    assert "a → b  flow  asked by flow" in walled.segue("account", "audit", more=walled.env).stdout
    assert walled.under() == {
        "coder/1": ["rehearsal/a"],
        "reviewer/1": ["+rehearsal/a", "rehearsal/b"],
        "coder/2": ["+rehearsal/b", "rehearsal/a"],
        "reviewer/2": ["+rehearsal/a", "rehearsal/b"],
    }


@pytest.mark.parametrize(
    "rules", [{"text": NEVER}, {"a": 'carry_out = "never"'}, {"b": 'carry_in = "never"'}], ids=str
)
def test_a_rule_refuses_a_review_before_anybody_works(walled: Walled, rules: dict[str, str]) -> None:
    played(walled)
    walled.rules(**rules)
    with pytest.raises(
        SegueError, match="the coder and the reviewer: what was said under a is never carried over to b"
    ):
        walled.review(**NAMED)
    assert not walled.heard("a")
    assert not walled.heard("b")
    assert walled.audit() == []


def test_the_command_is_refused_with_exit_code_2_and_the_way_out(walled: Walled) -> None:
    played(walled)
    walled.rules(NEVER)
    (walled.cwd / "TASK.md").write_text("Build it")
    words = ("review", "TASK.md", "--coder", "rehearsal", "--reviewer", "rehearsal")
    refused = walled.segue(*words, "--coder-account", "a", "--reviewer-account", "b", more=walled.env)
    assert refused.code == 2, refused.stderr
    assert "never carried over" in refused.stderr
    assert "see [carry] in config.toml, or use one account" in refused.stderr


def test_a_rule_refuses_a_comparison_before_anything_is_checked_out(walled: Walled) -> None:
    walled.rules(NEVER)

    async def work(segue: Segue) -> None:
        await segue.flows.compare(
            "Build it", coder="rehearsal", reviewer="rehearsal", coder_account="a", reviewer_account="b"
        )

    with pytest.raises(SegueError, match="what was said under a is never carried over to b"):
        walled.within(work)
    assert not (walled.segue.home / "comparisons").exists()


def test_one_named_account_is_no_consent(walled: Walled) -> None:
    played(walled)
    with pytest.raises(SegueError, match="not carried over to b unasked; name the account of each role"):
        walled.review(reviewer_account="b")
    assert walled.review(coder_account="none", reviewer_account="b").end == "approved"
    assert walled.audit() == [("", "b", "flow", "flow"), ("b", "", "flow", "flow")]


def test_a_role_without_an_account_has_that_of_its_agents_last_turn(walled: Walled) -> None:
    played(walled)
    assert walled.review(coder_account="a").end == "approved"
    assert walled.audit() == []
    assert not walled.home("b").exists()


def test_what_a_review_carried_is_not_passed_on_against_a_rule(walled: Walled) -> None:
    """From a to b with consent; then from b to c, which must not have what a said."""
    played(walled)
    shown = walled.review(**NAMED)
    walled.rules('[carry]\nnever = [["a", "c"]]\n')
    words = ("account", "switch", f"flow/{shown.flow}/review", "c", "--carry")
    refused = walled.segue(*words, more=walled.env)
    assert refused.code == 2, (refused.stdout, refused.stderr)
    assert "what was said under a is never carried over to c" in refused.stderr
    walled.rules()
    assert walled.segue(*words, more=walled.env).code == 0


def test_a_rule_that_is_made_meanwhile_ends_the_review(walled: Walled) -> None:
    """The second round begins under the rule. What the reviewer knows already cannot be taken back."""
    config = walled.segue.home / "config.toml"
    rule = walled.segue.home.parent / "rule.toml"
    rule.write_text(config.read_text() + NEVER)
    walled.play(
        (CODER_FULL, f"[[write code.txt one]] [[say {SECRET}]]"),
        (REVIEWER_FULL, f"[[shell cp '{rule}' '{config}']] {reject('a', text=BACK)}"),
        (CODER_DELTA, "[[say never]]"),
    )
    shown = walled.review(**NAMED, reviewer_permission="full")
    assert (shown.state, shown.end) == ("failed", "failed")
    assert (
        "the coder cannot work: what was said under b is never carried over to a" in result(shown)["reason"]
    )
    (turn,) = walled.query(
        "SELECT state, json_extract(told, '$.failure.kind') FROM turns WHERE step = 'coder/2'"
    )
    assert turn == ("withdrawn", "forbidden")
    assert not walled.heard("a", BACK)


def test_a_retry_under_another_account_keeps_the_words_behind_the_wall(walled: Walled) -> None:
    """A message that Segue composed repeats the words of the login that it was composed for."""
    played(walled)
    shown = walled.review(**NAMED)
    key = f"flow/{shown.flow}/review"
    log = msgspec.json.decode(walled.segue("log", key, "--json", more=walled.env).stdout)
    asked = [row for row in log if row["from"] == "user"]
    assert SECRET in asked[1]["text"]
    refused = walled.segue("retry", key, asked[1]["id"], "--account", "c", "--fork", more=walled.env)
    assert refused.code == 2, (refused.stdout, refused.stderr)
    assert "said under b is not carried over to c unasked" in refused.stderr
    planned = walled.segue(
        "why", key, "--retry", asked[1]["id"], "--cut", "--account", "c", "--json", more=walled.env
    )
    why = msgspec.json.decode(planned.stdout)
    assert "said under b is not carried over to c unasked" in why["refused"][0]
    assert [each.rpartition("/")[0] for each in why["given"]] == ["+rehearsal/a", "rehearsal/b"]
    assert not walled.heard("c")
    shown_why = walled.segue(
        "why", key, "--retry", asked[1]["id"], "--cut", "--account", "c", more=walled.env
    )
    assert "would not begin: what was said under b is not carried over to c" in " ".join(
        shown_why.stdout.split()
    )


def test_a_review_that_was_killed_goes_on_under_the_rules_of_now(walled: Walled) -> None:
    """The reviewer's turn was killed. The rule that was made meanwhile keeps it from beginning again."""
    walled.play(
        (CODER_FULL, f"[[write code.txt one]] [[say {SECRET}]]"),
        (REVIEWER_FULL, f"[[shell kill -9 $(cat {walled.cwd}/pid) $PPID]] {APPROVE}"),
    )
    (walled.cwd / "TASK.md").write_text("Build it")
    roles = (
        "--coder",
        "rehearsal",
        "--coder-account",
        "a",
        "--reviewer",
        "rehearsal",
        "--reviewer-account",
        "b",
    )
    killed = walled.killed("review", "TASK.md", *roles, "--reviewer-permission", "full", "--json")
    assert killed.returncode == -9, killed.stderr
    for each in walled.home("b").rglob("*.jsonl"):
        each.write_text("")  # what it was given then is out of Segue's hands
    walled.rules(NEVER)
    ((flow,),) = walled.query("SELECT id FROM flows")
    resumed = walled.segue("flow", "resume", flow, "--json", more=walled.env)
    assert resumed.turn["state"] == "failed"
    assert "the reviewer cannot work: what was said under a is never" in resumed.turn["result"]["reason"]
    assert not walled.heard("b")


def test_a_step_that_is_tried_again_is_asked_again(walled: Walled) -> None:
    played(walled)
    shown = walled.review(**NAMED)
    assert shown.end == "approved"
    before = {each: each.read_bytes() for each in walled.home("b").rglob("*.jsonl")}
    walled.rules(NEVER)

    async def again(segue: Segue) -> FlowShown:
        await segue.flows.retry_step(shown.flow, "reviewer/2")
        return await segue.flows.join(shown.flow)

    ended = walled.within(again)
    assert ended.state == "failed"
    assert "the reviewer cannot work: what was said under a is never carried over" in result(ended)["reason"]
    assert {each: each.read_bytes() for each in walled.home("b").rglob("*.jsonl")} == before


def test_a_parked_turn_that_wakes_is_asked_again(walled: Walled) -> None:
    walled.play(
        (CODER_FULL, f"[[write code.txt one]] [[say {SECRET}]]"),
        (REVIEWER_FULL, "[[limit 5h 1 4]] [[error 429 retry-after 4]]", 1),
        (REVIEWER_FULL, APPROVE),
    )

    async def work(segue: Segue) -> FlowShown:
        task = asyncio.create_task(
            segue.flows.review(
                "Build it",
                coder="rehearsal",
                reviewer="rehearsal",
                coder_account="a",
                reviewer_account="b",
            )
        )
        while not walled.parked():
            assert not task.done()
            await asyncio.sleep(0.05)
        walled.rules(NEVER)
        return await task

    shown = walled.within(work)
    assert shown.state == "failed", shown
    assert (
        "the reviewer cannot work: what was said under a is never carried over to b"
        in result(shown)["reason"]
    )
    (kind,) = walled.query("SELECT json_extract(told, '$.failure.kind') FROM turns WHERE step = 'reviewer/1'")
    assert kind == ("forbidden",)


# tiers


def tiers(walled: Walled, **second: object) -> Files:
    files = Files(walled.cwd)
    files.tier(f"[[say {SECRET} {UP}]]", account="a")
    return files.tier("go on", f"[[say {DONE}]]", account="b", **second)


def escalated(walled: Walled, files: Files) -> FlowShown:
    return walled.within(files.run)


def notices(walled: Walled, shown: FlowShown, step: str) -> str:
    (run,) = (each.run for each in shown.steps if each.key == step)

    async def found(segue: Segue) -> str:
        turn = (await segue.runs.show(run or "")).turn
        return " ".join(turn.notices) if turn is not None else ""

    return walled.within(found)


def test_a_tier_of_another_account_takes_nothing_unless_its_file_says_so(walled: Walled) -> None:
    shown = escalated(walled, tiers(walled))
    assert (shown.state, shown.end) == ("done", "done"), shown.failure
    assert not walled.heard("b")
    assert walled.audit() == []
    said = notices(walled, shown, "tier-2")
    assert (
        "nothing of the tiers before is carried over: what was said under a is not carried over to b" in said
    )
    assert "carry = true" in said
    assert walled.heard("b", "What they found is not shown to you")


def test_a_tier_that_carries_is_given_the_hand_off_and_the_audit_says_so(walled: Walled) -> None:
    shown = escalated(walled, tiers(walled, carry=True))
    assert (shown.state, shown.end) == ("done", "done"), shown.failure
    assert walled.heard("b")
    assert walled.audit() == [("a", "b", "flow", "trusted file")]
    assert walled.under()["tier-2"] == ["+rehearsal/a", "rehearsal/b"]


@pytest.mark.parametrize("carry", [True, False])
def test_a_rule_refuses_a_chain_before_anybody_works(walled: Walled, carry: bool) -> None:
    walled.rules(NEVER)
    with pytest.raises(SegueError, match=r"tier 1 \(t1\) and tier 2 \(t2\): what was said under a is never"):
        escalated(walled, tiers(walled, carry=carry))
    assert not walled.heard("a")


def test_what_was_done_under_another_account_counts_but_is_not_shown(walled: Walled) -> None:
    """The key of a cooldown is a word of the tier that used it, in whatever flow."""
    first = Files(walled.cwd).tier(
        f"[[shell echo restart {SECRET}]] [[say {DONE}]]", account="a", permission="full"
    )
    cooldown = {
        "kind": "restart",
        "limit": 1,
        "hours": 1,
        "match": ["shell: restart {key}"],
        "deny": ["shell"],
    }
    first.table("[[cooldown]]", **cooldown)
    assert escalated(walled, first).end == "done"
    second = Files(walled.cwd).tier(f"[[shell touch ran]] [[say {DONE}]]", account="b", permission="full")
    second.table("[[cooldown]]", **cooldown)
    assert escalated(walled, second).end == "done"
    assert not walled.heard("b")
    assert not (walled.cwd / "ran").exists(), "the limit holds all the same"
    third = (
        Files(walled.cwd).tier(f"[[say {DONE}]]", account="b", carry=True).table("[[cooldown]]", **cooldown)
    )
    assert escalated(walled, third).end == "done"
    assert walled.heard("b")
    assert walled.audit() == [("a", "b", "flow", "trusted file")]


# the user's own flows


@flow(version=1)
async def passing(flow: Flow, account: str, given: str = "all") -> dict[str, Any]:
    """The second turn repeats the first one's answer."""
    one = await flow.turn("one", flow.key("x"), f"[[say {SECRET}]]", agent="rehearsal", account="a")
    named: dict[str, Any] = {"account": account} if account else {}
    whose = {"all": None, "one": [one], "nothing": ()}[given]
    text = "hello" if given == "nothing" else f"repeat {one.text}"
    two = await flow.turn("two", flow.key("y"), text, agent="rehearsal", given=whose, **named)
    return {
        "kind": two.failure.kind if two.failure else None,
        "why": two.failure.message if two.failure else "",
    }


def flowed(walled: Walled, **given: Any) -> tuple[str, dict[str, Any]]:
    async def work(segue: Segue) -> FlowShown:
        return await segue.flows.run(passing, given)

    shown = walled.within(work)
    assert shown.result is not None, shown.failure
    return shown.state, msgspec.json.decode(shown.result)


@pytest.mark.parametrize("given", ["all", "one"])
def test_an_account_that_a_users_flow_names_is_the_users_word(walled: Walled, given: str) -> None:
    assert flowed(walled, account="b", given=given) == ("done", {"kind": None, "why": ""})
    assert walled.heard("b")
    assert walled.audit() == [("a", "b", "flow", "flow")]


@pytest.mark.parametrize("given", ["all", "one"])
def test_a_rule_holds_in_a_users_flow(walled: Walled, given: str) -> None:
    walled.rules(NEVER)
    _, ended = flowed(walled, account="b", given=given)
    assert ended["kind"] == "forbidden"
    assert "what was said under a is never carried over to b" in ended["why"]
    assert not walled.heard("b")
    assert walled.audit() == []


def test_an_account_that_nobody_named_is_given_nothing_of_another_one(walled: Walled) -> None:
    _, ended = flowed(walled, account="")
    assert ended["kind"] == "forbidden"
    assert "not carried over to no account unasked" in ended["why"]


def test_a_turn_that_repeats_nobody_is_not_refused(walled: Walled) -> None:
    walled.rules(NEVER)
    assert flowed(walled, account="b", given="nothing")[1]["kind"] is None
    assert walled.under()["two"] == ["rehearsal/b"]
    assert walled.audit() == []


@flow(version=1)
async def limited(flow: Flow) -> str | None:
    """The second turn repeats the first one's answer, and meets a limit."""
    one = await flow.turn("one", flow.key("x"), f"[[say {SECRET}]]", agent="rehearsal", account="a")
    two = await flow.turn("two", flow.key("y"), f"limited {one.text}", agent="rehearsal", account="a")
    return two.account


@pytest.mark.parametrize("rule", ["ask", "allow"])
def test_at_a_limit_words_move_only_if_the_rules_let_them_unasked(walled: Walled, rule: str) -> None:
    walled.rules(f'[carry]\nrule = "{rule}"\n[limits]\non_limit = "switch"\norder = "listed"\n')
    walled.play(("limited", "[[limit 5h 1 2]] [[error 429 retry-after 2]]", 1), ("limited", "[[say fine]]"))

    async def work(segue: Segue) -> FlowShown:
        return await segue.flows.run(limited)

    shown = walled.within(work)
    assert shown.result is not None, shown.failure
    assert (msgspec.json.decode(shown.result) == "a") == (rule == "ask")
    assert walled.heard("b") == (rule == "allow")
    moved = [row for row in walled.audit() if row[2] == "flow"]
    assert moved[:1] == ([("a", "b", "flow", "policy")] if rule == "allow" else [])
