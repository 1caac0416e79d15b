"""Pages around a message, versions of messages, and the events of runs."""

from __future__ import annotations

import msgspec
import pytest

from segue.core.errors import NotFound
from segue.store.pages import PageRows
from segue.store.store import Store
from tests.integration.store.talking import Talk, new_id


def numbers(page: PageRows) -> list[int]:
    return [row.n for row in page.rows]


@pytest.fixture
def long(talk: Talk) -> Talk:
    """Ten messages."""
    for n in range(5):
        talk.say(str(n))
    return talk


@pytest.mark.parametrize(
    ("n", "limit", "shown"),
    [
        (5, 4, [4, 5, 6, 7]),
        (5, 5, [3, 4, 5, 6, 7]),
        (5, 1, [5]),
        (1, 4, [1, 2, 3]),
        (10, 4, [7, 8, 9, 10]),
        (9, 4, [7, 8, 9, 10]),
        (5, 100, list(range(1, 11))),
    ],
)
def test_a_page_around_a_message(store: Store, long: Talk, n: int, limit: int, shown: list[int]) -> None:
    page = store.reading.page(long.id, None, limit, at=long.ids[n - 1])
    assert numbers(page) == shown
    assert (page.first, page.last) == (long.ids[shown[0] - 1], long.ids[shown[-1] - 1])
    assert (page.has_more, page.has_newer) == (shown[0] > 1, shown[-1] < 10)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_pages_after_a_message_lead_to_the_end(store: Store, long: Talk, limit: int) -> None:
    store.truncate(long.id, long.ids[-1:], 5000)
    found, page = [1], store.reading.page(long.id, None, limit, after=long.ids[0])
    while True:
        assert len(page.rows) <= limit
        found += numbers(page)
        assert page.has_more
        if not page.has_newer:
            break
        page = store.reading.page(long.id, None, limit, after=page.last)
    assert found == list(range(1, 10))
    over = store.reading.page(long.id, None, limit, after=long.ids[-1])
    assert (over.rows, over.first, over.last, over.has_newer, over.size) == ([], None, None, False, 9)


def test_what_waits_is_on_one_page_whichever_way_they_are_read(store: Store, talk: Talk) -> None:
    talk.say("one")
    waiting, _ = talk.receive("waits")
    talk.say("two")
    last, _ = talk.receive("waits, too")
    forth = [store.reading.page(talk.id, talk.ids[1], 1)]
    while forth[-1].has_newer:
        forth.append(store.reading.page(talk.id, None, 1, after=forth[-1].last))
    ids = [row.id for page in forth for row in page.rows]
    assert (ids.count(waiting.id), ids.count(last.id), len(ids)) == (1, 1, 6)
    assert ids == [row.id for row in store.log(talk.id, withdrawn=True)]


def test_a_page_around_what_was_dropped_is_not_there(store: Store, long: Talk) -> None:
    gone = long.ids[-1]
    store.truncate(long.id, [gone], 5000)
    for named in ({"at": gone}, {"after": gone}):
        with pytest.raises(NotFound):
            store.reading.page(long.id, None, 4, **named)


def test_versions_are_counted(store: Store, talk: Talk) -> None:
    talk.say("one", "1")
    again = talk.say("two", "2").turn
    question, answer = talk.ids[2:]
    store.edit(question, "due", 5000)
    store.edit(answer, "2!", 5001)
    retry = msgspec.structs.replace(again, id=new_id("t"), answer=None, told=None, started_ms=6000)
    store.add_retry(retry)
    message = next(each for each in store.messages(talk.id) if each.id == question)
    store.rerun(talk.id, message, retry.id, [answer], 6000)
    talk.settle(retry, "two")
    counts = store.reading.version_counts(store.log(talk.id))
    assert [counts[each] for each in talk.ids] == [1, 1, 2, 3]
    assert store.reading.version_counts([]) == {}


def test_the_last_events_of_runs(store: Store, talk: Talk) -> None:
    first, second, quiet = (talk.say(text).turn.id for text in ("one", "two", "three"))
    store.record(first, [(n, 1000 + n, f'{{"type":"text","text":"{n}"}}') for n in range(1, 8)])
    store.record(first, [(8, 1008, '{"type":"usage","usage":{}}'), (9, 1009, '{"type":"end","ok":true}')])
    store.record(second, [(1, 2000, '{"type":"text","text":"x"}')])
    found = store.reading.run_events([first, second, quiet], 3)
    assert ([row[0] for row in found[first].rows], found[first].left_out) == ([6, 7, 9], 5)
    assert (found[second].rows, found[second].left_out) == ([(1, 2000, '{"type":"text","text":"x"}')], 0)
    assert quiet not in found
    assert store.reading.run_event(first, 8) == (1008, '{"type":"usage","usage":{}}')
    assert store.reading.run_event(first, 10) is None
