"""The view of flows in a browser: the list, one flow with its steps and questions, the chain as a picture."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from segue.store.flow_records import FlowRow
from segue.store.store import open_store
from tests.database import database
from tests.integration.conftest import Program
from tests.integration.server.conftest import Daemon, start
from tests.integration.server.test_flows import GATED, begin, reached, shown
from tests.integration.test_review import (
    CODER_DELTA,
    CODER_FULL,
    REVIEWER_DELTA,
    REVIEWER_FULL,
    Stage,
    reject,
)
from tests.page.conftest import end, picture
from tests.page.tools import AXE

V1 = "/api/v1/flows"
CONFIG = """
[defaults]
agent = "rehearsal"

[agents.limited]
command = ["/bin/sh", "-c", "cat >/dev/null; printf '{\\"problem\\":\\"not now\\"}'; exit 1"]
stdin = "prompt"
output = "jsonl"
text = { path = "$.text" }
error = { path = "$.problem", kind = "rate_limited" }
"""
SAID = "[[say answer-{n}]]"
MUCH = " many words" * 4000
"""So that a turn costs more than nothing."""
LANGUAGES = {"en": ("Flows", "paused"), "es": ("Flujos", "en pausa"), "zh": ("流程", "已暂停")}


@pytest.fixture
def stage(segue: Program) -> Stage:
    segue.env["SEGUE_DEFAULTS_PERMISSION"] = "full"
    made = Stage(segue)
    segue.env.update(made.env)
    made.play()
    return made


@pytest.fixture
def daemon(segue: Program, stage: Stage) -> Iterator[Daemon]:
    segue.config(CONFIG)
    started = start(segue)
    yield started
    with suppress(OSError):
        for flow in started.ask("GET", V1).json:
            started.ask("POST", f"{V1}/{flow['flow']}/cancel")
    end(started)


def open_flows(page: Page, *parts: str) -> None:
    page.goto(f"{page.url.partition('#')[0]}#/{'/'.join(('flows', *parts))}")
    expect(page.locator(".cols.flows")).to_be_visible()


def row(page: Page, flow: str) -> Locator:
    return page.locator(f'.row[data-flow="{flow}"]')


def step(page: Page, key: str) -> Locator:
    return page.locator(f'tbody[data-step="{key}"]')


def opened(page: Page, flow: str, state: str) -> Locator:
    found = page.locator(f'.flow[data-flow="{flow}"]')
    expect(found).to_have_attribute("data-state", state)
    return found


def money(usd: float) -> str:
    """As the page shows it."""
    assert usd > 0.001, "too little to compare"
    return f"${usd:.{2 if usd >= 0.0995 else 3}f}"


def tokens(count: int) -> str:
    return str(count) if count < 1000 else f"{count / 1000:.1f}k"


def new(usage: dict[str, int]) -> int:
    return usage["input"] + usage["cache_write"]


def reviewed(daemon: Daemon, stage: Stage) -> str:
    """A review that ends approved in its second round; the reviewer's first answer is long."""
    stage.play(
        (CODER_FULL, "[[shell echo one >> a.txt]] [[say I wrote a.txt]]"),
        (CODER_DELTA, "[[shell echo two >> a.txt]] [[say I changed it]]"),
        (REVIEWER_FULL, "[[say " + "Long thoughts. " * 300 + "]] " + reject("f1", "f2", "o1:outside")),
        (REVIEWER_DELTA, reject("f1:resolved", "f2:resolved").replace('"reject"', '"approve"')),
    )
    body = {
        "task": f"# Write a.txt\n\nTwo lines.{MUCH}",
        "coder": {"agent": "rehearsal"},
        "reviewer": {"agent": "rehearsal"},
        "checks": ["test -s a.txt", "exit 3"],
        "cwd": str(stage.cwd),
    }
    answer = daemon.ask("POST", "/api/v1/reviews", body)
    assert answer.status == 202, answer.body
    flow = str(answer.json["flow"])
    reached(daemon, flow, "done")
    return flow


