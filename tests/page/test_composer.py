"""The composer: the plan of the draft; files, picks and edits that outlive a look elsewhere."""

from __future__ import annotations

import base64
import re
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Page, expect

from tests.images import png
from tests.integration.server.conftest import Daemon
from tests.page.conftest import picture
from tests.page.test_conversations import answers, converse, send

DROP = """([kind, name, data, type, place = "#entry", text = ""]) => {
  const transfer = new DataTransfer();
  const bytes = Uint8Array.from(atob(data), (each) => each.charCodeAt(0));
  if (name) transfer.items.add(new File([bytes], name, { type }));
  if (text) transfer.items.add(text, "text/plain");
  const more = { bubbles: true, cancelable: true };
  const event = kind === "paste"
    ? new ClipboardEvent("paste", { ...more, clipboardData: transfer })
    : new DragEvent("drop", { ...more, dataTransfer: transfer });
  document.querySelector(place).dispatchEvent(event);
  return event.defaultPrevented;
}"""
ACCOUNTS = "".join(
    f'\n[accounts.{name}]\nagent = "rehearsal"\nhome = "{{home}}/{name}"\n' for name in ("ann", "bob", "cal")
)


def attach(page: Page, name: str = "dot.png", kind: str = "drop") -> None:
    data = base64.b64encode(png()).decode()
    assert page.evaluate(DROP, [kind, name, data, "image/png"])
    expect(page.locator(".entry .file", has_text=name)).to_be_visible()


def plan(daemon: Daemon, **asked: str) -> dict[str, Any]:
    made: dict[str, Any] = daemon.ask("GET", f"/api/v1/conversations/talk/plan?{urlencode(asked)}").json
    return made


def folder(page: Page, path: object) -> None:
    page.locator(".pick-more > summary").click()
    page.get_by_label("Directory").fill(str(path))


def test_the_panel_explains_the_turn_that_the_line_announces(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "remember number 456")
    gauge = page.locator(".composer .plan .gauge")
    expect(gauge.get_by_role("img")).to_have_attribute("aria-label", re.compile(r"of [\d.]+k"))
    page.get_by_role("switch", name="Fresh session").check()
    expect(page.locator(".composer .plan")).to_contain_text("Sends 2 earlier messages")
    expect(gauge).to_have_count(0)
    page.locator(".composer .plan .mode").click()
    panel = page.locator(".side.r")
    expect(panel.get_by_role("heading", name="The next turn: replay")).to_be_visible()
    expect(panel.locator(".ladder li.on")).to_contain_text("replay")
    picture(page, "next")
    page.get_by_role("switch", name="Fresh session").uncheck()
    expect(panel.get_by_role("heading", name="The next turn: resume")).to_be_visible()


def test_the_line_says_why_something_cannot_be_sent(page: Page, daemon: Daemon) -> None:
    page.expected_errors = ("422",)  # type: ignore[attr-defined]
    converse(page, daemon, "hello")
    missing = daemon.segue.cwd.parent / "missing"
    folder(page, missing)
    said = f"The working directory {missing} does not exist"
    expect(page.locator(".composer .plan")).to_have_text(said)
    expect(page.locator(".side.r .sec").first).to_have_text(said)
    picture(page, "cannot")


@pytest.mark.parametrize("kind", ["drop", "paste"])
def test_files_are_attached_by_drop_and_paste(page: Page, daemon: Daemon, kind: str) -> None:
    page.locator(".newkey input").fill("talk")
    attach(page, kind=kind)
    expect(page.locator(".entry .thumb canvas")).to_be_visible()
    send(page, "what is this?")
    expect(page.locator(".msg.you .files img")).to_have_js_property("naturalWidth", 8)
    expect(page.locator(".entry .file")).to_have_count(0)


