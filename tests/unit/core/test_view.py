"""What one voice may know of a conversation: the wall between accounts, starting over, slices, epochs."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.situations import CLAUDE, CODEX, said, told

from segue.core.model import Message, Voice
from segue.core.view import (
    UNKNOWN,
    Identity,
    Viewer,
    consented,
    has_walls,
    hidden,
    identify,
    is_same_user,
    own_slice,
    risen,
    told_apart,
    under,
    view,
    visible,
)

REVIEWER = Voice("claude", "reviewer")
VOICES = (CLAUDE, REVIEWER, CODEX)

ACROSS = "u1@claude/work a1@claude/work u2@codex b2@codex"
"""Codex heard what was said under Claude's account ``work``."""
BOTH = f"{ACROSS} u3@claude/private a3@claude/private u4@codex b4@codex u5@claude/work"


@pytest.mark.parametrize(
    ("spoken", "voice", "account", "seen"),
    [
        ("u1 a1 u2", CLAUDE, "", "u1 a1 u2"),
        ("u1 a1 u2@codex b2@codex u3", CLAUDE, "", "u1 a1 u2 b2 u3"),
        ("u1@claude/work a1@claude/work u2@claude/private", CLAUDE, "private", "u2"),
        ("u1@claude/work a1@claude/work u2", CLAUDE, "", "u2"),
        ("u1 a1 u2@claude/work", CLAUDE, "work", "u2"),
        # Another role of the same agent stands before the same wall.
        ("u1@claude/work a1@claude/work u2@claude.reviewer/private", REVIEWER, "private", "u2"),
        ("u1@claude/work a1@claude/work u2@claude.reviewer/work", REVIEWER, "work", "u1 a1 u2"),
        # The wall stands between accounts of one agent; another agent sees over it,
        (ACROSS, CODEX, "", "u1 a1 u2 b2"),
        # but what it says then may repeat those words: its answer stays behind the wall, the question not.
        (f"{ACROSS} u3@claude/private", CLAUDE, "private", "u2 u3"),
        (f"{ACROSS} u3@gemini c3@gemini u4@claude/private", CLAUDE, "private", "u2 u3 u4"),
        (f"{ACROSS} u3@claude/work", CLAUDE, "work", "u1 a1 u2 b2 u3"),
        # Back at work: its own again, without what was said under private, by whomever.
        (BOTH, CLAUDE, "work", "u1 a1 u2 b2 u4 u5"),
        (BOTH, CLAUDE, "private", "u2 u3 a3 u4"),
        (BOTH, CODEX, "", "u1 a1 u2 b2 u3 a3 u4 b4 u5"),
        # Codex had started over in between: it knew nothing of the work account any more.
        (f"{ACROSS} u3^@codex b3@codex u4@claude/private", CLAUDE, "private", "u2 u3 b3 u4"),
    ],
)
def test_an_account_is_a_wall(spoken: str, voice: Voice, account: str, seen: str) -> None:
    messages = said(spoken)
    assert told(visible(messages, Viewer(voice, account, UNKNOWN))) == seen
    if not any(message.blank for message in messages):
        assert hidden(messages, Viewer(voice, account, UNKNOWN)) == len(messages) - len(seen.split())


MINE = "u1@claude=me a1@claude=me"
MET = f"{MINE} u2@codex b2@codex"
"""Codex heard what was said under my login of Claude."""


@pytest.mark.parametrize(
    ("spoken", "voice", "login", "seen"),
    [
        (f"{MINE} u2@claude=me", CLAUDE, "me", "u1 a1 u2"),
        (f"{MINE} u2@claude=you", CLAUDE, "you", "u2"),
        # A role that was not here before has no session that could tell.
        (f"{MINE} u2@claude.reviewer=you", REVIEWER, "you", "u2"),
        (f"{MINE} u2@claude.reviewer=me", REVIEWER, "me", "u1 a1 u2"),
        # Who cannot be told is somebody else, but the same as before.
        (f"{MINE} u2", CLAUDE, UNKNOWN, "u2"),
        ("u1 a1 u2@claude=me", CLAUDE, "me", "u2"),
        ("u1 a1 u2", CLAUDE, UNKNOWN, "u1 a1 u2"),
        # Back again, without what the other one said.
        (f"{MINE} u2@claude=you a2@claude=you u3@claude=me", CLAUDE, "me", "u1 a1 u3"),
        (f"{MET} u3@claude=you", CLAUDE, "you", "u2 u3"),
        (f"{MET} u3@claude=me", CLAUDE, "me", "u1 a1 u2 b2 u3"),
        # From before logins were told apart, and nobody was seen since: whoever asks is the first.
        ("u1@claude= a1@claude= u2@claude=me", CLAUDE, "me", "u1 a1 u2"),
        ("u1@claude/work= a1@claude/work= u2@claude=me", CLAUDE, "me", "u2"),
    ],
)
def test_a_login_is_a_wall(spoken: str, voice: Voice, login: str, seen: str) -> None:
    messages = said(spoken)
    assert told(visible(messages, Viewer(voice, "", login))) == seen
    assert hidden(messages, Viewer(voice, "", login)) == len(messages) - len(seen.split())