def test_the_list_changes_without_a_reload_and_shows_what_needs_you(daemon: Daemon, page: Page) -> None:
    open_flows(page)
    expect(page.get_by_role("heading", name="No flows yet")).to_be_visible()
    page.evaluate("window.same = true")
    works = begin(daemon, turns=2, text=GATED + MUCH)
    expect(row(page, works)).to_contain_text("trial · round 1 · trial · Rehearsal")
    asks = begin(daemon, turns=2, text=SAID, ask=True)
    expect(row(page, asks)).to_contain_text("asks: 1 of 2 turns are done. Go on?")
    expect(page.locator(".row").first).to_have_attribute("data-flow", asks)
    expect(row(page, asks)).to_have_class(re.compile("unread"))
    expect(page.locator(".views a", has_text="Flows")).to_contain_text("1 need you")
    expect(page).to_have_title("(1) Segue")
    (daemon.segue.cwd / "gate").touch()
    expect(page.locator(".day", has_text="Ended")).to_be_visible()
    expect(row(page, works)).to_contain_text("trial · round 2 · done")
    ended = shown(daemon, works)
    expect(row(page, works)).to_contain_text(money(ended["cost_usd"]))
    assert daemon.ask("POST", f"{V1}/{asks}/answer", {"answer": "yes"}).status == 200
    expect(row(page, asks)).to_contain_text("done")
    expect(page.locator(".views a", has_text="Flows")).to_have_text("Flows")
    page.get_by_role("searchbox").fill("nothing like this")
    expect(page.locator(".row")).to_have_count(0)
    assert page.evaluate("window.same")


def test_somebody_elsewhere_is_notified_of_a_flow_that_asks(daemon: Daemon, page: Page) -> None:
    page.add_init_script(
        "window.told = []; window.Notification = class { constructor(title, more) {"
        " window.told.push([title, more.body, this]); } close() {} };"
        "Notification.permission = 'granted';"
        "Object.defineProperty(document, 'visibilityState', {get: () => 'hidden'});"
    )
    page.reload()
    expect(page.locator("#entry")).to_be_visible()
    asks = begin(daemon, turns=2, text=SAID, ask=True)
    page.wait_for_function("() => window.told.length > 0")
    title, body = page.evaluate("window.told[0].slice(0, 2)")
    assert (title, body) == ("trial needs you", "1 of 2 turns are done. Go on?")
    page.evaluate("window.told[0][2].onclick()")
    page.wait_for_url(f"**/#/flows/{asks}")
    assert page.evaluate("window.told.length") == 1


def test_a_question_is_answered_in_its_form_and_the_flow_goes_on(daemon: Daemon, page: Page) -> None:
    flow = begin(daemon, turns=2, text=SAID, ask=True)
    reached(daemon, flow, "needs_you")
    open_flows(page, flow)
    form = page.get_by_role("form", name="It asks before it goes on")
    expect(form).to_contain_text("1 of 2 turns are done. Go on?")
    expect(form.get_by_role("button", name="Answer")).to_be_disabled()
    form.get_by_label("yes").check()
    page.reload()
    expect(form.get_by_label("yes")).to_be_checked()
    form.get_by_role("button", name="Answer").click()
    opened(page, flow, "done")
    expect(form).to_have_count(0)
    expect(step(page, "go-on")).to_contain_text("yes")
    expect(step(page, "turn-2")).to_contain_text("answer-2")
    assert reached(daemon, flow, "done")["result"] == ["answer-1", "answer-2"]


def test_questions_of_all_kinds_have_a_form(daemon: Daemon, page: Page) -> None:
    """A budget is raised by an amount, or stopped; a person writes. Both come from tiers of an escalation."""
    cwd = daemon.segue.cwd
    (cwd / "p.md").write_text('[[say {"escalate": true, "reason": "the disk is full"}]]')
    (cwd / "FLOW.toml").write_text(
        'name = "shop"\n[policy]\nbudget = 0.0000001\n'
        + '[[tier]]\nname = "look"\nagent = "rehearsal"\nfull = "p.md"\n'
        + '[[tier]]\nname = "mend"\nagent = "rehearsal"\nfull = "p.md"\nprompt = "p.md"\n'
        + '[[tier]]\nname = "on call"\nhuman = true\nquestion = "Please look."\n'
    )
    body = {"file": str(cwd / "FLOW.toml"), "cwd": str(cwd), "label": "cycle 42"}
    flow = daemon.ask("POST", "/api/v1/escalations", body).json["flow"]
    open_flows(page, flow)
    expect(page.get_by_role("heading", name="cycle 42")).to_be_visible()
    budget = page.get_by_role("form", name="The budget does not cover the next turn")
    expect(budget.get_by_label("New budget in $")).to_have_value(re.compile(r"\d"))
    budget.get_by_label("New budget in $").fill("5")
    expect(budget.get_by_role("button", name="Stop")).to_be_visible()
    budget.get_by_role("button", name="Raise it and go on").click()
    human = page.get_by_role("form", name="A person has to do this")
    expect(human).to_contain_text("Please look.")
    expect(page.locator(".flow")).to_contain_text("/ $5.00")
    expect(step(page, "tier-1")).to_contain_text("escalates: the disk is full")
    expect(step(page, "tier-2").locator("td").nth(1)).to_contain_text("tier 2")
    page.locator(".artefact", has_text="hand-off-1.json").locator("summary").click()
    kept = page.locator(".artefact", has_text="hand-off-1.json").locator("dl.vals > div")
    expect(kept.filter(has_text="reason").first).to_contain_text("the disk is full")
    human.get_by_label("Your answer").fill("resolved")
    human.get_by_role("button", name="Answer").click()
    opened(page, flow, "done")