def test_attached_files_and_a_key_outlive_a_look_elsewhere_and_a_reload(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "hello")
    attach(page)
    page.get_by_role("link", name="New conversation").click()
    expect(page.locator(".newkey input")).to_be_visible()
    expect(page.locator(".entry .file")).to_have_count(0)
    page.locator(".newkey input").fill("a-key")
    page.locator(".row", has_text="talk").locator(".over").click()
    expect(page.locator(".entry .file")).to_contain_text("dot.png")
    attach(page, "two.png")
    page.reload()
    expect(page.locator(".entry .file")).to_have_count(2)
    expect(page.locator(".entry .thumb canvas")).to_have_count(2)
    send(page, "what are these?")
    expect(page.locator(".msg.you .files img")).to_have_count(2)
    expect(answers(page)).to_have_count(2)
    page.reload()
    expect(page.locator(".msg.you .files img")).to_have_count(2)
    expect(page.locator(".entry .file")).to_have_count(0)
    page.get_by_role("link", name="New conversation").click()
    expect(page.locator(".newkey input")).to_have_value("a-key")
    send(page, "hello")
    page.wait_for_url("**/#/conversations/a-key")
    page.get_by_role("link", name="New conversation").click()
    expect(page.locator(".newkey input")).to_have_value("")


def test_a_picked_account_is_not_asked_for_after_a_switch(page: Page, daemon: Daemon) -> None:
    file = daemon.segue.home / "config.toml"
    file.write_text(file.read_text() + ACCOUNTS.format(home=daemon.segue.home))
    page.reload()
    converse(page, daemon, "hello")
    page.get_by_label("Account").select_option("ann")
    send(page, "hello, ann")
    expect(answers(page)).to_have_count(2)
    ran = daemon.segue("account", "switch", "talk", "bob")
    assert ran.code == 0, ran.stderr
    expect(page.get_by_label("Account").locator("option").first).to_have_text("bob")
    send(page, "hello, bob")
    expect(answers(page)).to_have_count(3)
    page.get_by_label("Account").select_option("ann")
    assert daemon.segue("account", "switch", "talk", "cal").code == 0
    expect(page.get_by_label("Account")).to_have_value("")
    send(page, "hello, cal")
    expect(answers(page)).to_have_count(4)
    log = daemon.ask("GET", "/api/v1/conversations/talk/log").json
    assert [each["account"] for each in log if each["from"] == "assistant"] == [None, "ann", "bob", "cal"]


def test_a_pick_holds_for_what_is_queued_behind_it(page: Page, daemon: Daemon) -> None:
    file = daemon.segue.home / "config.toml"
    file.write_text(file.read_text() + ACCOUNTS.format(home=daemon.segue.home))
    page.reload()
    converse(page, daemon, "hello")
    send(page, "[[ask Go on? | yes | no]] [[say first]]")
    expect(page.locator("form.ask")).to_be_visible()
    page.get_by_label("Account").select_option("ann")
    for at, text in enumerate(("one", "two"), 1):
        send(page, f"[[say {text}]]")
        expect(page.locator(".waiting")).to_have_count(at)
    page.locator("form.ask").get_by_label("yes").check()
    page.locator("form.ask").get_by_role("button", name="Answer").click()
    expect(answers(page)).to_have_count(4)
    log = daemon.ask("GET", "/api/v1/conversations/talk/log").json
    assert [each["account"] for each in log if each["from"] == "assistant"] == [None, None, "ann", "ann"]
    expect(page.get_by_label("Account")).to_have_value("")


def test_an_edit_in_the_queue_outlives_a_reload_and_the_start_of_its_run(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "hello")
    send(page, "[[ask Go on? | yes | no]] [[say first]]")
    expect(page.locator("form.ask")).to_be_visible()
    send(page, "[[say second]]")
    page.locator(".waiting").get_by_role("button", name="Edit").click()
    page.locator(".waiting textarea").fill("[[say changed]]")
    page.reload()
    expect(page.locator(".waiting textarea")).to_have_value("[[say changed]]")
    page.locator("form.ask").get_by_label("yes").check()
    page.locator("form.ask").get_by_role("button", name="Answer").click()
    expect(answers(page)).to_have_count(3)
    expect(answers(page).last).to_contain_text("second")
    expect(page.locator("#entry")).to_have_value("[[say changed]]")
    expect(page.locator(".told")).to_have_text(re.compile("This message has begun"))
    page.reload()
    expect(page.locator("#entry")).to_have_value("[[say changed]]")
    expect(page.locator(".waiting")).to_have_count(0)


