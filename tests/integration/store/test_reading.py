"""Pages, search, versions, sums and marks: what readers ask the store for."""

from __future__ import annotations

import msgspec
import pytest

from segue.core.errors import NotFound
from segue.core.model import Voice
from segue.core.turn import Saved
from segue.core.usage import Grouping, Usage
from segue.store.forks import Adoption
from segue.store.reading import ChildRow
from segue.store.records import Conversation, LogRow, Settlement
from segue.store.store import Store
from segue.store.usage_sums import QUARTER_MS
from tests.integration.store.talking import CODEX, Talk, new_id, pin_to, session_row, told, turn_row


def pages(store: Store, conversation: str, limit: int) -> list[list[LogRow]]:
    """All pages, the newest first."""
    found = [store.reading.page(conversation, None, limit)]
    while found[-1].has_more:
        found.append(store.reading.page(conversation, found[-1].first, limit))
    return [page.rows for page in found]


def joined(found: list[list[LogRow]]) -> list[LogRow]:
    return [row for page in reversed(found) for row in page]


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_the_pages_together_are_the_log(store: Store, talk: Talk, limit: int) -> None:
    talk.say("one", "1")
    talk.say("two", None)
    talk.say("three", "3", voice=CODEX)
    talk.say("cut", "gone")
    store.truncate(talk.id, talk.ids[-2:], 5000)
    talk.say("four", "4")
    store.edit(talk.ids[0], "uno", 6000)
    found = pages(store, talk.id, limit)
    assert all(len(page) <= limit for page in found)
    shown = [(row.n, row.id, row.text, row.revision, row.edited_ms) for row in joined(found)]
    assert shown == [
        (row.n, row.id, row.text, row.revision, row.edited_ms) for row in store.log(talk.id, withdrawn=True)
    ]
    ours, theirs = joined(found), store.log(talk.id)
    assert [row.turn and row.turn.id for row in ours] == [row.turn and row.turn.id for row in theirs]


def test_a_page_says_where_it_stands(store: Store, talk: Talk) -> None:
    for n in range(5):
        talk.say(str(n))
    newest = store.reading.page(talk.id, None, 4)
    assert (newest.first, newest.has_more, newest.size) == (talk.ids[6], True, 10)
    oldest = store.reading.page(talk.id, talk.ids[3], 4)
    assert ([row.n for row in oldest.rows], oldest.has_more, oldest.size) == ([1, 2, 3], False, 10)
    exact = store.reading.page(talk.id, talk.ids[4], 4)
    assert (exact.first, exact.has_more) == (talk.ids[0], False)
    assert store.reading.page(talk.id, talk.ids[0], 4).rows == []


def test_a_conversation_without_messages_has_an_empty_page(store: Store) -> None:
    store.add(Conversation(id="c", key="empty"), [])
    page = store.reading.page("c", None, 10)
    assert (page.rows, page.first, page.has_more, page.size, page.rewrites) == ([], None, False, 0, 0)


def test_a_cursor_that_was_cut_is_not_found(store: Store, talk: Talk) -> None:
    talk.say("one")
    talk.say("two")
    cut = talk.ids[2]
    store.truncate(talk.id, talk.ids[2:], 5000)
    for gone in (cut, "nothing"):
        with pytest.raises(NotFound):
            store.reading.page(talk.id, gone, 10)
    other = Talk(store, "other")
    other.say("elsewhere")
    with pytest.raises(NotFound):
        store.reading.page(talk.id, other.ids[0], 10)


def test_cuts_make_pages_stale_and_edits_in_place_do_not(store: Store, talk: Talk) -> None:
    def rewrites() -> int:
        return store.reading.page(talk.id, None, 1).rewrites

    talk.say("one")
    talk.say("two")
    store.edit(talk.ids[0], "uno", 5000)
    assert rewrites() == 0
    store.edit(talk.ids[0], "eins", 6000, talk.ids[3:])
    assert rewrites() == 1
    store.undo(talk.id, 7000, lambda before, after: ())
    assert rewrites() == 2
    store.truncate(talk.id, talk.ids[2:], 8000)
    assert rewrites() == 3
    first = store.messages(talk.id)[0]
    again = turn_row(talk.id, first, 9000)
    store.add_retry(again)
    store.rerun(talk.id, first, again.id, talk.ids[1:], 9000)
    assert rewrites() == 4


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
def test_messages_without_a_place_are_on_one_page_each(store: Store, talk: Talk, limit: int) -> None:
    """Also if one that waited long was said before those that got their places earlier."""
    talk.say("one", "1")
    early, row = talk.receive("said early, begun late")
    talk.receive("withdrawn")
    talk.say("two", "2")
    talk.receive("later")
    store.place(row.id)
    talk.settle(row, "at last")
    talk.receive("waiting")
    found = joined(pages(store, talk.id, limit))
    assert sorted(each.text for each in found) == sorted(
        each.text for each in store.log(talk.id, withdrawn=True)
    )
    assert [each.id for each in found if each.n] == talk.ids
    assert early.id in talk.ids
    waiting = next(each for each in found if each.text == "waiting")
    assert waiting.turn is not None
    assert (waiting.n, waiting.turn.state, found[-1].text) == (0, "queued", "waiting")