def test_pause_resume_and_cancel(daemon: Daemon, page: Page) -> None:
    flow = begin(daemon, turns=3, text=GATED)
    open_flows(page, flow)
    expect(step(page, "turn-1")).to_contain_text("in progress")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".flow > .ask")).to_contain_text("A turn that runs is not interrupted")
    (daemon.segue.cwd / "gate").touch()
    opened(page, flow, "paused")
    expect(page.locator(".flow > .ask")).to_contain_text("It stopped between two steps")
    (daemon.segue.cwd / "gate").unlink()
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(step(page, "turn-2")).to_contain_text("in progress")
    page.get_by_role("button", name="Cancel the flow").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("The turn that runs is cancelled, too.")
    dialog.get_by_role("button", name="Cancel", exact=True).click()
    assert shown(daemon, flow)["state"] == "running"
    page.get_by_role("button", name="Cancel the flow").click()
    dialog.get_by_role("button", name="Cancel the flow").click()
    opened(page, flow, "cancelled")
    expect(page.get_by_role("button", name="Resume", exact=True)).to_have_count(0)
    assert reached(daemon, flow, "cancelled")["end"] == "cancelled"


def test_a_limit_says_until_when_it_waits(daemon: Daemon, page: Page) -> None:
    flow = begin(daemon, turns=1, agent="limited")
    open_flows(page, flow)
    waits = page.locator(
        ".flow > .ask.parked"
    )  # not all the time: it tries again, after longer and longer pauses
    expect(waits).to_contain_text(re.compile(r"waits until .*\d\d:\d\d"))
    expect(waits).to_contain_text("nothing is paid for twice")
    expect(step(page, "turn-1")).to_contain_text(re.compile(r"waits until \d\d:\d\d"))
    expect(row(page, flow)).to_contain_text("until")
    expect(step(page, "turn-1")).to_contain_text("try 3")


def test_a_step_is_run_again_after_it_said_what_that_means(daemon: Daemon, page: Page) -> None:
    flow = begin(daemon, turns=3, text=SAID + MUCH)
    ended = reached(daemon, flow, "done")
    open_flows(page, flow)
    step(page, "turn-2").get_by_role("button", name="turn-2").click()
    step(page, "turn-2").get_by_role("button", name="Run again from here").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("So does 1 step after it.")
    spent = sum(each["cost_usd"] for each in ended["steps"][1:])
    expect(dialog).to_contain_text(f"({money(spent)}) stays in the total")
    dialog.get_by_role("button", name="Run again from here").click()
    expect(step(page, "turn-2")).to_contain_text("try 2")
    expect(step(page, "turn-3")).to_contain_text("try 2")
    again = reached(daemon, flow, "done", lambda now: now["steps"][-1]["tries"] == 2)
    expect(page.locator('.steps [data-sum="cost"]')).to_have_text(money(again["cost_usd"]))
    expect(page.locator(".chained [data-run]")).to_have_count(5)