def test_what_is_from_before_gets_the_login_that_was_first_seen() -> None:
    first = {("claude", "work"): "me", ("codex", ""): UNKNOWN}
    marks = ("claude/work", "claude/private", "codex/", "gemini//you")
    assert told_apart(marks, lambda *who: first.get(who)) == (
        "claude/private",
        "claude/work/me",
        "codex//unknown",
        "gemini//you",
    )


@pytest.mark.parametrize(
    ("spoken", "voice", "seen"),
    [
        ("u1 a1 u2^ a2 u3", CLAUDE, "u2 a2 u3"),
        ("u1 a1 u2^ a2 u3^ a3", CLAUDE, "u3 a3"),
        ("u1 a1 u2^ a2 u3@codex", CODEX, "u1 a1 u2 a2 u3"),
        ("u1 a1 u2^ a2 u3@claude.reviewer", REVIEWER, "u1 a1 u2 a2 u3"),
        ("u1 a1 u2^@claude/work a2@claude/work u3", CLAUDE, "u1 a1 u3"),
    ],
)
def test_a_voice_starts_over_for_itself_alone(spoken: str, voice: Voice, seen: str) -> None:
    assert told(visible(said(spoken), Viewer(voice, "", UNKNOWN))) == seen


@pytest.mark.parametrize(
    ("spoken", "voice", "own"),
    [
        ("u1 a1 u2", CLAUDE, "u1 a1 u2"),
        ("u1 a1 u2@codex b2@codex u3", CLAUDE, "u3"),
        ("u1 a1 u2@codex b2@codex u3", CODEX, "u2 b2 u3"),
        ("u1 a1 u2@codex u3", CLAUDE, "u1 a1 u2 u3"),
        ("u1 a1 u2@codex b2@codex u3 a3 u4@codex", CODEX, "u4"),
        ("u1 a1 u2@claude.reviewer b2@claude.reviewer u3", CLAUDE, "u3"),
        ("u1@codex b1@codex", CLAUDE, ""),
    ],
)
def test_an_own_slice_begins_after_another_voices_answer(spoken: str, voice: Voice, own: str) -> None:
    messages = said(spoken)
    assert told(own_slice(messages, voice)) == own
    assert told(view(messages, voice, "own")) == own
    assert told(view(messages, voice, "all")) == told(messages)


def test_an_answer_names_every_account_it_may_repeat() -> None:
    heard = visible(said(BOTH), Viewer(CODEX, "", "me"))
    marks = ("claude/private/unknown", "claude/work/unknown", "codex//me", "codex//unknown")
    assert under(heard, Viewer(CODEX, "", "me")) == marks[:3]
    assert under([], Viewer(CODEX, "team", "me")) == ("codex/team/me",)


messages_said = st.builds(
    lambda sender, voice: Message(id="", sender=sender, voice=voice),
    st.sampled_from(["user", "assistant"]),
    st.sampled_from(VOICES),
)
dialogues = st.lists(messages_said, max_size=14).map(
    lambda said: [msgspec.structs.replace(each, id=f"m{at}") for at, each in enumerate(said)]
)


def slice_of(messages: list[Message], voice: Voice) -> list[str]:
    """The same rule, told forwards: each answer of somebody else starts the slice again."""
    mine: list[str] = []
    for each in messages:
        mine.append(f"{each.id}.{each.revision}")
        if each.sender == "assistant" and each.voice != voice:
            mine = []
    return mine