def test_search_finds_titles_then_messages_newest_first(store: Store, talk: Talk) -> None:
    talk.say("where is the NEEDLE?", "In the haystack.")
    talk.say("another needle", "none")
    other = Talk(store, "needle-work")
    other.now_ms = 9000
    other.say("hello", "needle again")
    named = Talk(store, "named")
    named.say("hi")
    store.reading.give_title(named.id, "Needles and pins")
    found = store.reading.search("Needle", 10)
    assert [(each.key, each.message is None) for each in found] == [
        ("needle-work", True),
        ("named", True),
        ("needle-work", False),
        ("talk", False),
        ("talk", False),
    ]
    assert [each.text for each in found[2:]] == ["needle again", "another needle", "where is the NEEDLE?"]
    assert (found[2].sender, found[3].sender, found[3].agent) == ("assistant", "user", "claude")
    assert len(store.reading.search("needle", 3)) == 3
    assert len(store.reading.search("needle", 1)) == 1


def test_search_takes_signs_as_they_are_and_knows_other_letters(store: Store, talk: Talk) -> None:
    talk.say("100% sure_thing!", "Überraschung")
    for text, count in (("100%", 1), ("0%s", 0), ("sure_t", 1), ("sure!t", 0), ("thing!", 1), ("ÜBERR", 1)):
        assert len(store.reading.search(text, 10)) == count, text


def test_search_leaves_out_what_does_not_stand(store: Store, talk: Talk) -> None:
    talk.say("first wording")
    talk.say("dropped wording")
    store.edit(talk.ids[0], "changed", 5000)
    store.truncate(talk.id, talk.ids[2:], 6000)
    talk.receive("waiting wording")
    assert store.reading.search("wording", 10) == []


def test_search_can_be_limited_to_an_agent_and_a_time(store: Store, talk: Talk) -> None:
    talk.say("needle one", "none")
    talk.now_ms = 9000
    talk.say("needle two", "needle three", voice=CODEX)
    named = Talk(store, "needle-work")
    named.say("hi", "ho")
    assert [each.text for each in store.reading.search("needle", 10, "codex")] == [
        "needle three",
        "needle two",
    ]
    by_claude = store.reading.search("needle", 10, "claude")
    assert [(each.key, each.text) for each in by_claude] == [
        ("needle-work", "needle-work"),
        ("talk", "needle one"),
    ]
    assert store.reading.search("needle", 10, "code_") == []
    assert [each.text for each in store.reading.search("needle", 10, "", 9000)][-2:] == [
        "needle three",
        "needle two",
    ]


