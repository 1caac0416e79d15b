"""The page with the real CLIs: a session that was begun by hand is continued; a budget is raised."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.clis import CLIS
from tests.live.api import Api, serving
from tests.live.conftest import talk
from tests.live.talk import Talk
from tests.live.test_budgets import spend
from tests.page.conftest import WAIT_MS
from tests.page.test_conversations import answers, send

__all__ = ["talk"]

CLAUDE = [("claude", CLIS["claude"].newest)]


@contextmanager
def opened(browser: Browser, api: Api) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-GB")
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    page.goto(str(api.ask("POST", "/api/v1/login-links")[1]["url"]))
    yield page
    context.close()


def main_requests(talk: Talk, after: int) -> list[str]:
    return [msgspec.json.encode(each.body).decode() for each in talk.model.requests[after:] if not each.side]


@pytest.mark.parametrize("talk", CLAUDE, indirect=True, ids=lambda each: each[0])
def test_a_session_begun_in_the_bare_cli_is_continued_from_the_page(talk: Talk, browser: Browser) -> None:
    program = CLIS["claude"].program(CLIS["claude"].newest)
    began = subprocess.run(
        [str(program), "-p", "--output-format", "json", "remember number 4711"],
        cwd=talk.cwd,
        env=talk.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=True,
    )
    session = msgspec.json.decode(began.stdout)["session_id"]
    with serving(talk) as api, opened(browser, api) as page:
        page.goto(f"http://127.0.0.1:{api.port}/#/sessions/claude/{session}")
        page.get_by_role("button", name="Continue here").click()
        page.get_by_role("textbox", name="Key").fill("taken")
        page.get_by_label("What the agent should do next").fill("what number?")
        before = len(talk.model.requests)
        page.get_by_label("What the agent should do next").press("Enter")
        answer = page.locator(".msg[data-run]:not([aria-busy])").last
        expect(answer).to_contain_text("4711")
        expect(answer.locator(".end .mode")).to_have_text("resume")
        log = api.ask("GET", "/api/v1/conversations/taken/log")[1]
    assert (log[-1]["mode"], log[-1]["sent"]["text_messages"]) == ("resume", 1)
    assert [sent.count("remember number 4711") for sent in main_requests(talk, before)] == [1]


@pytest.mark.parametrize("talk", CLAUDE, indirect=True, ids=lambda each: each[0])
def test_a_budget_reached_in_mid_conversation_is_raised_on_the_page(talk: Talk, browser: Browser) -> None:
    spend(talk, 0.5)
    with serving(talk) as api, opened(browser, api) as page:
        page.goto(f"http://127.0.0.1:{api.port}/#/conversations/t")
        expect(answers(page)).to_have_count(1)
        before = len(talk.model.requests)
        send(page, "what number?")
        asked = page.get_by_role("form", name="This run waits for a larger budget")
        expect(asked).to_contain_text("The budget of this conversation is")
        expect(asked.locator("li")).to_contain_text("claude: ")
        (waiting,) = api.ask("GET", "/api/v1/runs?state=needs_you")[1]
        assert main_requests(talk, before) == [], "nothing was sent"
        asked.get_by_label("New budget in $").fill("50")
        asked.get_by_role("button", name="Raise it and go on").click()
        expect(answers(page)).to_have_count(2)
        expect(answers(page).last).to_contain_text("456")
        expect(answers(page).last.locator(".end .mode")).to_have_text("resume")
        expect(asked).to_have_count(0)
        turn = api.finished(waiting["run"])["turn"]
    assert (turn["status"], turn["mode"], len(turn["attempts"])) == ("ok", "resume", 1)
    (sent,) = main_requests(talk, before)
    assert (sent.count("what number?"), sent.count("remember number 456")) == (1, 1)
