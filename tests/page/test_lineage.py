"""The lineage of a conversation: the picture beside the dialogue, the large one, and the chains."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, Route, expect

from tests.integration.server.conftest import Daemon
from tests.page.conftest import picture
from tests.page.tools import AXE

HOSTILE = '<img src=x onerror="document.title=1">\x1b[31m\u202eevil'


def turn(run: str, **more: Any) -> dict[str, Any]:
    return {
        "run": run,
        "message": f"m-{run}",
        "agent": "claude",
        "role": None,
        "mode": "resume",
        "state": "done",
        "created": 1_794_000_000_000,
        "session": None,
        "parents": [],
        "n": None,
        "model": "sonnet",
        "account": None,
        "cost_usd": 0.01,
        "cost_estimated": False,
        "duration_ms": 1000,
        "retry_of": None,
        "stands": True,
        **more,
    }


def came(
    kind: str, run: str | None, session: str | None = None, conversation: str | None = "c"
) -> dict[str, Any]:
    return {"kind": kind, "run": run, "conversation": conversation, "session": session}


def lineage(*turns: dict[str, Any], children: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {"turns": list(turns), "children": children or []}


def module(page: Page, name: str, call: str, *values: Any) -> Any:
    """Call a function of a module of the page."""
    source = page.locator("script[type=module]").get_attribute("src")
    assert source is not None
    path = source.replace("main.js", name)
    return page.evaluate(
        f"async ([path, values]) => (await import(path)).{call}(...values)", [path, list(values)]
    )


def told(page: Page, of: dict[str, Any], key: str = "c") -> None:
    """Answer as a daemon would that has this lineage."""

    def answer(route: Route) -> None:
        route.fulfill(json=of)

    page.route(f"**/conversations/{quote(key, safe='')}/lineage", answer)


def open_(page: Page, daemon: Daemon, *parts: str) -> None:
    page.goto(f"{daemon.url}/#/" + "/".join(quote(part, safe="") for part in parts))


def serious(page: Page) -> list[Any]:
    """What axe-core finds in what is shown now."""
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate(
        "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})"
    )
    return [(each["id"], [node["html"][:200] for node in each["nodes"]][:3]) for each in found["violations"]]


STORY = lineage(
    turn("r1", mode="fresh", n=1),
    turn("r2", n=3, session="s1", parents=[came("resume", "r1", "s1")]),
    turn("r3", n=5, agent="codex", mode="replay"),
    turn("r4", message="m-7", session="s1", parents=[came("resume", "r2", "s1")], stands=False),
    turn("r5", message="m-7", mode="branch", n=7, session="s2", parents=[came("branch", "r2", "s1")]),
    turn("r6", n=9, session="s2", parents=[came("resume", "r5", "s2")]),
    turn("r7", n=11, agent="codex", session="x1", parents=[came("resume", "r3", "x1")]),
    turn("r8", n=13, state="running", cost_usd=None, duration_ms=None, stands=False),
    children=[{"kind": "fork", "run": "f1", "conversation": "other", "parent": "r2"}],
)


@pytest.fixture
def story(daemon: Daemon) -> str:
    """A conversation with every kind of turn."""
    segue, key = daemon.segue, "app"
    coder = ("--role", "coder")
    for said in ("remember number 456", "and 457"):
        assert segue("run", key, said, *coder).code == 0
    assert segue("run", key, "is that right?", "--role", "reviewer").code == 0
    assert segue("run", key, "then correct it", *coder).code == 0
    assert segue("retry", key, "#7").code == 0
    assert segue("run", key, "go on", *coder).code == 0
    assert segue("run", key, "start over", "--fresh-session", *coder).code == 0
    assert segue("fork", key, "app/two").code == 0
    assert segue("run", "app/two", "another way", *coder).code == 0
    assert segue("run", key, "[[error 400]]", "--retries", "0", *coder).code != 0
    return key


def test_rows_lanes_and_edges(page: Page) -> None:
    found = module(page, "lineage-graph.js", "graph", STORY, "c", None)
    rows = {row["id"]: row["lane"] for row in found["rows"]}
    assert list(rows) == ["r1", "r2", "into fork other", "r3", "r4", "r5", "r6", "r7", "r8"]
    assert {rows[run] for run in ("r1", "r2", "r5", "r6", "r8")} == {
        0
    }  # what stands, and what goes on from it
    assert rows["r3"] == rows["r7"] != 0  # another agent has a lane of its own
    assert rows["r4"] not in (0, rows["r3"])  # what was set aside leaves it
    ids = list(rows)
    lines = {(ids[each["from"]], ids[each["to"]]): each["dash"] for each in found["lines"]}
    assert lines == {
        ("r1", "r2"): False,
        ("r2", "into fork other"): False,
        ("r2", "r3"): True,  # as text: what stood before
        ("r2", "r4"): False,
        ("r2", "r5"): False,
        ("r5", "r6"): False,
        ("r3", "r7"): False,
        (
            "r6",
            "r8",
        ): False,  # it runs: nothing is recorded yet, but a session is always that of the same agent
    }


def test_what_waits_stands_below_its_agent(page: Page) -> None:
    waits = {"mode": None, "stands": False}
    more = {
        **STORY,
        "turns": [
            *STORY["turns"],
            turn("z1", state="queued", **waits),
            turn("z2", state="withdrawn", **waits),
        ],
    }
    found = module(page, "lineage-graph.js", "graph", more, "c", None)
    assert [row["lane"] for row in found["rows"][-2:]] == [0, 0]
    assert max(line["to"] for line in found["lines"]) == len(found["rows"]) - 3  # nothing is carried yet


def test_where_it_came_from_is_an_end(page: Page) -> None:
    forked = lineage(turn("r1", parents=[came("fork", "p9", "s9", "parent")]), turn("r2", mode="replay"))
    rows = module(page, "lineage-graph.js", "graph", forked, "c", "parent")["rows"]
    assert [row["id"] for row in rows] == ["from parent", "r1", "r2"]
    adopted = lineage(turn("r1", parents=[came("resume", None, "s9", None)]))
    (end, _) = module(page, "lineage-graph.js", "graph", adopted, "c", None)["rows"]
    assert (end["end"]["session"], end["end"]["how"]) == ("s9", "adopt")
    # A fork whose first turn runs still has no parent; the conversation knows where it came from.
    text = lineage(turn("r1", mode="replay"))
    found = module(page, "lineage-graph.js", "graph", text, "c", "parent")
    assert [row["id"] for row in found["rows"]] == ["from parent", "r1"]
    assert found["lines"][0]["dash"]


def test_a_new_session_is_not_drawn_as_one_that_was_continued(page: Page) -> None:
    known = lineage(
        turn("r1", mode="replay", parents=[came("fork", "p9", None, "parent")]),
        turn("r2", mode="replay", parents=[came("new_session", "r1")]),
        turn("r3", mode="fresh", account="other", parents=[came("switch", "r2")]),
        turn("r4", mode="fresh", role="reviewer", parents=[came("review", "r3")]),
        turn("r5", state="failed", stands=False, parents=[came("resume", "r2", "s2")]),
    )
    found = module(page, "lineage-graph.js", "graph", known, "c", "parent")
    ids = [row["id"] for row in found["rows"]]
    lines = {(ids[each["from"]], ids[each["to"]]): each["dash"] for each in found["lines"]}
    assert lines == {
        ("from parent", "r1"): True,
        ("r1", "r2"): True,
        ("r3", "r4"): True,
        ("r2", "r5"): False,
    }, "nothing was carried to another account"
    chains = module(page, "lineage-graph.js", "chains", known, "c", "parent")
    assert [[each["run"] for each in chain["turns"]] for chain in chains] == [
        ["r1"],
        ["r2", "r5"],
        ["r3"],
        ["r4"],
    ]


def test_a_lane_is_used_again_and_lanes_are_bounded(page: Page) -> None:
    turns = [turn("r0", mode="fresh")]
    for n in range(1, 40):
        turns.append(turn(f"r{n}", parents=[came("resume", "r0")], stands=n == 39))
    found = module(page, "lineage-graph.js", "graph", lineage(*turns), "c", None)
    assert found["lanes"] == 2  # each that was set aside ends in its own row
    many = [turn("r0", mode="fresh")]
    many += [turn(f"a{n}", role=f"role {n}", mode="replay") for n in range(30)]
    many += [turn(f"b{n}", role=f"role {n}", parents=[came("resume", f"a{n}")]) for n in range(30)]
    assert module(page, "lineage-graph.js", "graph", lineage(*many), "c", None)["lanes"] == 9


def test_chains_follow_native_sessions(page: Page) -> None:
    chains = module(page, "lineage-graph.js", "chains", STORY, "c", None)
    found = [(each["session"], [one["run"] for one in each["turns"]]) for each in chains]
    assert found == [("s1", ["r1", "r2", "r4"]), ("x1", ["r3", "r7"]), ("s2", ["r5", "r6", "r8"])]
    assert [each["from"] and each["from"]["how"] for each in chains] == [None, "replay", "branch"]
    assert chains[0]["sum"] == {
        "turns": 3,
        "stand": 2,
        "cost": pytest.approx(0.03),
        "estimated": False,
        "unpriced": 0,
        "ms": 3000,
    }


def test_unknown_costs_are_not_nothing(page: Page) -> None:
    turns = [
        turn("r1", cost_usd=None),
        turn("r2", cost_usd=0.5),
        turn("r3", state="withdrawn", cost_usd=None),
    ]
    both = module(page, "lineage-graph.js", "sum", turns)
    assert (both["turns"], both["cost"], both["unpriced"]) == (2, 0.5, 1)
    assert module(page, "lineage-graph.js", "sum", turns[:1])["cost"] is None


def test_two_agents_and_ends_of_all_kinds(page: Page, daemon: Daemon) -> None:
    assert daemon.segue("run", "c", "[[say hello]]").code == 0
    more = {
        "turns": [
            turn("r0", n=1, parents=[came("resume", None, "outside-1", None)], session="outside-1"),
            turn("q1", n=3, agent="gemini", parents=[came("fork", "p1", "g1", "earlier")], session="g2"),
            *[{**each, "cost_usd": 0.05 * at or None} for at, each in enumerate(STORY["turns"], 1)],
            turn("z1", state="queued", mode=None, cost_usd=None, duration_ms=None, stands=False),
            turn("z2", state="withdrawn", mode=None, cost_usd=None, duration_ms=None, stands=False),
        ],
        "children": [
            *STORY["children"],
            {"kind": "adopt", "run": "x", "conversation": "team/nightly", "parent": None},
        ],
    }
    told(page, more)
    open_(page, daemon, "lineage", "c")
    large = page.locator(".lin.large")
    expect(large.locator("li")).to_have_count(16)
    end = large.get_by_role("link", name="took over session outside-…")
    expect(end).to_have_attribute("href", "#/sessions/claude/outside-1")
    expect(large.get_by_role("link", name="forked from earlier")).to_have_attribute(
        "href", "#/conversations/earlier"
    )
    expect(large.get_by_role("link", name="taken over by team/nightly")).to_be_visible()
    expect(large.get_by_role("link", name="forked into other")).to_be_visible()
    expect(large.locator(".cond", has_text="queued")).to_be_visible()
    expect(large.locator(".cond", has_text="not sent")).to_be_visible()
    expect(large.locator("li", has_text="running").locator(".cost")).to_have_text("$0.40")
    expect(large.locator("li", has_text="queued").locator(".cost")).to_have_text("–")
    picture(page, "lineage-rich-light")
    page.emulate_media(color_scheme="dark")
    picture(page, "lineage-rich-dark")


def test_the_panel_shows_it_and_selects_a_turn(page: Page, daemon: Daemon, story: str) -> None:
    open_(page, daemon, "conversations", story)
    small = page.locator(".side.r .lin")
    expect(small.locator("li")).to_have_count(9)
    expect(small.locator("li .mode")).to_have_text(
        ["fresh", "resume", "replay", "resume", "branch", "resume", "replay", "resume"], use_inner_text=True
    )
    expect(page.locator(".side.r h2", has_text="Lineage")).to_contain_text("8 turns")
    small.locator("button", has_text="reviewer").click()
    expect(small.locator("li.on")).to_contain_text("reviewer")
    expect(page.locator(".side.r")).to_contain_text("Why this turn was replay")
    picture(page, "lineage-panel-light")


def test_the_view_shows_every_turn_with_its_numbers(page: Page, daemon: Daemon, story: str) -> None:
    open_(page, daemon, "lineage", story)
    large = page.locator(".lin.large")
    expect(large.locator("li:not(.gap)")).to_have_count(9)
    first = large.locator("li").nth(0)
    expect(first).to_contain_text(
        re.compile(r"#1\s*fresh\s*Rehearsal · coder\s*rehearsal-1.*s.*\$0\.00", re.S)
    )
    expect(large.locator("li.off", has_text="set aside")).to_have_count(1)  # the answer that was retried
    expect(large.locator(".cond.t-failed")).to_have_count(1)
    expect(large.locator("a", has_text="forked into app/two")).to_have_attribute(
        "href", "#/conversations/app%2Ftwo"
    )
    expect(page.locator(".lin-sum")).to_contain_text("8 turns")
    expect(page.locator(".lin-sum")).to_contain_text("6 still stand")
    assert large.locator("path.edge.dash").count() == 2
    large.locator("button", has_text="reviewer").click()
    aside = page.locator(".side.r")
    expect(aside).to_contain_text("Why this turn was replay")
    expect(aside).to_contain_text("is that right?")
    picture(page, "lineage-light")
    aside.get_by_role("link", name="Show in the conversation").click()
    expect(page).to_have_url(re.compile("#/conversations/app/"))


def test_an_end_leads_to_the_other_conversation_and_back(page: Page, daemon: Daemon, story: str) -> None:
    open_(page, daemon, "lineage", "app/two")
    page.get_by_role("link", name=f"forked from {story}").click()
    expect(page).to_have_url(f"{daemon.url}/#/conversations/{story}")


def test_chains_have_links_sums_and_a_total(page: Page, daemon: Daemon, story: str) -> None:
    open_(page, daemon, "lineage", story)
    page.get_by_role("button", name="Chains").click()
    chains = page.locator(".chain")
    expect(chains).to_have_count(4)
    expect(chains.nth(0).locator("li")).to_have_count(3)
    expect(chains.nth(0).locator(".chain-sum")).to_contain_text("3 turns")
    expect(chains.nth(1)).to_contain_text("was sent everything up to #3 as text")
    expect(chains.nth(2)).to_contain_text("branched from #3")
    expect(page.locator(".chain-total")).to_contain_text("8 turns, 4 sessions")
    picture(page, "lineage-chains-light")
    chains.nth(0).locator("li button").nth(1).click()
    expect(page.locator(".side.r")).to_contain_text("Why this turn was resume")


def test_it_grows_when_something_runs_elsewhere(page: Page, daemon: Daemon) -> None:
    assert daemon.segue("run", "live", "remember number 1").code == 0
    open_(page, daemon, "lineage", "live")
    expect(page.locator(".lin.large li")).to_have_count(1)
    assert daemon.segue("run", "live", "what number?").code == 0
    expect(page.locator(".lin.large li")).to_have_count(2)


def test_a_thousand_turns_stay_bounded(page: Page, daemon: Daemon) -> None:
    assert daemon.segue("run", "long", "remember number 1").code == 0
    turns = [turn("r0", mode="fresh", n=1)]
    for n in range(1, 1000):
        turns.append(turn(f"r{n}", n=2 * n + 1, parents=[came("resume", f"r{n - 1}", "s1")], session="s1"))
    told(page, lineage(*turns), "long")
    open_(page, daemon, "lineage", "long")
    large = page.locator(".lin.large")
    expect(large.locator("li").first).to_contain_text("#1")
    assert page.locator(".lin.large li:not(.gap)").count() < 80
    assert page.locator(".lin.large circle").count() < 80
    # The keyboard reaches the end, and the end is drawn.
    large.locator("button").first.focus()
    page.keyboard.press("End")
    expect(large.locator("button:focus")).to_contain_text("#1999")
    page.keyboard.press("ArrowUp")
    expect(large.locator("button:focus")).to_contain_text("#1997")
    assert page.locator(".lin.large li:not(.gap)").count() < 80
    frames = page.evaluate(
        """async () => {
          const scroller = document.querySelector(".page");
          const frames = [];
          let last = performance.now();
          for (let at = 0; at < 60; at += 1) {
            scroller.scrollTop = (at * 997) % scroller.scrollHeight;
            await new Promise(requestAnimationFrame);
            frames.push(performance.now() - last);
            last = performance.now();
          }
          return frames.sort((a, b) => a - b);
        }"""
    )
    assert frames[len(frames) // 2] < 400  # the middle one, because the machine may be busy
    page.get_by_role("button", name="Chains").click()
    assert page.locator(".chain li").count() < 80
    page.get_by_role("button", name="970 earlier turns").click()
    expect(page.locator(".chain li")).to_have_count(1000)
    open_(page, daemon, "conversations", "long")
    expect(page.locator(".side.r .lin li")).to_have_count(40)
    expect(page.locator(".side.r").get_by_role("link", name="960 earlier turns")).to_be_visible()


def test_where_not_everything_is_shown_it_is_said(page: Page, daemon: Daemon) -> None:
    assert daemon.segue("run", "long", "remember number 1").code == 0
    told(page, lineage(*(turn(f"r{n}", mode="fresh", n=2 * n + 1) for n in range(131))), "long")
    chain = daemon.ask("GET", "/api/v1/chains/long").json
    first = chain["turns"][0]
    turns = [{**first, "run": f"r{n}", "created": first["created"] + n} for n in range(431)]
    page.route("**/chains/long", lambda route: route.fulfill(json={**chain, "turns": turns}))
    words = {
        "en": ("The latest 120 of 131 sessions are shown", "The latest 400 of 431 turns are shown"),
        "es": ("Se muestran las últimas 120 de 131 sesiones", "Se muestran los últimos 400 de 431 turnos"),
        "zh": ("显示 131 个会话中最近的 120 个", "显示 431 轮中最近的 400 轮"),
    }
    for language, (sessions, all_turns) in words.items():
        page.evaluate("language => localStorage.setItem('segue.language', language)", language)
        open_(page, daemon, "lineage", "long")
        page.reload()
        page.locator(".ptitle .seg button").nth(1).click()
        expect(page.get_by_text(sessions)).to_be_visible()
        expect(page.locator(".chain").last).to_contain_text("#261")
        open_(page, daemon, "chain", "long")
        expect(page.get_by_text(all_turns)).to_be_visible()
        expect(page.locator(".chained [data-run]").last).to_have_attribute("data-run", "r430")


def test_hostile_names_are_text(page: Page, daemon: Daemon) -> None:
    assert daemon.segue("run", "c", "[[say hello]]").code == 0
    evil = lineage(
        turn("r1", mode="fresh", n=1, role=HOSTILE, model=HOSTILE, agent=HOSTILE, account=HOSTILE),
        turn(
            "r2",
            mode="resume",
            n=3,
            role=HOSTILE,
            agent="x" * 5_000_000,
            parents=[came("fork", "p", "s", HOSTILE)],
        ),
        children=[{"kind": "fork", "run": None, "conversation": HOSTILE, "parent": "r1"}],
    )
    told(page, evil)
    open_(page, daemon, "lineage", "c")
    large = page.locator(".lin.large")
    expect(large.locator("li")).to_have_count(4)
    shown = large.inner_text()
    assert "<img src=x" in shown
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert len(shown) < 5000
    assert page.locator("main img").count() == 0
    page.get_by_role("button", name="Chains").click()
    assert "\u202e" not in page.locator("main").inner_text()
    assert page.title() != "1"


def test_a_hostile_answer_is_text_in_the_details(page: Page, daemon: Daemon) -> None:
    daemon.segue("run", "c", f"[[say {HOSTILE}]]".replace("\x1b[31m", "\u202e"))
    assert daemon.segue("run", "c", "[[huge 5000000]]").code == 0
    open_(page, daemon, "lineage", "c")
    page.locator(".lin.large button").first.click()
    aside = page.locator(".side.r")
    expect(aside.locator(".lin-said")).to_contain_text("<img src=x")
    assert page.locator("img").count() == 0
    assert "\u202e" not in aside.inner_text()
    page.locator(".lin.large button").nth(1).click()
    expect(aside.locator(".lin-said")).to_contain_text("…")
    assert len(aside.locator(".lin-said").inner_text()) < 1300


def test_without_turns_it_teaches(page: Page, daemon: Daemon) -> None:
    page.expected_errors = ("404",)  # type: ignore[attr-defined]
    open_(page, daemon, "lineage", "nothing-here")
    expect(page.locator(".empty")).to_contain_text("No turn has run here yet")


def test_at_the_width_of_a_phone(page: Page, daemon: Daemon, story: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    open_(page, daemon, "lineage", story)
    expect(page.locator(".lin.large li")).to_have_count(9)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".page").evaluate("node => node.scrollWidth - node.clientWidth") <= 0
    picture(page, "lineage-phone")
    page.locator(".lin.large button").nth(2).click()
    expect(page.locator(".side.r.open")).to_be_visible()
    picture(page, "lineage-phone-details")
    page.locator(".side.r .sheet-head").get_by_role("button", name="Close").click()
    expect(page.locator(".side.r.open")).to_have_count(0)
    page.get_by_role("button", name="Chains").click()
    assert page.locator(".page").evaluate("node => node.scrollWidth - node.clientWidth") <= 0
    picture(page, "lineage-phone-chains")


def test_colours_follow_the_theme(page: Page, daemon: Daemon, story: str) -> None:
    page.emulate_media(color_scheme="dark")
    open_(page, daemon, "lineage", story)
    page.locator(".lin.large button").nth(4).click()
    expect(page.locator(".side.r")).to_contain_text("Why this turn was branch")
    assert (
        page.locator("body").evaluate("node => getComputedStyle(node).backgroundColor") == "rgb(22, 23, 26)"
    )
    picture(page, "lineage-dark")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(page: Page, daemon: Daemon, story: str, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    open_(page, daemon, "lineage", story)
    page.locator(".lin.large button").nth(3).click()  # what was set aside
    expect(page.locator(".side.r")).to_contain_text("Why this turn was resume")
    assert serious(page) == []
    page.get_by_role("button", name="Chains").click()
    assert serious(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    assert serious(page) == []
    page.get_by_role("button", name="Picture").click()
    assert serious(page) == []