def test_conversations_are_paged_in_the_order_of_their_last_use(store: Store) -> None:
    talks = {key: Talk(store, key) for key in ("a", "b", "c", "d")}
    for at, key in enumerate("cabd"):
        talks[key].now_ms = 10_000 * (at // 2 + 1)  # two at a time
        talks[key].say("hi")
    every = [each.conversation.id for each in store.conversations()]
    used = {each.conversation.id: each.last_used_ms for each in store.conversations()}
    assert store.reading.last_used(None, "", None) == every
    read: list[str] = []
    while page := store.reading.last_used(used[read[-1]] if read else None, read[-1] if read else "", 1):
        read += page
    assert read == every
    assert store.reading.last_used(used[every[-1]], "", 10) == []


def test_runs_are_found_by_their_state(store: Store, talk: Talk) -> None:
    first, second = talk.say("one").turn, talk.say("two").turn
    failed = talk.say("three", None).turn
    other = Talk(store, "other")
    _, waiting = other.receive("not begun")
    found = store.reading.runs_in(["done", "failed"], None, 10)
    assert [run for run, _ in found] == [second.id, first.id, failed.id]
    assert [run for run, _ in store.reading.runs_in(["done"], None, 1)] == [second.id]
    assert store.reading.runs_in(["done"], other.id, 10) == []
    assert [run for run, _ in store.reading.runs_in(["queued"], other.id, 10)] == [waiting.id]


def test_the_models_of_an_agent_are_those_of_its_turns(store: Store, talk: Talk) -> None:
    assert store.reading.models() == {}
    talk.say("one")
    talk.say("two", voice=CODEX)
    assert store.reading.models() == {"claude": ("large",), "codex": ("large",)}


def test_every_version_of_a_message_is_kept(store: Store, talk: Talk) -> None:
    settled = talk.say("one", "1")
    question, answer = talk.ids
    store.edit(question, "uno", 5000, [answer])
    found = store.reading.versions([question, answer])
    assert [(each.message, each.revision, each.text, each.stands) for each in found] == [
        (question, 1, "one", False),
        (answer, 1, "1", False),
        (question, 2, "uno", True),
    ]
    assert store.reading.answered_by([question, answer]).keys() == {answer}
    assert store.reading.answered_by([answer])[answer].id == settled.turn.id


def test_runs_are_listed_without_their_reports(store: Store, talk: Talk) -> None:
    first, second = talk.say("one").turn, talk.say("two", None, voice=CODEX).turn
    found = store.reading.runs(talk.id)
    assert [(run.id, run.voice, run.mode, run.state) for run in found] == [
        (first.id, first.voice, "fresh", "done"),
        (second.id, CODEX, "fresh", "failed"),
    ]


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("agent", {"claude": 2, "codex": 1}),
        ("mode", {"fresh": 3}),
        ("conversation", {"talk": 2, "other": 1}),
        ("day", {"0": 2, "4": 1}),
        ("version", {"claude": 2, "codex": 1}),
    ],
)
def test_what_was_spent_is_added_up(store: Store, by: Grouping, names: dict[str, int]) -> None:
    talk, other = Talk(store), Talk(store, "other")
    talk.say("one")
    talk.say("two", None, voice=CODEX)
    other.now_ms = 4 * QUARTER_MS
    other.say("three")
    other.receive("not begun")
    source = store.conversation("talk")
    assert source is not None
    store.fork(source, "talk~2", None, 9000, new_id)
    found = store.reading.spent(by, 0)
    assert {row.name: row.turns for row in found} == names
    assert sum(row.cost_usd or 0 for row in found) == 0.75
    once = next(row for row in found if row.turns == min(names.values()))
    assert once.usage == Usage(100 * once.turns, 50 * once.turns, 20 * once.turns, 10 * once.turns)
    assert (once.cost_estimated, once.saved_usd) == (False, 0.5 * once.turns)
    assert sum(row.turns for row in store.reading.spent(by, QUARTER_MS)) == 1


def test_stars_and_reading_are_remembered(store: Store, talk: Talk) -> None:
    def marks() -> tuple[bool, bool]:
        (found,) = store.conversations()
        return found.starred, found.unread

    talk.receive("waiting")
    assert marks() == (False, False)
    talk.say("one")
    assert marks() == (False, True)
    store.reading.mark_read(talk.id)
    store.reading.star(talk.id, True)
    assert marks() == (True, False)
    talk.say("two", None)
    assert marks() == (True, False)
    talk.say("three")
    store.reading.star(talk.id, False)
    assert marks() == (False, True)


def test_a_fork_is_neither_starred_nor_unread(store: Store, talk: Talk) -> None:
    talk.say("one")
    store.reading.star(talk.id, True)
    source = store.conversation("talk")
    assert source is not None
    store.fork(source, "talk~2", None, 9000, new_id)
    found = {each.conversation.key: (each.starred, each.unread) for each in store.conversations()}
    assert found == {"talk": (True, True), "talk~2": (False, False)}


def test_a_title_can_be_given_and_taken_back(store: Store, talk: Talk) -> None:
    talk.say("how it begins")
    store.reading.give_title(talk.id, "Mine")
    assert store.conversations()[0].title == "Mine"
    store.reading.give_title(talk.id, "")
    assert store.conversations()[0].title == "how it begins"


def test_what_changes_nothing_is_not_written(store: Store, talk: Talk) -> None:
    """Whoever follows the changes is told of nothing."""
    talk.say("one")

    def mark() -> None:
        store.reading.mark_read(talk.id)
        store.reading.star(talk.id, True)
        store.reading.give_title(talk.id, "Mine")

    mark()
    _, newest = store.feed_bounds()
    mark()
    assert store.feed_bounds()[1] == newest


