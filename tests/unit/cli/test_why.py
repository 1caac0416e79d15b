"""A decision in words: every rung, every check, and what to do about each that failed."""

from __future__ import annotations

from typing import Any

import pytest

from segue.cli.render import why as reasons
from segue.cli.render.output import BOLD, harmless
from segue.cli.render.why import advice
from segue.core.checks import CHECKS, FAILED_PROMPT, OTHER_ACCOUNT
from segue.core.turn import Check, RungShown
from segue.turns.why import Sends, Why

NAMES = [check.__name__ for check in CHECKS]
ALL = ("resume", "branch", "graft", "replay", "recap", "fresh")


def why(*, chosen: str = "resume", barred: str = "", **fields: Any) -> Why:
    """All below the chosen rung are open, all above it barred."""
    at = ALL.index(chosen)
    states = ["barred"] * at + ["chosen"] + ["open"] * (5 - at)
    rungs = [
        RungShown(mode, state, barred if state == "barred" else "", 1_100, 11_800, 0.004)  # type: ignore[arg-type]
        for mode, state in zip(ALL, states, strict=True)
    ]
    rungs[2] = RungShown("graft", "impossible", "off")
    made: dict[str, Any] = {
        "conversation": "fix-auth",
        "agent": "claude",
        "account": None,
        "model": None,
        "role": None,
        "mode": chosen,
        "sends": Sends(4, 1, 10, 3),
        "rungs": tuple(rungs),
        "checks": tuple(Check(name, "pass") for name in NAMES),
        "epoch": 0,
        "cwd": "/home/me/other",
        "session_id": "s",
        "session_cwd": "/home/me/app",
    }
    return Why(**made | fields)


def shown(found: Why, **options: Any) -> list[str]:
    return list(reasons.why_lines(found, **options))


def failing(name: str, detail: str, *bars: str) -> tuple[Check, ...]:
    return tuple(Check(each, "fail", bars, detail) if each == name else Check(each, "pass") for each in NAMES)  # type: ignore[arg-type]


def test_a_resume() -> None:
    lines = shown(why())
    left, right = "fix-auth · claude · next turn: resume", "sends the new message, ~3 tokens, ~$0.004"
    assert lines[0] == left + right.rjust(100 - len(left))
    way, cost = "▸ resume  ✓ its own session, plus what is new", "~1.1k new, 11.8k cached, ~$0.004"
    assert lines[2] == way + cost.rjust(100 - len(way))
    assert lines[3].startswith("  branch  · also possible ")
    assert lines[4].startswith("  replay  · also possible: the whole conversation as text")
    assert lines[6].startswith("  fresh   · would forget everything")
    assert lines[8].startswith("checks  ✓ blank  ✓ enabled  ✓ capability  ✓ fresh-session  ✓ pin")


def test_a_replay_says_why_not_a_resume_and_what_that_would_have_been() -> None:
    detail = "the session belongs to /home/me/app, this is /home/me/other"
    found = why(
        chosen="replay",
        barred=detail,
        sends=Sends(0, 39, 73_500, 21_000),
        checks=failing("workdir", detail, "resume", "branch"),
    )
    lines = shown(found, home="/home/me")
    assert "sends 38 earlier messages, ~21k tokens" in lines[0]
    assert lines[2].startswith("  resume  ✗ the session belongs to ~/app, this is ~/other")
    assert lines[2].endswith("would have been ~$0.004")
    assert len(lines[2]) == 100
    assert lines[3].startswith("  branch  ✗ the same")
    assert lines[4].startswith("▸ replay  ✓ the whole conversation as text")
    assert lines[-2:] == [
        "  ✗ workdir: the session belongs to ~/app, this is ~/other",
        "    → run it in ~/app (--cwd) to keep the session",
    ]


def test_a_first_turn() -> None:
    rungs = tuple(RungShown(mode, "impossible", "nothing was said before") for mode in ALL[:-1])  # type: ignore[arg-type]
    found = why(chosen="fresh", rungs=(*rungs, RungShown("fresh", "chosen")), sends=Sends(0, 1, 0, 0))
    lines = shown(found)
    assert lines[0].endswith("sends the new message")
    assert lines[6] == "▸ fresh   ✓ a new session, with the new message only"


