"""The account switcher: what is asked before anything crosses, in three languages, and what is shown then."""

from __future__ import annotations

import msgspec
import pytest
from playwright.sync_api import Page, expect

from tests.integration.server.conftest import Daemon
from tests.page.conftest import picture
from tests.page.test_conversations import answers, converse, send

ACCOUNTS = '\n[accounts.{name}]\nagent = "rehearsal"\nhome = "{home}"\n'
CONSENT = {
    "en": ("Carry over conversation context", "sent to the provider under the new account"),
    "es": ("Llevar el contexto de la conversación", "se envía entonces al proveedor con la cuenta nueva"),
    "zh": ("带上对话上下文", "以新账户的身份发送给服务商"),
}


@pytest.fixture
def talk(page: Page, daemon: Daemon) -> Page:
    file = daemon.segue.home / "config.toml"
    known = file.read_text() if file.exists() else ""
    homes = "".join(ACCOUNTS.format(name=name, home=daemon.segue.home / name) for name in ("ann", "bob"))
    file.write_text(known + homes)
    page.reload()
    page.locator(".pick-more > summary").click()
    page.get_by_label("Account").select_option("ann")
    page.locator(".pick-more > summary").click()
    converse(page, daemon, "remember number 456", "what number?")
    return page


def open_switcher(page: Page) -> None:
    page.locator(".bar-top .menu > summary").click()
    page.locator(".menu-in button:visible").nth(3).click()
    expect(page.locator("dialog[open] input[type=checkbox]")).to_be_visible()


def test_nothing_crosses_unless_the_box_is_ticked(talk: Page, daemon: Daemon) -> None:
    open_switcher(talk)
    box = talk.get_by_label("Carry over conversation context")
    expect(box).not_to_be_checked()
    expect(talk.locator("#consent")).to_be_visible()
    picture(talk, "switcher")
    talk.get_by_label("Continue under").select_option("bob")
    talk.get_by_role("button", name="Switch", exact=True).click()
    expect(talk.locator(".told")).to_contain_text("Nothing was carried over")
    send(talk, "what number?")
    expect(answers(talk)).to_have_count(3)
    expect(answers(talk).last.locator(".end .mode")).to_contain_text("fresh")
    expect(answers(talk).last).not_to_contain_text("456")


def test_what_is_carried_over_is_shown_and_known(talk: Page, daemon: Daemon) -> None:
    open_switcher(talk)
    talk.get_by_label("Continue under").select_option("bob")
    talk.get_by_label("Carry over conversation context").first.check()
    talk.get_by_role("button", name="Switch", exact=True).click()
    expect(talk.locator(".told")).to_contain_text("with 2 turns (")
    (row,) = msgspec.json.decode(daemon.segue("account", "audit", "--json").stdout)
    assert (row["mode"], row["asked_by"]) == ("raw", "page")
    expect(talk.locator("details.carried")).to_be_visible()
    talk.locator("details.carried > summary").click()
    expect(talk.locator("details.carried")).to_contain_text("remember number 456")
    send(talk, "what number?")
    expect(answers(talk)).to_have_count(3)
    expect(answers(talk).last).to_contain_text("456")
    expect(answers(talk).last.locator(".end .mode")).to_contain_text("recap")
    picture(talk, "carried")


def test_why_there_is_no_summary_is_shown(talk: Page, daemon: Daemon) -> None:
    limited = daemon.segue("run", "other", "[[limit 5h 1 3600]][[error 429]]", "--account", "ann")
    assert limited.code == 75, limited.stderr
    open_switcher(talk)
    talk.get_by_label("Continue under").select_option("bob")
    talk.get_by_label("Carry over conversation context").first.check()
    talk.get_by_role("button", name="A summary").click()
    talk.get_by_role("button", name="Switch", exact=True).click()
    expect(talk.locator(".told")).to_contain_text("with 2 turns as they are (")
    expect(talk.locator(".told")).to_contain_text("not summarised: its account is limited")


@pytest.mark.parametrize("language", CONSENT)
def test_the_consent_is_asked_in_each_language(talk: Page, language: str) -> None:
    talk.evaluate("language => localStorage.setItem('segue.language', language)", language)
    talk.reload()
    open_switcher(talk)
    box, text = CONSENT[language]
    expect(talk.get_by_label(box).first).not_to_be_checked()
    expect(talk.locator("#consent")).to_contain_text(text)
