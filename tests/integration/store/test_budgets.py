"""What was spent, as it counts against budgets; the amounts that these were raised to; and the questions."""

from __future__ import annotations

import msgspec
import pytest

from segue.core.errors import Conflict
from segue.core.model import Host, Voice
from segue.store.budgets import CostRow, RaisedTo
from segue.store.lease_rows import Taken
from segue.store.records import QUEUED, Settlement
from segue.store.store import Store
from segue.system.processes import this_process
from tests.integration.store.talking import CLAUDE, CODEX, Talk, message, new_id, told, turn_row

QUESTION = '{"id":"q","kind":"budget","asked":1}'


def spend(
    talk: Talk, usd: float | None, voice: Voice = CLAUDE, *, ended_ms: int = 2000, ok: bool = True
) -> None:
    """A turn that cost this."""
    _, row = talk.receive("hello", voice)
    talk.store.place(row.id)
    ran = msgspec.structs.replace(told(row, "", state="done" if ok else "failed"), cost_usd=usd)
    state = "done" if ok else "failed"
    final = msgspec.structs.replace(row, conversation=talk.id, state=state, told=ran, ended_ms=ended_ms)
    assert talk.store.settle(Settlement(turn=final))


def queue(talk: Talk, text: str = "later") -> str:
    """A run that waits in the queue."""
    said = message()
    row = turn_row(talk.id, said, via=QUEUED)
    talk.store.enqueue(talk.made, said, text, row, "{}")
    return row.id


def test_failed_turns_count_and_unknown_costs_do_not(store: Store, talk: Talk) -> None:
    spend(talk, 0.25)
    spend(talk, 0.5, CODEX, ok=False)
    spend(talk, None)
    assert sorted(store.budgets.spent_in(talk.id, "talk"), key=lambda row: row.name) == [
        CostRow("claude", "", 1, 0.25, None),
        CostRow("codex", "reviewer", 1, 0.5, None),
    ]


def test_what_runs_counts_as_it_was_reserved(store: Store, talk: Talk) -> None:
    _, row = talk.receive("hello")
    assert store.budgets.spent_in(talk.id, "talk") == [], "it has not begun"
    store.place(row.id, reserved_usd=0.125)
    assert store.budgets.reserved(row.id) == 0.125
    assert store.budgets.spent_in(talk.id, "talk") == [CostRow("claude", "", 0, None, 0.125)]
    assert store.budgets.spent_since(0) == [CostRow("talk", "work", 0, None, 0.125)]
    talk.settle(row)
    assert store.budgets.spent_since(0) == [CostRow("talk", "work", 1, 0.25, None)]


def test_what_runs_without_a_known_price_is_counted(store: Store, talk: Talk) -> None:
    spend(talk, 0.25)
    _, row = talk.receive("hello")
    store.place(row.id)
    assert store.budgets.spent_in(talk.id, "talk") == [CostRow("claude", "", 1, 0.25, None, 1)]
    assert store.budgets.holders() == [talk.id]
    talk.settle(row)
    assert store.budgets.spent_in(talk.id, "talk") == [CostRow("claude", "", 2, 0.5, None)]
    assert store.budgets.holders() == []


def test_those_that_wait_for_a_budget_have_an_order(store: Store, talk: Talk) -> None:
    waiting = [Talk(store, f"t{n}") for n in range(3)]
    runs = [each.receive("hello")[1].id for each in waiting]
    for run in reversed(runs):
        store.budgets.wait_for(run, "day::2026-11-17")
    before = {run: store.budgets.in_front(run, "day::2026-11-17") for run in runs}
    assert sorted(map(len, before.values())) == [0, 1, 2]
    first = next(run for run, others in before.items() if not others)
    store.place(first, reserved_usd=0.125)
    others = [store.budgets.in_front(run, "day::2026-11-17") for run in runs if run != first]
    assert sorted(map(len, others)) == [0, 1]


def test_only_one_run_begins_at_a_time(store: Store, talk: Talk) -> None:
    taken = store.take_lease("conversation:x", this_process(Host("here", "id")), lambda _: "dead")
    assert isinstance(taken, Taken)
    with store.budgets.alone_to_begin(taken.claim) as ours:
        assert ours
    store.release_lease(taken.claim)
    with store.budgets.alone_to_begin(taken.claim) as ours:
        assert not ours


def test_a_turn_counts_for_the_day_on_which_it_ended(store: Store, talk: Talk) -> None:
    spend(talk, 0.25, ended_ms=1999)
    spend(talk, 0.5, ended_ms=2000)
    other = Talk(store, "other")
    spend(other, 1.0, ended_ms=3000)
    rows = sorted(store.budgets.spent_since(2000), key=lambda row: row.name)
    assert rows == [CostRow("other", "work", 1, 1.0, None), CostRow("talk", "work", 1, 0.5, None)]


def test_a_fork_has_spent_nothing(store: Store, talk: Talk) -> None:
    spend(talk, 0.25)
    source = store.conversation("talk")
    assert source is not None
    forked = store.fork(source, "talk~2", None, 9000, new_id)
    assert store.budgets.spent_in(forked.id, "talk~2") == []
    assert [row.usd for row in store.budgets.spent_since(0)] == [0.25]


def test_what_a_deleted_conversation_cost_still_counts(store: Store, talk: Talk) -> None:
    spend(talk, 0.25)
    spend(talk, 0.5, ended_ms=3000)
    store.remove(talk.id)
    assert store.budgets.spent_since(2500) == [CostRow("talk", "work", 1, 0.5, None)]
    again = Talk(store, "talk")
    assert store.budgets.spent_in(again.id, "talk") == [CostRow("claude", "", 2, 0.75, None)]
    assert [(row.name, row.cost_usd) for row in store.reading.spent("conversation", 0)] == [("talk", 0.75)]


