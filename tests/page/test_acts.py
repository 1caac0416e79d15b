"""What can be done with conversations and messages: stars, exports, copies, options, the queue, keys."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.integration.server.conftest import Daemon
from tests.page.session_files import rehearsal
from tests.page.test_access import fill
from tests.page.test_conversations import answers, converse, modes, send
from tests.page.test_lineage import serious
from tests.page.test_outages import imported


def test_the_list_is_filtered_by_state_star_and_agent(page: Page, daemon: Daemon) -> None:
    file = daemon.segue.home / "config.toml"
    file.write_text(file.read_text() + '\n[agents.other]\ncommand = ["cat"]\nstdin = "prompt"\n')
    for key in ("one", "two"):
        assert daemon.segue("run", key, "hello").code == 0
    assert daemon.segue("run", "three", "hello", "--agent", "other").code == 0
    rows = page.locator(".side.l .row")
    expect(rows).to_have_count(3)
    filters = page.get_by_role("navigation", name="Filter")
    expect(filters.get_by_role("button", name="Starred")).to_have_count(0)
    two = page.locator(".row[data-key=two]")
    two.get_by_role("button", name="Star").click()
    filters.get_by_role("button", name="Starred 1").click()
    expect(rows).to_have_count(1)
    expect(rows).to_have_attribute("data-key", "two")
    assert daemon.ask("GET", "/api/v1/conversations/two").json["starred"]
    two.get_by_role("button", name="Remove the star").click()
    expect(page.get_by_text("Nothing found")).to_be_visible()
    filters.get_by_role("button", name="All 3").click()
    page.get_by_label("Filter by agent").select_option("other")
    expect(rows).to_have_count(1)
    expect(rows).to_have_attribute("data-key", "three")
    page.get_by_label("Filter by agent").select_option("")
    expect(rows).to_have_count(3)
    asks = {"message": "[[ask Which one? | a | b]]", "answers": True}
    made = daemon.ask("POST", "/api/v1/conversations/four/runs", asks)
    assert made.status == 202
    filters.get_by_role("button", name="Needs you 1").click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Which one?")


def test_it_is_exported_copied_and_deleted(page: Page, daemon: Daemon) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=daemon.url)
    converse(page, daemon, "[[say Here:\n\n```py\nx = 1\n```\n]]")
    for name, ending in (("Export as Markdown", "md"), ("Export as JSON", "json")):
        page.locator(".menu > summary").click()
        with page.expect_download() as saved:
            page.get_by_role("button", name=name).click()
        assert saved.value.suggested_filename == f"talk.{ending}"
        text = Path(saved.value.path()).read_text("utf-8")
        assert "x = 1" in text
        assert ending != "json" or json.loads(text)
    log = daemon.ask("GET", "/api/v1/conversations/talk/log").json
    copies = {
        ".msg.you .acts": ("Copy id", log[0]["id"]),
        "figure.block": ("Copy the code", "x = 1"),
        ".bar-top": ("Copy the key: talk", "talk"),
    }
    for place, (name, text) in copies.items():
        button = page.locator(place).get_by_role("button", name=name)
        button.dispatch_event("click")
        expect(button).to_have_text("Copied")
        assert page.evaluate("() => navigator.clipboard.readText()") == text
    page.locator(".menu > summary").click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog", name="Delete talk?").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(answers(page)).to_have_count(1)
    page.locator(".menu > summary").click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog", name="Delete talk?").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", name="No conversations yet")).to_be_visible()
    assert daemon.ask("GET", "/api/v1/conversations").json == []


def test_blank_role_and_model_are_sent(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "remember number 456")
    page.locator(".pick-more > summary").click()
    page.get_by_label("Model").fill("rehearsal-2")
    page.get_by_label("Role").fill("reviewer")
    page.get_by_label("Blank").check()
    expect(page.locator(".composer .plan")).to_contain_text("fresh")
    page.locator("#entry").fill("what number?")
    with page.expect_request(lambda each: each.method == "POST" and each.url.endswith("/runs")) as sent:
        page.locator("#entry").press("Enter")
    order = json.loads(sent.value.post_data or "")
    assert {name: order.get(name) for name in ("message", "model", "role", "blank", "agent", "cwd")} == {
        "message": "what number?",
        "model": "rehearsal-2",
        "role": "reviewer",
        "blank": True,
        "agent": None,
        "cwd": None,
    }
    expect(answers(page)).to_have_count(2)
    expect(answers(page).last).to_contain_text("I do not know any number.")
    expect(answers(page).last.locator(".who")).to_contain_text("reviewer")
    expect(answers(page).last.locator(".who")).to_contain_text("rehearsal-2")
    expect(page.locator(".msg.you").last.locator(".who")).to_contain_text("without the past")
    assert modes(daemon) == ["fresh", "fresh"]
    if not page.get_by_label("Blank").is_visible():
        page.locator(".pick-more > summary").click()
    expect(page.get_by_label("Blank")).not_to_be_checked()  # it was for that message alone


def test_what_waits_is_removed_or_started_now(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "hello")
    limited = {"message": "[[error 429 retry-after 5400]]", "options": {"park": True}}
    daemon.ask("POST", "/api/v1/conversations/talk/runs", limited)
    waiting = page.locator(".waiting")
    expect(waiting.get_by_role("button", name="Start now")).to_be_visible()
    waiting.get_by_role("button", name="Edit").click()
    waiting.locator("textarea").fill("[[say back again]]")
    waiting.get_by_role("button", name="Save").click()
    send(page, "[[say never said]]")
    expect(waiting).to_have_count(2)
    waiting.last.get_by_role("button", name="Remove").click()
    expect(waiting).to_have_count(1)
    waiting.get_by_role("button", name="Start now").click()
    expect(answers(page)).to_have_count(2)
    expect(answers(page).last).to_contain_text("back again")
    expect(waiting).to_have_count(0)
    expect(page.locator(".msg.you.off")).to_contain_text("never said")


def test_a_tool_is_always_allowed_until_it_is_not(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "hello")
    form = page.locator("form.ask")
    send(page, "[[shell echo one]] [[say done]]")
    form.get_by_role("button", name="Always allow here").click()
    expect(answers(page)).to_have_count(2)
    send(page, "[[shell echo two]] [[say done]]")
    expect(answers(page)).to_have_count(3)
    expect(answers(page).last.locator(".tool", has_text="echo two")).to_contain_text("exit 0")
    page.locator(".menu > summary").click()
    page.get_by_role("button", name="No longer always allow shell").click()
    expect(page.get_by_role("button", name="No longer always allow shell")).to_have_count(0)
    send(page, "[[shell echo three]] [[say done]]")
    expect(form).to_contain_text("echo three")


def test_the_keys_of_the_help_do_what_it_says(page: Page, daemon: Daemon) -> None:
    imported(daemon, "long", 100)
    page.goto(f"{daemon.url}/#/conversations/long")
    last = page.get_by_text("message number 99", exact=True)
    expect(last).to_be_in_viewport()
    page.keyboard.press("?")
    listed = page.get_by_role("dialog", name="Keyboard").locator("kbd").all_inner_texts()
    assert {"r", "f", "G", "n", "J", "K"} <= set(listed)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("K")
    expect(page.locator(".msg:focus")).to_contain_text("message number 99")
    page.keyboard.press("K")
    expect(page.locator(".msg:focus")).to_contain_text("message number 98")
    page.keyboard.press("J")
    expect(page.locator(".msg:focus")).to_contain_text("message number 99")
    detail = page.get_by_role("group", name="Detail")
    page.keyboard.press("f")
    expect(detail.get_by_role("button", name="Focused")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("f")
    expect(detail.get_by_role("button", name="Focused")).to_have_attribute("aria-pressed", "false")
    page.locator(".dialogue").evaluate("node => { node.scrollTop -= 1500 }")
    expect(page.locator(".jump button")).to_be_visible()
    page.keyboard.press("G")
    expect(last).to_be_in_viewport()
    expect(page.locator(".jump button")).to_have_count(0)
    page.keyboard.press("n")
    expect(page).to_have_url(re.compile("#/conversations/?$"))
    page.locator(".newkey input").fill("talk")
    send(page, "hello")
    expect(answers(page)).to_have_count(1)
    page.locator(".dialogue").focus()
    page.keyboard.press("r")
    expect(answers(page).get_by_role("group", name="Versions of this message")).to_contain_text("2/2")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_dialogs_sessions_and_sheets(page: Page, daemon: Daemon, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    fill(page, daemon)
    path = rehearsal(daemon.home.parent, ("remember number 777", "Noted: 777."), cwd=str(daemon.segue.cwd))
    page.locator(".menu > summary").click()
    assert serious(page) == []
    page.get_by_role("button", name="Delete").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert serious(page) == []
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    assert serious(page) == []
    page.keyboard.press("Escape")
    page.goto(f"{daemon.url}/#/sessions/rehearsal/{path.stem}")
    expect(page.get_by_text("Noted: 777.").first).to_be_visible()
    assert serious(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{daemon.url}/#/conversations/talk")
    answers(page).first.locator(".end .mode").click()
    expect(page.locator(".side.r")).to_be_visible()
    assert serious(page) == []
    page.locator(".side.r").get_by_role("button", name="Close").click()
    page.get_by_role("button", name="‹ All").click()
    expect(page.locator(".side.l .row").first).to_be_visible()
    assert serious(page) == []


def test_ages_are_those_of_now(page: Page, daemon: Daemon) -> None:
    page.clock.install()
    page.add_init_script(
        "window.EventSource = class extends EventSource {"
        " constructor(address) { super(address); window.stream_ = this; } };"
    )
    page.reload()
    assert daemon.segue("run", "talk", "hello").code == 0
    age = page.locator(".row[data-key=talk] .when")
    expect(age).to_have_text("now")
    for _ in range(8):
        page.evaluate("window.stream_.dispatchEvent(new MessageEvent('heartbeat', { data: '{}' }))")
        page.clock.fast_forward(30_000)
    expect(age).to_have_text(re.compile(r"^\d\d:\d\d$"), timeout=10_000)
