"""The checker of histories: it is content with a good one, and finds each way to be wrong."""

from __future__ import annotations

import msgspec
import pytest

from tests.history import History, Kept, KeptFlow, Note, Spell, Work, violations

NOTES = [
    Note("ann", "sent", "t", "m1"),
    Note("ann", "acknowledged", "t", "m1", "r1"),
    Note("bob", "sent", "t", "m2"),
    Note("bob", "acknowledged", "t", "m2", "r2"),
    Note("ann", "answered", "t", "m1", "a1"),
    Note("ann", "sent", "t", "m3"),
    Note("ann", "started", "f"),
    Note("ann", "step", "f", "coder/1", "r9"),
    Note("ann", "ended", "f", value="approved"),
]
KEPT = [Kept("t", "m1", "r1", "a1"), Kept("t", "m2", "r2", "a2"), Kept("t", "m3", "r3", "a3")]
FLOW = KeptFlow("f", "approved", {"coder/1": "r9"})
SPELLS = [Spell("s", 11, 1, 4), Spell("s", 12, 5, 9), Spell("other", 13, 1, 9)]
WORK = Work(("m1", "m2", "m3"), ("m1", "m2", "m3"), SPELLS)


def test_a_good_history_has_no_violations() -> None:
    assert violations(NOTES, KEPT, WORK, [FLOW]) == []


def test_what_was_sent_and_never_acknowledged_may_be_missing() -> None:
    assert violations(NOTES, KEPT[:2], WORK, [FLOW]) == []


def test_a_failure_that_is_told_is_not_lost_unless_an_agent_has_answered() -> None:
    kept = [KEPT[0], Kept("t", "m2", "r2", None, "killed"), KEPT[2]]
    work = msgspec.structs.replace(WORK, answers=("m1", "m3"))
    assert violations(NOTES, kept, work, [FLOW]) == []
    assert violations(NOTES, kept, WORK, [FLOW]) == ["m2 failed (killed), and an agent answered it"]


def test_others_may_come_between_the_messages_of_a_client() -> None:
    later = [*NOTES, Note("bob", "sent", "t", "m4")]
    assert violations(later, [KEPT[1], Kept("t", "m4", "r4", None), KEPT[0], KEPT[2]], WORK, [FLOW]) == []


@pytest.mark.parametrize(
    ("kept", "words"),
    [
        (KEPT[1:], "m1 was acknowledged to ann, and is not stored"),
        ([*KEPT, KEPT[0]], "m1 is stored 2 times in t"),
        ([*KEPT, Kept("t", "m9", "r9", None)], "m9 is stored in t, and nobody sent it"),
        ([Kept("t", "m1", "r7", "a1"), *KEPT[1:]], "m1 was acknowledged as the run r1, and is stored as r7"),
        ([KEPT[0], Kept("t", "m2", "r2", None), KEPT[2]], "m2 was acknowledged to bob, and was never"),
        ([Kept("t", "m1", "r1", "x"), *KEPT[1:]], "ann was told 'a1' for m1, and stored is ['x']"),
        ([KEPT[2], *KEPT[:2]], "ann sent m3 after m1, and it comes before it"),
    ],
)
def test_messages(kept: list[Kept], words: str) -> None:
    assert words in " ".join(violations(NOTES, kept, WORK, [FLOW]))


@pytest.mark.parametrize(
    ("flows", "words"),
    [
        ([], "the flow f was known to ann, and is not stored"),
        ([KeptFlow("f", None, FLOW.steps)], "the flow f has no end"),
        ([KeptFlow("f", "capped", FLOW.steps)], "told that f ended as approved, stored is capped"),
        ([KeptFlow("f", "approved", {"coder/1": "r8"})], "coder/1 of f was finished as r9, and is now r8"),
        ([KeptFlow("f", "approved")], "coder/1 of f was finished as r9, and is now None"),
    ],
)
def test_flows(flows: list[KeptFlow], words: str) -> None:
    assert words in " ".join(violations(NOTES, KEPT, WORK, flows))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"answers": ("m1", "m2", "m3", "m1")}, "the agents answered m1 2 times"),
        ({"answers": ("m1", "m2")}, "m3 has an answer, and no agent gave one"),
        ({"effects": ("m2", "m2")}, "the work for m2 was done 2 times"),
        ({"spells": (Spell("s", 1, 1, 5), Spell("s", 2, 5, 9))}, "1 and 2 wrote to the session s at once"),
        ({"spells": (Spell("s", 1, 1, 9), Spell("s", 2, 4, 5))}, "1 and 2 wrote to the session s at once"),
    ],
)
def test_work(changed: dict[str, object], words: str) -> None:
    assert [
        words in each for each in violations(NOTES, KEPT, msgspec.structs.replace(WORK, **changed), [FLOW])
    ] == [True]


def test_notes_are_kept_in_their_order() -> None:
    history = History()
    for note in NOTES:
        history.note(note.client, note.what, note.place, note.mark, note.value)
    assert history.notes == NOTES