def test_a_summary_counts_for_the_conversation_that_it_was_written_for(store: Store, talk: Talk) -> None:
    spend(talk, 0.25)
    summary = Talk(store, "talk~summary-1")
    spend(summary, 0.75, ended_ms=5000)
    store.remove(summary.id, counts_for="talk")
    assert sum(row.usd or 0 for row in store.budgets.spent_in(talk.id, "talk")) == 1.0
    assert CostRow("talk", "work", 1, 0.75, None) in store.budgets.spent_since(5000)
    assert store.budgets.spent_since(5001) == []


def test_what_is_done_for_another_conversation_counts_there_at_once(store: Store, talk: Talk) -> None:
    """Also if nobody removes it, because its process was killed."""
    spend(talk, 0.25)
    summary = Talk(store, "talk~summary-1")
    _, row = summary.receive("summarise")
    store.place(row.id, reserved_usd=0.5, counts_for="talk")
    assert sum(each.reserved or 0 for each in store.budgets.spent_in(talk.id, "talk")) == 0.5
    summary.settle(row)
    assert sum(each.usd or 0 for each in store.budgets.spent_in(talk.id, "talk")) == 0.5
    store.remove(summary.id)
    assert sum(each.usd or 0 for each in store.budgets.spent_in(talk.id, "talk")) == 0.5


def test_the_last_known_cost_of_a_voice(store: Store, talk: Talk) -> None:
    assert store.budgets.last_cost(talk.id, CLAUDE) is None
    spend(talk, 0.25)
    spend(talk, 0.5)
    spend(talk, None)
    spend(talk, 0.0)
    spend(talk, 9.0, ok=False)
    spend(talk, 4.0, CODEX)
    assert store.budgets.last_cost(talk.id, CLAUDE) == 0.5, "the last one that answered and cost something"
    assert store.budgets.last_cost(talk.id, Voice("claude", "reviewer")) == 0.5, "that of its agent"
    assert store.budgets.last_cost(talk.id, Voice("vibe", "")) is None
    assert [store.budgets.has_answered(agent) for agent in ("claude", "vibe")] == [True, False]
    other = Talk(store, "other")
    assert store.budgets.last_cost(other.id, CLAUDE) == 0.5, "nothing is known here: elsewhere"


def test_a_raised_budget_is_only_raised_further(store: Store, talk: Talk) -> None:
    talk.say("hello")
    assert store.budgets.raised_to("day", "", "2026-11-17") is None
    for usd in (10.0, 8.0):
        store.budgets.raise_budget(RaisedTo(scope="day", name="", day="2026-11-17", usd=usd))
    assert store.budgets.raised_to("day", "", "2026-11-17") == 10.0
    assert store.budgets.raised_to("day", "", "2026-11-18") is None
    assert store.budgets.raised_to("account", "", "2026-11-17") is None


def test_a_deleted_conversation_takes_its_budget_with_it(store: Store, talk: Talk) -> None:
    talk.say("hello")
    store.budgets.raise_budget(
        RaisedTo(scope="conversation", name=talk.id, day="", usd=9.0, conversation=talk.id)
    )
    assert store.budgets.raised_to("conversation", talk.id, "") == 9.0
    store.remove(talk.id)
    assert store.budgets.raised_to("conversation", talk.id, "") is None


def test_a_run_that_waits_goes_on_once(store: Store, talk: Talk) -> None:
    talk.say("hello")
    run = queue(talk)
    queued = store.queued(run)
    assert queued is not None
    assert store.wait_for_user(queued, "q", QUESTION)
    assert store.count_unfinished() == {"needs_you": 1}
    (asked,) = store.asked()
    to = RaisedTo(scope="day", name="", day="2026-11-17", usd=9.0)
    assert store.budgets.raise_and_wake(asked, "{}", to)
    assert not store.budgets.raise_and_wake(asked, "{}", msgspec.structs.replace(to, usd=99.0))
    assert store.budgets.raised_to("day", "", "2026-11-17") == 9.0
    again = store.queued(run)
    assert again is not None
    assert again.state == "queued"
    assert store.asked() == []


def test_the_question_of_a_run_that_never_began_stays(store: Store, talk: Talk) -> None:
    talk.say("hello")
    runs = []
    for text in ("one", "two"):
        _, row = talk.receive(text)
        runs.append(row.id)
        ended = msgspec.structs.replace(row, conversation=talk.id, state="withdrawn", ended_ms=2000)
        assert store.settle(Settlement(turn=ended))
        store.budgets.ask_afterwards(row.id, f"q-{text}", QUESTION, '{"a":1}')
    (asked,) = store.asked()
    assert (asked.run, asked.state) == (runs[1], "lapsed"), "only the last message is asked about"
    assert store.budgets.request_of(asked) == '{"a":1}'
    to = RaisedTo(scope="day", name="", day="2026-11-17", usd=9.0)
    store.budgets.raise_and_carry(asked, "{}", to, "next-run")
    with pytest.raises(Conflict):
        store.budgets.raise_and_carry(asked, "{}", to, "another-run")
    assert store.asked() == []
    assert [each.next for each in store.questions(runs[1])] == ["next-run"]


def test_a_waiter_that_died_asks_nothing_any_more(store: Store, talk: Talk) -> None:
    _, dead = talk.receive("asks at a terminal")
    store.ask(dead.id, "q", QUESTION)
    assert store.count_unfinished() == {"needs_you": 1}
    _, row = talk.receive("another")
    store.place(row.id, [dead.id])
    assert store.asked() == []