def test_one_conversation_is_summed_up_as_in_the_list(store: Store, talk: Talk) -> None:
    def agree() -> None:
        for listed in store.conversations():
            assert store.reading.summary(listed.conversation) == listed

    store.add(Conversation(id="c", key="empty", created_ms=5), [])
    talk.receive("waiting")
    agree()
    talk.say("  what\n is " + "long " * 100)
    talk.say("review it", voice=CODEX)
    talk.say("failed", None)
    store.truncate(talk.id, talk.ids[:2], 5000)
    agree()
    store.reading.star(talk.id, True)
    store.reading.mark_read(talk.id)
    source = store.conversation("talk")
    assert source is not None
    store.fork(source, "talk~2", None, 9000, new_id)
    store.reading.give_title(talk.id, "Mine")
    agree()
    store.remove(talk.id)
    assert store.reading.summary(source) is None


def test_what_was_spent_can_be_split_and_compared_with_what_was_predicted(store: Store, talk: Talk) -> None:
    talk.say("one")
    talk.say("two", voice=CODEX)
    resumed = continued(store, talk, "claude", saved=0.5)
    Talk(store, "other").say("three")
    found = {(row.name, row.part): row for row in store.reading.spent("agent", 0, "conversation")}
    assert {key: (row.turns, row.resumed) for key, row in found.items()} == {
        ("claude", "talk"): (2, 1),
        ("codex", "talk"): (1, 0),
        ("claude", "other"): (1, 0),
    }
    assert resumed in [run.id for run in store.reading.runs(talk.id)]
    (both,) = (row for row in store.reading.spent("mode", 0) if row.name == "fresh")
    assert (both.turns, both.part, both.predicted_usd, both.predicted_cost_usd) == (3, "", 0.375, 0.75)
    (none,) = (row for row in store.reading.spent("mode", 0) if row.name == "resume")
    assert (none.predicted_usd, none.predicted_cost_usd, none.cost_usd) == (None, None, 0.25)
    days = {(row.name, row.part) for row in store.reading.spent("mode", 0, "day")}
    assert days == {("fresh", "0"), ("resume", "0")}


def continued(
    store: Store, talk: Talk, agent: str, *, saved: float | None, notices: tuple[str, ...] = ()
) -> str:
    """A turn that resumed a session."""
    _, row = talk.receive("go on", Voice(agent))
    store.place(row.id)
    ran = msgspec.structs.replace(told(row, "ok", mode="resume"), saved=Saved(usd=saved), notices=notices)
    ended = msgspec.structs.replace(row, state="done", mode="resume", told=ran, ended_ms=talk.now_ms + 5)
    assert store.settle(Settlement(turn=ended))
    return row.id


def test_what_did_not_pay_is_found(store: Store, talk: Talk) -> None:
    talk.say("one")
    dear = continued(store, talk, "claude", saved=-0.25)
    continued(store, talk, "claude", saved=0.25)
    continued(store, talk, "claude", saved=None)
    cold = continued(store, talk, "codex", saved=0.1, notices=("tools changed: no cache, so 9 were paid",))
    found = store.reading.unpaid(0, "no cache", 10)
    assert [(row.turn.id, row.key) for row in found] == [(cold, "talk"), (dear, "talk")]
    assert [row.turn.id for row in store.reading.unpaid(0, "no cache", 1)] == [cold]
    assert store.reading.unpaid(10**12, "no cache", 10) == []


def test_runs_say_where_their_answers_are(store: Store, talk: Talk) -> None:
    talk.say("one", "1")
    talk.say("two", None)
    talk.say("three", "3")
    store.truncate(talk.id, talk.ids[-2:], 5000)
    talk.receive("waits")
    found = store.reading.runs(talk.id)
    assert [(run.n, run.stands, run.duration_ms) for run in found] == [
        (1, True, 5),
        (3, False, 5),
        (None, False, 5),
        (None, False, None),
    ]
    assert [(run.cost_usd, run.model, run.account) for run in found[:1]] == [(0.25, "large", "work")]


def test_children_are_forks_and_adoptions(store: Store, talk: Talk) -> None:
    session = talk.pinned("one", "1")
    turn = store.turns(talk.id)[-1]
    source = store.conversation("talk")
    assert source is not None
    assert store.reading.children(source) == []
    store.fork(source, "copy", None, 9000, new_id)
    other = Talk(store, "other")
    other.say("hello")
    taken = session_row(other.id, native_id=session.native_id, how="adopt", created_ms=9500)
    store.adopt(other.id, Adoption(said=[], session=taken, pin=pin_to(taken), held=()), 9500)
    assert store.reading.children(source) == [
        ChildRow("adopt", "other", None, None),
        ChildRow("fork", "copy", None, turn.id),
    ]
    again = store.conversation("other")
    assert again is not None
    assert store.reading.children(again) == []