@given(dialogues, st.integers(0, 13), st.sampled_from(["edit", "edit --cut", "truncate", "retry", "nothing"]))
def test_an_epoch_moves_exactly_when_the_slice_changes(before: list[Message], at: int, change: str) -> None:
    after = list(before)
    if change.startswith("edit") and at < len(after):
        after[at] = msgspec.structs.replace(after[at], revision=after[at].revision + 1)
    if change in ("edit --cut", "retry"):
        after = after[: at + 1]
    if change == "truncate":
        after = after[:at]
    moved = [voice for voice in VOICES if slice_of(before, voice) != slice_of(after, voice)]
    assert risen(before, after, VOICES) == moved


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        # The content of an answer that stays the boundary changes nobody's slice but its own voice's,
        ("u1 a1 u2@codex b2@codex u3 a3", "u1 a1 u2@codex b2'@codex u3 a3", []),
        ("u1 a1 u2@codex b2@codex u3", "u1 a1 u2@codex b2'@codex u3", [CODEX]),
        # dropping it moves the beginning of a slice that never contained it.
        ("u1 a1 u2@codex b2@codex u3 a3", "u1 a1 u2@codex", [CLAUDE, CODEX]),
        ("u1 a1 u2@codex b2@codex", "u1 a1 u2@codex", [CLAUDE, CODEX]),
        ("u1 a1 u2 a2", "u1' a1 u2 a2", [CLAUDE]),
    ],
)
def test_epochs_across_agents(before: str, after: str, moved: list[Voice]) -> None:
    assert risen(said(before), said(after), [CLAUDE, CODEX]) == moved


@pytest.mark.parametrize(
    ("spoken", "voice", "account", "closed", "seen"),
    [
        (ACROSS, CODEX, "", {"work"}, "u2"),
        (f"{ACROSS} u3@gemini", Voice("gemini"), "", {"work"}, "u2 u3"),
        ("u1@claude/work a1@claude/work u2@claude/work", CLAUDE, "work", {"private"}, "u1 a1 u2"),
        ("u1@claude/work a1@claude/work u2@codex/private", CODEX, "private", {"other"}, "u1 a1 u2"),
    ],
)
def test_words_of_a_closed_account_reach_nobody(
    spoken: str, voice: Voice, account: str, closed: set[str], seen: str
) -> None:
    assert told(visible(said(spoken), Viewer(voice, account, UNKNOWN, closed.__contains__))) == seen


def test_words_carried_over_with_consent_are_no_wall_and_are_remembered() -> None:
    mine, theirs = "claude/private/unknown", "claude/work/unknown"
    block = msgspec.structs.replace(
        said("u1@claude/private")[0], under=(consented(theirs), mine), kind="carried"
    )
    viewer = Viewer(CLAUDE, "private", UNKNOWN)
    assert visible([block], viewer) == [block]
    assert visible([block], viewer._replace(closed={"work"}.__contains__)) == []
    assert under([block], viewer) == (consented(theirs), mine)
    assert consented(consented(theirs)) == consented(theirs)
    assert not has_walls([consented(theirs), mine])


ANN, BOB = "a" * 16, "b" * 16


@pytest.mark.parametrize(
    ("known", "login", "route", "mark"),
    [
        ([], ANN, "", ANN),
        ([], ANN, "r1", ANN),
        ([], None, None, UNKNOWN),
        ([Identity(ANN, "", ANN)], ANN, "r1", f"{ANN}+r1"),
        ([Identity(ANN, "r1", ANN)], ANN, "r1", ANN),
        ([Identity(ANN, "r1", ANN)], ANN, "", f"{ANN}+"),
        ([Identity(ANN, "r1", ANN)], BOB, "r1", BOB),
        ([Identity(ANN, "r1", ANN)], BOB, "", BOB),
        ([Identity(ANN, "r1", ANN)], UNKNOWN, "r1", UNKNOWN),
        ([Identity(BOB, "", BOB), Identity(ANN, "", ANN)], None, "", BOB),
        ([Identity(ANN, "r2", "x"), Identity(ANN, "r1", ANN)], None, None, "x"),
        ([Identity(ANN, "r2", "x"), Identity(ANN, "r1", ANN)], ANN, None, "x"),
        ([Identity(ANN, "r2", "x"), Identity(ANN, "r1", ANN)], ANN, "r1", ANN),
    ],
)
def test_who_answers(known: list[Identity], login: str | None, route: str | None, mark: str) -> None:
    routes = () if route is None else (route,)
    assert identify(known, login, routes, lambda one, two: f"{one}+{two}").mark == mark


def carried(under: str) -> Message:
    """A block that was carried over to claude/home."""
    marks = tuple(sorted({f"claude/home/{BOB}", *under.split()}))
    return Message(id="c", sender="user", voice=CLAUDE, account="home", under=marks, kind="carried")


