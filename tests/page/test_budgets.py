"""A budget that is reached on the page: what is spent and what waits is shown; raising it goes on."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.integration.server.conftest import Daemon
from tests.page.conftest import picture
from tests.page.test_conversations import answers, converse, send

BUDGET = '\n[budgets]\nconversation = 0.000001\n[prices."*"]\ninput = 1000.0\noutput = 5000.0\n'
WORDS = {
    "en": ("This run waits for a larger budget", "The budget of this conversation is", "Raise it and go on"),
    "es": (
        "Este turno espera un presupuesto mayor",
        "El presupuesto de esta conversación",
        "Aumentar y seguir",
    ),
    "zh": ("此次运行等待更高的预算", "此对话的预算为", "提高并继续"),
}


@pytest.fixture
def talk(page: Page, daemon: Daemon) -> Page:
    """A conversation that has spent its budget."""
    file = daemon.segue.home / "config.toml"
    file.write_text(file.read_text() + BUDGET)
    converse(page, daemon, "remember number 456")
    return page


def form(page: Page, language: str = "en") -> Locator:
    return page.get_by_role("form", name=WORDS[language][0])


def test_it_pauses_before_the_next_turn_and_goes_on_when_it_is_raised(talk: Page, daemon: Daemon) -> None:
    send(talk, "what number?")
    asked = form(talk)
    expect(asked).to_have_count(1)
    expect(asked).to_contain_text("The budget of this conversation is <$0.001: <$0.001 spent")
    expect(asked).to_contain_text("this turn: ~$0.0")
    expect(asked.locator("li")).to_contain_text("rehearsal: <$0.001")
    expect(asked).to_contain_text("what number?")
    expect(talk.locator(".sub.t-needs")).to_contain_text("the budget of this conversation")
    picture(talk, "budget")
    talk.reload()
    amount = form(talk).get_by_label("New budget in $")
    assert float(amount.input_value()) > 0
    talk.expected_errors = ("422",)  # type: ignore[attr-defined]
    amount.fill("0.000002")
    talk.reload()
    expect(amount, "what was typed is kept").to_have_value("0.000002")
    form(talk).get_by_role("button", name="Raise it and go on").click()
    expect(talk.locator(".told")).to_contain_text("that is not enough")
    amount.fill("50")
    form(talk).get_by_role("button", name="Raise it and go on").click()
    expect(answers(talk)).to_have_count(2)
    expect(answers(talk).last).to_contain_text("456")
    expect(answers(talk).last.locator(".end .mode")).to_contain_text("resume")
    expect(form(talk)).to_have_count(0)
    send(talk, "what number?")
    expect(answers(talk)).to_have_count(3)


def test_it_can_be_stopped(talk: Page, daemon: Daemon) -> None:
    send(talk, "what number?")
    form(talk).get_by_role("button", name="Stop", exact=True).click()
    expect(form(talk)).to_have_count(0)
    expect(talk.locator(".msg.you.off")).to_contain_text("you stopped it")
    assert [each["state"] for each in daemon.ask("GET", "/api/v1/runs?state=withdrawn").json] == ["withdrawn"]


def test_what_a_command_left_is_raised_on_the_page(talk: Page, daemon: Daemon) -> None:
    ran = daemon.segue("run", "talk", "what number?", "--json")
    assert (ran.code, ran.turn["failure"]["kind"]) == (1, "budget")
    asked = form(talk)
    expect(asked).to_have_count(1)
    asked.get_by_label("New budget in $").fill("50")
    asked.get_by_role("button", name="Raise it and go on").click()
    expect(answers(talk)).to_have_count(2)
    expect(answers(talk).last).to_contain_text("456")
    expect(form(talk)).to_have_count(0)


@pytest.mark.parametrize("language", WORDS)
def test_it_is_asked_in_each_language(talk: Page, language: str) -> None:
    send(talk, "what number?")
    expect(form(talk)).to_have_count(1)
    talk.evaluate("language => localStorage.setItem('segue.language', language)", language)
    talk.reload()
    _, budget, go_on = WORDS[language]
    expect(form(talk, language)).to_contain_text(budget)
    expect(form(talk, language).get_by_role("button", name=go_on)).to_be_visible()