def test_files_may_be_dropped_anywhere_and_text_is_left_to_the_browser(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "hello")
    data = base64.b64encode(png()).decode()
    assert page.evaluate(DROP, ["drop", "dot.png", data, "image/png", ".dialogue"])
    expect(page.locator(".entry .file")).to_have_count(1)
    assert not page.evaluate(DROP, ["drop", "", "", "", ".dialogue", "some words"])
    assert not page.evaluate(DROP, ["paste", "cells.png", data, "image/png", "#entry", "a\tb"])
    expect(page.locator(".entry .file")).to_have_count(1)


def test_escape_and_a_click_elsewhere_close_what_is_open_and_stop_nothing(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "hello")
    send(page, "[[slow 400 40]] and so on")
    expect(page.locator(".msg[aria-busy]")).to_be_visible()
    for opened, summary in (
        ("details.menu", ".bar-top details.menu > summary"),
        ("details.pick-more", ".pick-more > summary"),
    ):
        page.locator(summary).click()
        expect(page.locator(opened)).to_have_attribute("open", "")
        page.keyboard.press("Escape")
        expect(page.locator(opened)).not_to_have_attribute("open", "")
        page.locator(summary).click()
        page.locator(".bar-top h1").click(position={"x": 2, "y": 2}, force=True)
        expect(page.locator(opened)).not_to_have_attribute("open", "")
    states = [each["state"] for each in daemon.ask("GET", "/api/v1/runs?state=running").json]
    assert states == ["running"]


def test_the_line_is_about_the_conversation_that_the_key_names(page: Page, daemon: Daemon) -> None:
    assert daemon.segue("run", "talk", "remember number 456").code == 0
    plan = page.locator(".composer .plan")
    expect(plan).to_contain_text("A new session of Rehearsal")
    page.locator("#entry").fill("what number?")
    page.locator(".newkey input").fill("talk")
    expect(plan).to_contain_text("Continues Rehearsal's session", timeout=10_000)
    expect(page.locator(".newkey")).to_contain_text("There is such a conversation: the message continues it.")
    page.locator(".newkey input").fill("another")
    expect(plan).to_contain_text("A new session of Rehearsal")
    expect(page.locator(".newkey")).not_to_contain_text("There is such a conversation")


NOT_APPLIED = {
    "en": "[defaults] deny_tools has no effect in this turn",
    "es": "[defaults] deny_tools no tiene efecto en este turno",
}


@pytest.mark.parametrize("language", NOT_APPLIED)
def test_the_line_says_what_will_not_apply(page: Page, daemon: Daemon, language: str) -> None:
    file = daemon.segue.home / "config.toml"
    other = 'deny_tools = ["shell"]\n\n[agents.other]\ncommand = ["cat"]\nstdin = "prompt"\n'
    file.write_text(file.read_text() + other)
    page.evaluate("language => localStorage.setItem('segue.language', language)", language)
    page.reload()
    plan = page.locator(".composer .plan")
    expect(plan).to_contain_text("Rehearsal")
    expect(plan).not_to_contain_text("deny_tools")
    page.locator(".tray select").first.select_option("other")
    expect(plan).to_contain_text(NOT_APPLIED[language], timeout=10_000)


def test_the_panel_says_what_each_check_found(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "remember number 456")
    page.locator(".pick-more > summary").click()
    page.get_by_label("Model").fill("rehearsal-2")
    found = {each["check"]: each for each in plan(daemon, model="rehearsal-2")["checks"]}
    assert found["model"]["verdict"] == "pass"
    assert len(found["model"]["detail"]) > 20
    said = page.locator(".side.r p.why", has=page.locator("b", has_text=re.compile("^model$")))
    expect(said).to_contain_text(found["model"]["detail"][1:], timeout=10_000)


def test_an_edit_of_a_message_is_still_open_after_a_reload(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "hello")
    page.locator(".msg.you").get_by_role("button", name="Edit").dispatch_event("click")
    page.get_by_label("The new text").fill("half a thought")
    page.reload()
    expect(page.get_by_label("The new text")).to_have_value("half a thought", timeout=10_000)
    expect(page.get_by_label("The new text")).not_to_be_focused()
    page.get_by_role("button", name="Cancel").click()
    page.reload()
    expect(answers(page)).to_have_count(1)
    expect(page.locator(".editor")).to_have_count(0)
