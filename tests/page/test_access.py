"""The page for everybody: no serious finding of axe-core in any view, in both themes, in three languages."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.integration.server.conftest import Daemon
from tests.page.conftest import picture
from tests.page.test_conversations import answers, converse, send
from tests.page.tools import AXE

VIEWS = ("conversations", "conversations/talk", "sessions", "flows", "usage", "setup", "lineage/talk")


def fill(page: Page, daemon: Daemon) -> None:
    page.locator(".pick-more > summary").click()
    page.get_by_label("Permission").select_option("full")
    first = "remember 456 [[think hard]] [[shell echo hello]] [[say Noted: **456**.\n\n```py\nx = 1\n```\n]]"
    converse(page, daemon, first, "what number?")
    send(page, "[[ask Which one? | the first | the second]]")
    expect(page.locator("form.ask")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(page: Page, daemon: Daemon, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light", reduced_motion="reduce")
    fill(page, daemon)
    for view in VIEWS:
        page.goto(f"{daemon.url}/#/{view}")
        expect(page.locator("#main")).to_be_visible()
        page.wait_for_timeout(700)
        picture(page, f"axe-{view.replace('/', '-')}-{scheme}")
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


@pytest.mark.parametrize(
    ("language", "send_word"), [("en", "Send"), ("es", "Enviar"), ("zh", "发送")], ids=["en", "es", "zh"]
)
def test_three_languages(page: Page, daemon: Daemon, language: str, send_word: str) -> None:
    page.evaluate("language => localStorage.setItem('segue.language', language)", language)
    page.reload()
    expect(page.locator(".composer .btn.primary")).to_have_text(send_word)
    assert page.evaluate("document.documentElement.lang") == language
    send(page, "remember number 456")
    expect(answers(page)).to_have_count(1)
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    picture(page, f"language-{language}")


def test_every_view_works_by_keyboard_alone(page: Page, daemon: Daemon) -> None:
    page.locator("#entry").focus()
    page.keyboard.type("remember number 456")
    page.keyboard.press("Enter")
    expect(answers(page)).to_have_count(1)
    page.locator(".dialogue").focus()
    for key, view in (
        ("2", "sessions"),
        ("3", "flows"),
        ("4", "usage"),
        ("5", "setup"),
        ("1", "conversations"),
    ):
        page.keyboard.press(key)
        page.wait_for_url(f"**/#/{view}")
    page.keyboard.press("j")
    expect(page.locator(".row[aria-current]")).to_be_visible()
    expect(answers(page)).to_have_count(1)
    page.keyboard.press("c")
    expect(page.locator("#entry")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("w")
    page.keyboard.press("e")
    expect(page.locator(".editor textarea")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".editor")).to_have_count(0)


def test_nothing_moves_by_itself_for_who_wants_it_so(page: Page, daemon: Daemon) -> None:
    page.locator(".newkey input").fill("talk")
    send(page, "[[slow 400 400]] and so on")
    expect(page.locator(".row .st.running")).to_be_visible()
    moves = "() => document.getAnimations().map((each) => each.animationName)"
    assert "turn" in page.evaluate(moves)
    page.emulate_media(reduced_motion="reduce")
    page.wait_for_function(f"() => ({moves})().length === 0")
