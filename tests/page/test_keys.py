"""The keyboard: Enter in the search, keys that write signs, messages at the edge of what is drawn, touch."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.integration.server.conftest import Daemon
from tests.page.test_conversations import answers, converse


def compose(page: Page, text: str) -> None:
    """Begin to write a sign, as an input method does."""
    session = page.context.new_cdp_session(page)
    place = {"selectionStart": len(text), "selectionEnd": len(text)}
    session.send("Input.imeSetComposition", {"text": text, **place})
    session.detach()


@pytest.mark.parametrize(
    ("wanted", "found", "hurried"),
    [("two", "a title", False), ("needle two", "a message", False), ("needle two", "a message", True)],
)
def test_enter_in_the_search_opens_what_was_found(
    page: Page, daemon: Daemon, wanted: str, found: str, hurried: bool
) -> None:
    for key in ("one", "two", "three"):
        assert daemon.segue("run", key, "hello").code == 0
        assert daemon.segue("run", key, f"[[say needle {key}]]").code == 0
    expect(page.locator(".row")).to_have_count(3)
    page.keyboard.press("/")
    page.keyboard.type(wanted)
    if found == "a message" and not hurried:
        expect(page.locator(".row.hit")).to_have_count(2)  # what was said, and its answer
    page.keyboard.press("Enter")
    page.wait_for_url("**/#/conversations/two**", timeout=10_000)
    expect(answers(page).last).to_contain_text("needle two")
    expect(page.locator("#find")).not_to_be_focused()
    if found == "a message":
        expect(page.locator(".msg.found")).to_be_visible()


def test_keys_that_write_a_sign_do_nothing_else(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "hello")
    page.locator(".msg.you").get_by_role("button", name="Edit").dispatch_event("click")
    field = page.get_by_label("The new text")
    expect(field).to_be_focused()
    field.fill("half a thought ")
    compose(page, "ni")
    page.keyboard.press("Escape")
    page.wait_for_timeout(200)
    assert field.count() == 1, "it was closed, and what was written is lost"
    compose(page, "")
    field.press("Escape")
    expect(field).to_have_count(0)

    title = page.locator(".bar-top .title")
    title.click()
    rename = page.get_by_role("textbox", name="Rename")
    rename.fill("")
    compose(page, "ni")
    page.keyboard.press("Enter")
    page.wait_for_timeout(200)
    assert rename.count() == 1
    compose(page, "")
    rename.press("Escape")

    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Conversations").fill("usage")
    compose(page, "ni")
    page.keyboard.press("Enter")
    page.wait_for_timeout(200)
    assert page.get_by_role("dialog").count() == 1
    assert page.url.endswith("#/conversations/talk")


def test_an_answer_that_is_drawn_apart_from_its_message_is_edited(page: Page, daemon: Daemon) -> None:
    sides = ["user", *["user", "assistant"] * 12]
    lines = [
        {"from": side, "text": f"message number {n}", "agent": "rehearsal"} for n, side in enumerate(sides, 1)
    ]
    export = {"schema": 1, "key": "long", "messages": lines}
    assert daemon.ask("POST", "/api/v1/conversations/import", {"export": export}).status == 201
    page.goto(f"{daemon.url}/#/conversations/long")
    for number in range(17, 26, 2):
        page.locator(".msg", has_text=f"message number {number}").focus()
        page.keyboard.press("e")
        expect(page.get_by_label("The new text")).to_have_value(
            f"message number {number - 1}", timeout=10_000
        )
        page.locator(".editor").get_by_role("button", name="Cancel").click()
        expect(page.locator(".editor")).to_have_count(0)


def test_on_a_touched_screen_enter_begins_a_line(browser: Browser, daemon: Daemon) -> None:
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True, locale="en-GB"
    )
    page = context.new_page()
    page.goto(str(daemon.ask("POST", "/api/v1/login-links").json["url"]))
    entry = page.locator("#entry")
    entry.tap()
    page.keyboard.type("one")
    page.keyboard.press("Enter")
    page.keyboard.type("two")
    expect(entry).to_have_value("one\ntwo", timeout=10_000)
    page.get_by_role("button", name="Send").tap()
    expect(answers(page)).to_have_count(1)
    context.close()
