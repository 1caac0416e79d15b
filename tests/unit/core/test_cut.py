"""What a session embodies, where it parts from the view, and what is left to be sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.core.situations import CLAUDE, held, said, shown, told

from segue.core.cut import Cut, HeldIndex, ViewIndex, cut, embody
from segue.core.model import Held, History, Message
from segue.core.view import UNKNOWN, Viewer, view, visible


def parted(holds: str, spoken: str, history: History = "all") -> Cut:
    """For Claude, without an account."""
    seen = visible(said(spoken), Viewer(CLAUDE, "", UNKNOWN))
    return cut(HeldIndex(held(holds)), ViewIndex(view(seen, CLAUDE, history)), history, ViewIndex(seen))


CUTS = [
    # holds, the conversation now, rows kept, the session's end?, sent as text, corrections
    ("", "u1", 0, False, "u1", ""),
    ("u1 a1!", "u1 a1 u2", 2, True, "u2", ""),
    ("u1 a1!", "u1 a1 u2@codex b2@codex u3", 2, True, "u2 b2 u3", ""),
    # Messages that nobody answered are still to be sent.
    ("u1 a1!", "u1 a1 u2 u3 u4", 2, True, "u2 u3 u4", ""),
    # Truncated, retried, edited and cut: the last anchor before it, and all that follows as text.
    ("u1 a1! u2 a2!", "u1 a1 u3", 2, False, "u3", ""),
    ("u1 a1! u2 a2!", "u1 a1 u2", 2, False, "u2", ""),
    ("u1 a1! u2 a2!", "u1 a1 u2' u3", 2, False, "u2' u3", ""),
    ("u1 a1! u2 a2! u3 a3!", "u1 a1 u2' a2 u3 a3 u4", 2, False, "u2' a2 u3 a3 u4", ""),
    ("u1 a1! u2 a2! u3 a3!", "u1 a1 u2 a2' u3 a3 u4", 2, False, "u2 a2' u3 a3 u4", ""),
    ("u1 a1! u2 a2!", "u1' a1 u2 a2 u3", 0, False, "u1' a1 u2 a2 u3", ""),
    ("u1 a1! u2 a2!", "u1'", 0, False, "u1'", ""),
    # What came in as one text has an anchor only at its end.
    ("u1 a1 u2 a2!", "u1 a1 u2' a2 u3", 0, False, "u1 a1 u2' a2 u3", ""),
    ("u1 a1 u2 a2! u3 a3!", "u1 a1 u2 a2 u4", 4, False, "u4", ""),
    # An answer whose end could not be told.
    ("u1 a1! u2 a2", "u1 a1 u2 a2 u3", 2, False, "u2 a2 u3", ""),
    ("u1 a1", "u1 a1 u2", 0, False, "u1 a1 u2", ""),
    # Interrupted after tools ran: it is held; and run again, nothing of it is sent a second time.
    ("u1 a1! u2!", "u1 a1 u2 u3", 3, True, "u3", ""),
    ("u1 a1! u2!", "u1 a1 u2", 3, True, "", ""),
    ("u1 a1! u2! u3 a3!", "u1 a1 u2", 3, False, "", ""),
    ("u1 a1! u2!", "u1 a1 u2'", 2, False, "u2'", ""),
    # Second-hand words that were edited stand, with a correction,
    ("u1 a1! u2~ b2~ u3 a3!", "u1 a1 u2@codex b2'@codex u3 a3 u4", 6, True, "u4", "b2'"),
    ("u1 a1! u2~ b2~ u3 a3!", "u1 a1 u2'@codex b2'@codex u3 a3 u4", 6, True, "u4", "u2' b2'"),
    # once,
    ("u1 a1! u2~ b2~ u3 a3! b2'+ u4 a4!", "u1 a1 u2@codex b2'@codex u3 a3 u4 a4 u5", 9, True, "u5", ""),
    # and again after the next edit, or when the turn that carried it was cut off.
    ("u1 a1! u2~ b2~ u3 a3! b2'+ u4 a4!", "u1 a1 u2@codex b2''@codex u3 a3 u4 a4 u5", 9, True, "u5", "b2''"),
    ("u1 a1! u2~ b2~ u3 a3! b2'+ u4 a4!", "u1 a1 u2@codex b2'@codex u3 a3 u4", 6, False, "u4", "b2'"),
    ("u1~ b1~ u2 a2! b1'+ u3 a3! b1''+ u4 a4!", "u1@codex b1''@codex u2 a2 u3 a3 u4", 7, False, "u4", "b1''"),
    (
        "u1~ b1~ u2 a2! b1'+ u3 a3! b1''+ u4 a4!",
        "u1@codex b1''@codex u2 a2 u3 a3 u4 a4 u5",
        10,
        True,
        "u5",
        "",
    ),
    # A correction is for what is kept: what lies behind the cut is sent as it reads now.
    ("u1 a1! u2~ b2~ u3 a3!", "u1 a1 u2@codex b2'@codex u3' a3 u4", 2, False, "u2 b2' u3' a3 u4", ""),
    # Second-hand words that are gone do not stand.
    ("u1 a1! u2~ b2~ u3 a3!", "u1 a1 u2@codex u4", 2, False, "u2 u4", ""),
    # Started over: nothing of what is held is in the view.
    ("u1 a1!", "u1 a1 u2^", 0, False, "u2", ""),
    ("u1 a1!", "u1 a1 u2^ u3", 0, False, "u2 u3", ""),
    ("u2 a2!", "u1 a1 u2^ a2 u3", 2, True, "u3", ""),
]


@pytest.mark.parametrize(("holds", "spoken", "rows", "whole", "text", "corrections"), CUTS)
def test_the_cut(holds: str, spoken: str, rows: int, whole: bool, text: str, corrections: str) -> None:
    found = parted(holds, spoken)
    assert (found.rows, found.whole) == (rows, whole)
    assert told(found.text) == text
    assert told(found.corrections) == corrections
    kept = held(holds)[:rows]
    assert found.anchor == (kept[-1].anchor if kept else None)
    assert found.kept == sum(not row.correction for row in kept)


@pytest.mark.parametrize(
    ("holds", "spoken", "broken"),
    [
        ("u1 a1!", "u1 a1 u2", None),
        ("u1 a1! u2 a2!", "u1 a1 u2'", "u2"),
        ("u1 a1! u2 a2!", "u1 a1 u2", "a2"),
        ("u1 a1! u2 a2!", "u1 a1 u3", "u2"),
        ("u1 a1! u2~ b2~ u3 a3!", "u1 a1 u2@codex b2'@codex u3' a3 u4", "u3"),
        ("u1 a1 u2 a2", "u1 a1 u2 a2 u3", None),
    ],
)
def test_the_first_delivery_that_does_not_stand_is_named(holds: str, spoken: str, broken: str | None) -> None:
    found = parted(holds, spoken).broken
    assert (found.message if found else None) == broken


@pytest.mark.parametrize(
    ("holds", "spoken", "rows", "whole", "text"),
    [
        # Claude → Codex → Claude: Claude still has its own words, and hears only the new message.
        ("u1 a1!", "u1 a1 u2@codex b2@codex u3", 2, True, "u3"),
        ("u1 a1! u3 a3!", "u1 a1 u2@codex b2@codex u3 a3 u4", 4, True, "u4"),
        ("u1 a1! u3 a3!", "u1 a1 u2@codex b2@codex u3 a3 u4@codex b4@codex u5", 4, True, "u5"),
        # What it holds from before is judged by what stands, not by the slice.
        ("u1 a1! u3 a3!", "u1' a1 u2@codex b2@codex u3 a3 u4", 0, False, "u3 a3 u4"),
        ("u1 a1! u3 a3!", "u1 a1 u2@codex b2@codex u3' a3 u4", 2, False, "u3' a3 u4"),
        ("u1 a1! u3 a3!", "u1 a1 u2@codex b2@codex u3", 2, False, "u3"),
        ("u1 a1! u3 a3!", "u1 a1 u2@codex u4", 2, False, "u2 u4"),
        # The edit of another voice's words is none of its business,
        ("u1 a1! u3 a3!", "u1 a1 u2@codex b2'@codex u3 a3 u4", 4, True, "u4"),
        # and a failed message from before another voice spoke is not in its slice any more.
        ("u1 a1!", "u1 a1 u2 u3@codex b3@codex u4", 2, True, "u4"),
        # It heard everything before: that stands as well, unless it is gone.
        ("u1 a1! u2~ b2~ u3 a3!", "u1 a1 u2@codex u4", 2, False, "u2 u4"),
        ("u1 a1! u2~ b2~ u3 a3!", "u1 a1 u2@codex b2@codex u3 a3 u4", 6, True, "u4"),
    ],
)
def test_the_cut_of_a_voice_that_hears_only_its_own(
    holds: str, spoken: str, rows: int, whole: bool, text: str
) -> None:
    found = parted(holds, spoken, "own")
    assert (found.rows, found.whole, told(found.text)) == (rows, whole, text)


def test_a_voice_that_heard_others_before_is_corrected_though_it_hears_only_its_own_now() -> None:
    found = parted("u1 a1! u2~ b2~ u3 a3!", "u1 a1 u2@codex b2'@codex u3 a3 u4", "own")
    assert (found.whole, told(found.text), told(found.corrections)) == (True, "u4", "b2'")


def test_who_shall_hear_everything_again_goes_on_from_before_what_it_never_heard() -> None:
    found = parted("u1 a1! u3 a3!", "u1 a1 u2@codex b2@codex u3 a3 u4")
    assert (found.rows, found.whole, told(found.text)) == (2, False, "u2 b2 u3 a3 u4")


@pytest.mark.parametrize(
    ("kept", "text", "corrections", "answer", "after"),
    [
        ("", "u1", "", "a1", "u1 a1!"),
        ("", "u1 a1 u2@codex b2@codex u3", "", "a3", "u1 a1 u2~ b2~ u3 a3!"),
        ("u1 a1!", "u2", "", "a2", "u1 a1! u2 a2!"),
        ("u1 a1!", "u2@codex b2'@codex u3", "", "a3", "u1 a1! u2~ b2'~ u3 a3!"),
        ("u1~ b1~ u2 a2!", "u3", "b1'@codex", "a3", "u1~ b1~ u2 a2! b1'+ u3 a3!"),
        # Tools ran, then it was interrupted.
        ("", "u1", "", None, "u1!"),
        ("u1 a1!", "u2@codex u3", "", None, "u1 a1! u2~ u3!"),
        # The same message run again: to its answer, or into the next interruption.
        ("u1 a1! u2!", "", "", "a2", "u1 a1! u2! a2!"),
        ("u1~ b1~ u2!", "", "b1'@codex", "a2", "u1~ b1~ u2! b1'+ a2!"),
        ("u1~ b1~ u2!", "", "b1'@codex", None, "u1~ b1~ b1'+ u2!"),
    ],
)
def test_what_a_session_holds_after_a_turn(
    kept: str, text: str, corrections: str, answer: str | None, after: str
) -> None:
    rows = embody(
        held(kept),
        said(text),
        said(corrections),
        CLAUDE,
        answer=(answer, 1) if answer else None,
        anchor="the end",
    )
    assert shown(rows) == after
    assert rows[-1].anchor == "the end"
    assert [row.anchor for row in rows].count("the end") == 1


@st.composite
def sessions(draw: st.DrawFn) -> tuple[list[Message], list[Held]]:
    """A view, and a session that holds some of it: edited, gapped, corrected, with and without anchors."""
    revisions = draw(st.lists(st.sampled_from([1, 1, 1, 2]), min_size=1, max_size=20))
    seen = [
        Message(id=f"m{at}", sender="user", voice=CLAUDE, revision=revision)
        for at, revision in enumerate(revisions)
    ]
    rows: list[Held] = []
    for each in seen[: draw(st.integers(0, len(seen)))]:
        kind = draw(st.sampled_from(["plain", "plain", "anchored", "anchored", "second-hand", "missed"]))
        if kind != "missed":
            rows.append(Held(each.id, 1, "@" if kind == "anchored" else None, kind == "second-hand"))
        if kind == "second-hand" and draw(st.booleans()):
            rows.append(Held(each.id, 2, None, True, True))
    return seen, rows


@given(sessions(), st.sampled_from(["all", "own"]))
def test_what_is_kept_and_what_is_sent_are_the_view(
    session: tuple[list[Message], list[Held]], history: History
) -> None:
    seen, rows = session
    found = cut(HeldIndex(rows), ViewIndex(seen), history, ViewIndex(seen))
    kept = rows[: found.rows]
    native = [row for row in kept if not row.correction]
    told_once = [*(row.message for row in native), *(each.id for each in found.text)]
    assert sorted(told_once) == sorted(each.id for each in seen)
    assert found.whole == (0 < found.rows == len(rows))
    last = {row.message: row.revision for row in kept} | {
        each.id: each.revision for each in found.corrections
    }
    assert all(last.get(each.id, each.revision) == each.revision for each in seen)