def test_what_was_carried_over_is_not_behind_the_wall_any_more() -> None:
    def spoken(name: str, under: str) -> Message:
        return Message(id=name, sender="user", voice=CLAUDE, account="work", under=tuple(under.split()))

    ann, old = f"claude/work/{ANN}", f"claude/old/{ANN}"
    first, second, later = spoken("u1", old), spoken("u2", ann), spoken("u3", ann)
    behind = [
        hidden(messages, Viewer(CLAUDE, "home", BOB))
        for messages in (
            [first, second],
            [first, second, carried(consented(ann))],
            [first, second, carried(f"{consented(ann)} {consented(old)}")],
            [first, second, carried(f"{consented(ann)} {consented(old)}"), later],
        )
    ]
    assert behind == [2, 1, 0, 1]
    assert hidden([second, carried(consented(ann))], Viewer(CLAUDE, "other", BOB)) == 2, "it was not for them"


WORK, OLD, HOME = f"claude/work/{ANN}", f"claude/old/{ANN}", f"claude/home/{BOB}"


@pytest.mark.parametrize(
    ("marks", "viewer", "seen"),
    [
        ("+WORK", Viewer(CLAUDE, "home", BOB), "x c h"),
        ("+WORK", Viewer(REVIEWER, "home", BOB), "x c h"),
        ("+WORK", Viewer(CODEX, "", UNKNOWN), "w o x h"),
        ("+WORK +OLD +X", Viewer(CODEX, "", UNKNOWN), "w o x h"),
        ("+WORK +OLD", Viewer(CODEX, "", UNKNOWN, {"old"}.__contains__), "w x h"),
        ("+WORK", Viewer(CODEX, "", UNKNOWN, {"old"}.__contains__), "w x h"),
        ("+WORK", Viewer(CODEX, "", UNKNOWN, {"work"}.__contains__), "o x h"),
        ("+WORK", Viewer(CODEX, "", UNKNOWN, {"home"}.__contains__), "w o x"),
        ("+WORK", Viewer(CLAUDE, "work", ANN), "w x"),
        ("+WORK +HOME", Viewer(CLAUDE, "home", BOB), "x c h"),
        ("+X", Viewer(CLAUDE, "work", ANN), "w x"),
    ],
)
def test_the_original_is_seen_or_the_block_and_never_both(marks: str, viewer: Viewer, seen: str) -> None:
    """``w``, ``o`` and ``x`` are the originals, ``c`` is the block for claude/home, and ``h`` its answer."""
    names = {"w": WORK, "o": OLD, "x": "gemini/x/x", "h": HOME}
    for name, mark in (("WORK", WORK), ("OLD", OLD), ("HOME", HOME), ("X", "gemini/x/x")):
        marks = marks.replace(name, mark)

    def spoken(name: str) -> Message:
        return Message(id=name, sender="user", voice=CLAUDE, under=(names[name],))

    messages = [*map(spoken, "wox"), carried(marks), spoken("h")]
    assert told(visible(messages, viewer)) == seen


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ((ANN, "."), (ANN, "r."), True),
        ((ANN, "."), (BOB, "."), False),
        ((UNKNOWN, "."), (UNKNOWN, "."), False),
        ((UNKNOWN, ".k"), (ANN, "r.k"), True),
        ((ANN, ".k"), (ANN, ".l"), False),
        ((ANN, ".k"), (ANN, "."), False),
    ],
)
def test_two_accounts_are_one_users(one: tuple[str, str], other: tuple[str, str], same: bool) -> None:
    assert is_same_user(Identity(*one, "x"), Identity(*other, "y")) is same


@pytest.mark.parametrize(
    ("known", "found"),
    [
        ([Identity(ANN, "r", ANN)], Identity(ANN, "r.k2", ANN)),
        ([Identity(ANN, "r.k1", ANN)], Identity(ANN, "r.k2", f"{ANN}+r.k2")),
        ([Identity(ANN, "r", ANN), Identity(ANN, "r.k2", "x")], Identity(ANN, "r.k2", "x")),
        ([Identity(BOB, "r", BOB)], Identity(ANN, "r.k2", ANN)),
    ],
)
def test_what_was_recorded_under_an_earlier_form_of_the_route(known: list[Identity], found: Identity) -> None:
    assert identify(known, ANN, ("r.k2", "r"), lambda one, two: f"{one}+{two}") == found