def test_a_review_shows_verdicts_findings_checks_and_what_was_sent(
    daemon: Daemon, stage: Stage, page: Page
) -> None:
    flow = reviewed(daemon, stage)
    told = shown(daemon, flow)
    by_key = {each["key"]: each for each in told["steps"]}
    open_flows(page, flow)
    expect(page.get_by_role("heading", name="Write a.txt", level=1)).to_be_visible()
    expect(page.locator(".ptitle")).to_contain_text("approved")
    first = step(page, "reviewer/1")
    expect(first).to_contain_text("rejected, 2 open findings")
    expect(first.locator(".mode")).to_have_text("fresh")
    assert len(by_key["reviewer/1"]["result"]["text"]) == 2000, "the verdict is not in what the step has"
    expect(step(page, "look/1")).to_contain_text("1 file, +1 −0")
    expect(step(page, "check/1/1")).to_contain_text("test -s a.txt: exit 0")
    expect(step(page, "check/1/2").locator(".t-failed").first).to_be_visible()
    second = step(page, "coder/2")
    expect(second.locator(".mode")).to_have_text("resume")
    used = by_key["coder/2"]["usage"]
    for at, value in enumerate((new(used), used["cache_read"])):
        expect(second.locator("td.num").nth(1 + at)).to_have_text(tokens(value))
    expect(second.locator("td.num").last).to_have_text(money(by_key["coder/2"]["cost_usd"]))
    first.get_by_role("button", name="reviewer/1").click()
    expect(first.locator(".found li.open")).to_have_count(2)
    expect(first.locator(".found li.outside")).to_contain_text("outside the task")
    expect(first.locator("pre")).not_to_be_visible()
    expect(page.locator('[data-part="result"] .found li.resolved')).to_have_count(2)
    page.locator(".artefact", has_text="findings.json").locator("summary").click()
    expect(page.locator(".artefact", has_text="findings.json").locator("dl.vals").first).to_contain_text("f1")
    total = page.locator(".steps tr.total td.num")
    expect(total.nth(1)).to_have_text(tokens(new(told["usage"])))
    expect(total.nth(2)).to_have_text(tokens(told["usage"]["cache_read"]))
    expect(total.nth(3)).to_have_text(tokens(told["usage"]["output"]))
    expect(total.last).to_have_text(money(told["cost_usd"]))
    picture(page, "flow")
    first.get_by_role("button", name="Show in the conversation").click()
    page.wait_for_url(re.compile("#/conversations/"))
    run = daemon.ask("GET", f"/api/v1/runs/{by_key['reviewer/1']['run']}").json
    assert page.url.endswith(run["message"])


def test_the_chain_has_all_members_and_the_sums_of_the_api(daemon: Daemon, stage: Stage, page: Page) -> None:
    flow = reviewed(daemon, stage)
    chain = daemon.ask("GET", f"/api/v1/chains/{flow}").json
    open_flows(page, flow)
    for address in (f"flows/{flow}", f"chain/{flow}", f"chain/{chain['turns'][0]['run']}"):
        page.goto(f"{daemon.url}/#/{address}")
        wanted = daemon.ask("GET", f"/api/v1/chains/{address.partition('/')[2]}").json
        members = page.locator(".chained [data-run]")
        expect(members).to_have_count(len(wanted["turns"]))
        seen = {each.get_attribute("data-run") for each in members.all()}
        assert seen == {each["run"] for each in wanted["turns"]}
        expect(page.locator(".chained .picture .node")).to_have_count(len(wanted["turns"]))
        edges = [each for each in wanted["turns"] if each["parent"] is not None]
        expect(page.locator(".chained .picture .edge")).to_have_count(len(edges))
        sums(page, wanted)


def sums(page: Page, chain: dict[str, Any]) -> None:
    total = page.locator(".chain-total")
    usage = chain["usage"]
    expect(total.locator('[data-sum="turns"]')).to_have_text(f"{len(chain['turns'])} turns")
    expect(total.locator('[data-sum="new"]')).to_have_text(tokens(new(usage)))
    expect(total.locator('[data-sum="cached"]')).to_have_text(tokens(usage["cache_read"]))
    expect(total.locator('[data-sum="out"]')).to_have_text(tokens(usage["output"]))
    expect(total.locator('[data-sum="cost"]')).to_have_text(money(chain["cost_usd"]))