def test_corrections_and_parts_are_said() -> None:
    assert "sends 2 earlier messages and 1 correction" in shown(why(sends=Sends(4, 3, 10, 3, 1)))[0]
    recap = why(chosen="recap", sends=Sends(0, 100, 24_000, 6_857))
    assert "sends a part of 99 earlier messages" in " ".join(shown(recap)[:2])


@pytest.mark.parametrize(("state", "seen"), [("impossible", 0), ("barred", 0), ("open", 1), ("chosen", 1)])
def test_a_graft_is_shown_only_where_there_can_be_one(state: str, seen: int) -> None:
    found = why(rungs=(RungShown("graft", state, "off" if not seen else ""), RungShown("fresh", "open")))
    assert sum("graft" in line for line in shown(found)) == seen


def test_a_heading_that_does_not_fit_is_broken_between_its_parts() -> None:
    found = why(role="reviewer-of-the-changes", account="work")
    assert shown(found, width=80)[:3] == [
        "fix-auth · claude, reviewer-of-the-changes (work) · next turn: resume",
        "  sends the new message, ~3 tokens, ~$0.004",
        "",
    ]
    assert shown(found, width=60)[:4] == [
        "fix-auth · claude, reviewer-of-the-changes (work)",
        "  next turn: resume",
        "  sends the new message, ~3 tokens, ~$0.004",
        "",
    ]


def test_a_path_that_is_too_long_stays_whole() -> None:
    path = "/srv/" + "x" * 90
    found = why(chosen="replay", barred=f"the session belongs to {path}, this is another directory")
    lines = shown(found, width=80)
    assert sum(path in line for line in lines) == 1
    assert sum("would have been" in line for line in lines) == 2


def test_who_answers() -> None:
    assert shown(why(role="coder", account="work"))[0].startswith("fix-auth · claude, coder (work) · next")


def test_figures_stand_behind_their_check_and_other_details_below() -> None:
    checks = (
        Check("pressure", "pass", (), "31% of 200k"),
        Check("history", "pass", (), "the session holds 4"),
    )
    lines = shown(why(checks=checks))
    assert lines[-2:] == ["checks  ✓ pressure 31% of 200k  ✓ history", "  ✓ history: the session holds 4"]


@pytest.mark.parametrize("width", [200, 100, 80, 60, 50])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    detail = "the session belongs to /some/rather/long/directory/name, this is /another/directory"
    found = why(chosen="replay", barred=detail, checks=failing("workdir", detail, "resume", "branch"))
    lines = shown(found, width=width)
    assert max(map(len, lines)) <= width
    assert "\u00a0" not in "".join(lines)
    words = " ".join(" ".join(lines).split())
    assert words.count("✓") >= 20, "no check was lost"


def test_colour_is_only_added_where_wanted() -> None:
    plain, coloured = shown(why()), shown(why(), colour=True)
    assert [harmless(line) for line in coloured] == plain
    assert coloured[2].startswith(f"{BOLD}▸ resume")


@pytest.mark.parametrize("name", NAMES)
def test_every_check_that_fails_has_its_advice(name: str) -> None:
    for bars in ((), ("resume",), ("resume", "branch")):
        said = advice(Check(name, "fail", bars, "some reason"), why())
        assert said
        assert said[0].islower()
        assert not said.endswith(".")
        lines = shown(why(checks=failing(name, "some reason", *bars)))
        assert f"    → {said}" in "\n".join(lines).replace("\n      ", " ")


@pytest.mark.parametrize(
    ("check", "says"),
    [
        (
            Check("account", "fail", (), "another login is active than when the session was made"),
            "log in as before",
        ),
        (Check("account", "fail", (), f"3 messages {OTHER_ACCOUNT} are not carried over"), "--account"),
        (
            Check("end", "fail", ("resume",), "somebody else has continued the session"),
            "where Segue left it",
        ),
        (
            Check("end", "fail", ("resume",), FAILED_PROMPT),
            "sends the message again",
        ),
        (Check("capability", "fail", ("branch",), "cannot"), "sent as text"),
        (Check("capability", "fail", ("resume", "branch"), "cannot"), "segue agents"),
        (Check("busy", "fail", (), "another turn"), "--fork"),
    ],
)
def test_advice(check: Check, says: str) -> None:
    assert says in advice(check, why())
