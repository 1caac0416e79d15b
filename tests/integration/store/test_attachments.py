from __future__ import annotations

from segue.core.attachments import Attachment, checked
from segue.core.model import Attached, NewAttachment
from segue.store.store import Store
from tests.images import png
from tests.integration.store.talking import CLAUDE, Talk, message, new_id, turn_row

IMAGE = checked(Attachment("a.png", png(1)))
OTHER = checked(Attachment("ä/b.png", png(2)))


def attach(talk: Talk, *files: NewAttachment) -> str:
    """A message with these files; its id."""
    said = message(CLAUDE)
    row = turn_row(talk.id, said, talk.now_ms)
    talk.id = talk.store.receive(talk.made, said, "look", row, None, files).id
    talk.store.place(row.id)
    return said.id


def names(attached: tuple[Attached, ...]) -> list[str]:
    return [each.name for each in attached]


def test_a_message_keeps_its_files_in_order(store: Store, talk: Talk) -> None:
    one, two = attach(talk, OTHER, IMAGE), attach(talk)
    found = store.attachments([one, two])
    assert found == {one: (OTHER.shown, IMAGE.shown)}
    assert store.attachment_data(IMAGE.shown.id) == png(1)
    assert store.attachment_in(talk.id, OTHER.shown.id) == OTHER.shown
    assert store.attachment_in("another", OTHER.shown.id) is None
    assert [names(row.attachments) for row in store.log(talk.id)] == [["b.png", "a.png"], []]
    page = store.reading.page(talk.id, None, 10)
    assert [names(row.attachments) for row in page.rows] == [["b.png", "a.png"], []]


def test_the_same_bytes_are_stored_once_and_go_with_the_last_message(store: Store, talk: Talk) -> None:
    attach(talk, IMAGE)
    other = Talk(store, "other")
    again = attach(other, IMAGE, IMAGE, OTHER)
    assert len(store.attachments([again])[again]) == 3
    store.remove(talk.id)
    assert store.attachment_data(IMAGE.shown.id) == png(1)
    store.remove(other.id)
    assert store.attachment_data(IMAGE.shown.id) is None
    assert store.attachment_data(OTHER.shown.id) is None


def test_a_fork_has_them_too_and_an_edit_keeps_them(store: Store, talk: Talk) -> None:
    said = attach(talk, IMAGE)
    store.edit(said, "look again", 5000)
    assert names(store.attachments([said])[said]) == ["a.png"]
    source = store.conversation("talk")
    assert source is not None
    fork = store.fork(source, "talk~2", None, 9000, new_id)
    (copy,) = store.messages(fork.id)
    assert store.attachments([copy.id]) == {copy.id: (IMAGE.shown,)}
    store.remove(talk.id)
    assert store.attachment_data(IMAGE.shown.id) == png(1)