def test_a_phone_shows_the_list_then_the_flow_and_nothing_is_too_wide(
    daemon: Daemon, stage: Stage, page: Page
) -> None:
    flow = reviewed(daemon, stage)
    page.set_viewport_size({"width": 390, "height": 844})
    open_flows(page)
    row(page, flow).locator("a").click()
    opened(page, flow, "done")
    expect(row(page, flow)).not_to_be_visible()
    step(page, "reviewer/1").get_by_role("button", name="reviewer/1").click()
    expect(step(page, "reviewer/1").locator(".found")).to_be_visible()
    expect(page.locator(".chained [data-run]").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("document.querySelector('.page').scrollWidth") <= 390
    picture(page, "flow-phone")
    page.get_by_role("link", name="All flows").click()
    expect(row(page, flow)).to_be_visible()


def test_everything_works_by_keyboard(daemon: Daemon, page: Page) -> None:
    first = begin(daemon, turns=1, text=SAID)
    reached(daemon, first, "done")
    asks = begin(daemon, turns=2, text=SAID, ask=True)
    reached(daemon, asks, "needs_you")
    page.locator("body").click(position={"x": 700, "y": 20})
    page.keyboard.press("3")
    page.wait_for_url("**/#/flows")
    expect(page.locator(".row")).to_have_count(2)
    page.keyboard.press("j")
    opened(page, asks, "needs_you")
    page.get_by_role("radio", name="yes").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    opened(page, asks, "done")
    step(page, "turn-1").locator("button").focus()
    page.keyboard.press("Enter")
    expect(step(page, "turn-1").locator("pre")).to_contain_text("answer-1")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.wait_for_url("**/#/flows")


def test_what_the_daemon_cannot_run_says_how_to_go_on(daemon: Daemon, page: Page) -> None:
    cwd = str(daemon.segue.cwd)
    source = '{"file": "/nowhere/own.py", "function": "own", "module": "own"}'
    with open_store(None, daemon.home / "segue.db") as store:
        store.flows.add(
            FlowRow(
                id="theirs",
                kind="own-flow",
                version=1,
                source=source,
                cwd=cwd,
                host=os.uname().nodename,
                created_ms=1,
            )
        )
    older = begin(daemon, turns=2, text=SAID, ask=True)
    reached(daemon, older, "needs_you")
    with database(daemon.home / "segue.db") as db:
        db.execute("UPDATE flows SET version = 99 WHERE id = ?", (older,))
    assert daemon.ask("POST", f"{V1}/{older}/answer", {"answer": "yes"}).status == 200
    reached(daemon, older, "needs_you", lambda now: now["needs"] == "version")
    open_flows(page, older)
    expect(page.locator(".flow > .ask")).to_contain_text("does not have the code that the flow began with")
    page.get_by_role("button", name="Go on with the newest code").click()
    expect(page.get_by_role("form", name="It asks before it goes on")).to_be_visible()
    assert shown(daemon, older)["version"] == 1
    open_flows(page, "theirs")
    expect(page.locator(".ptitle")).to_contain_text("interrupted: no process runs it")
    expect(page.locator(".flow > .ask code")).to_have_text("segue flow resume theirs")
    expect(page.get_by_role("button", name="Resume", exact=True)).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(daemon: Daemon, stage: Stage, page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    done = reviewed(daemon, stage)
    asks = begin(daemon, turns=2, text=SAID, ask=True)
    reached(daemon, asks, "needs_you")
    for view in (f"flows/{done}", f"flows/{asks}", f"chain/{done}", "flows"):
        page.goto(f"{daemon.url}/#/{view}")
        expect(page.locator("#main")).to_be_visible()
        if view == f"flows/{done}":
            step(page, "reviewer/1").get_by_role("button", name="reviewer/1").click()
            page.locator(".artefact summary").first.click()
        page.wait_for_timeout(700)
        page.evaluate(AXE.read_text("utf-8"))
        found = page.evaluate(
            "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})"
        )
        serious = [
            (each["id"], each["help"], [node["html"][:200] for node in each["nodes"]][:3])
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
        ]
        assert serious == [], view


@pytest.mark.parametrize("language", LANGUAGES)
def test_three_languages(daemon: Daemon, page: Page, language: str) -> None:
    flow = begin(daemon, turns=2, text=SAID, ask=True)
    reached(daemon, flow, "needs_you")
    assert daemon.ask("POST", f"{V1}/{flow}/pause").status == 200
    reached(daemon, flow, "paused")
    page.evaluate("language => localStorage.setItem('segue.language', language)", language)
    page.reload()
    open_flows(page, flow)
    name, state = LANGUAGES[language]
    expect(page.locator(".views a[aria-current]")).to_have_text(name)
    expect(page.locator(".ptitle")).to_contain_text(state)
    assert not re.search(r"\bflow\.[a-z]", page.locator("body").inner_text())


def test_hostile_texts_are_shown_as_texts(daemon: Daemon, page: Page) -> None:
    bad = '<img src=x onerror="window.hacked=1"> \u202egnp.exe'
    body = {
        "kind": "trial",
        "input": {"turns": 1, "text": f"[[say {bad}]]"},
        "label": bad,
        "cwd": str(daemon.segue.cwd),
    }
    flow = daemon.ask("POST", V1, body).json["flow"]
    reached(daemon, flow, "done")
    open_flows(page, flow)
    expect(page.locator(".ptitle h1")).to_contain_text("<img src=x")
    step(page, "turn-1").get_by_role("button", name="turn-1").click()
    expect(step(page, "turn-1").locator("pre")).to_contain_text("‹U+202E›")
    page.locator(".artefact summary").first.click()
    expect(page.locator(".artefact .vals")).to_contain_text("<img src=x")
    assert page.evaluate("window.hacked") is None
