"""Which attachments are sent, and what is said about the others."""

from __future__ import annotations

import pytest

from segue.core.attachments import MOST_SENT
from segue.core.model import Attached, Message, Voice
from segue.core.request import IMAGES, Capabilities
from segue.core.turn import Mode
from segue.turns.attachments import ChosenAttachments, choose

VOICE = Voice("claude")
CAN = Capabilities(attachments=IMAGES)


def image(name: str, media_type: str = "image/png", size: int = 34_000) -> Attached:
    return Attached(name=name, media_type=media_type, bytes=size, id=name)


def chosen(*attached: list[Attached], mode: Mode = "replay", can: Capabilities = CAN) -> ChosenAttachments:
    """Messages with these attachments, the new one last."""
    text = [Message(id=f"m{n}", sender="user", voice=VOICE) for n in range(len(attached))]
    found = {f"m{n}": each for n, each in enumerate(attached) if each}
    return choose(text, found, can, mode=mode, label="Claude")


def test_all_are_sent_in_the_order_of_the_messages() -> None:
    made = chosen([image("a.png")], [], [image("b.png"), image("c.png")])
    assert [each.name for each in made.sent] == ["a.png", "b.png", "c.png"]
    assert made.remarks["m0"] == ("attached: a.png, file 1 of those sent with this",)
    assert made.remarks["m2"][1] == "attached: c.png, file 3 of those sent with this"
    assert made.notices == ()


@pytest.mark.parametrize(
    ("mode", "can", "why", "code"),
    [
        ("replay", Capabilities(), "Claude does not take image/png", "notice.not_taken"),
        ("recap", CAN, "only a part of the conversation is sent", "notice.part_sent"),
    ],
)
def test_what_is_not_sent_is_said(mode: Mode, can: Capabilities, why: str, code: str) -> None:
    made = chosen([image("a.png")], [], mode=mode, can=can)
    assert made.sent == ()
    assert made.remarks == {"m0": (f"attachment a.png, 34 KB, was not sent again: {why}",)}
    assert tuple(notice.text for notice in made.notices) == made.remarks["m0"]
    assert [clause.code for clause in made.notices[0].clauses] == ["notice.unsent", code]


def test_of_too_many_the_newest_are_sent() -> None:
    earlier = [[image(f"{n}.png")] for n in range(MOST_SENT + 1)]
    made = chosen(*earlier, [image("new.png")])
    assert [each.name for each in made.sent] == [*(f"{n}.png" for n in range(2, MOST_SENT + 1)), "new.png"]
    assert [notice.text.endswith("there are too many") for notice in made.notices] == [True, True]


def test_a_large_one_leaves_room_for_smaller_ones() -> None:
    made = chosen([image("old.png")], [image("large.png", size=15 << 20)], [image("new.png", size=10 << 20)])
    assert [each.name for each in made.sent] == ["old.png", "new.png"]
