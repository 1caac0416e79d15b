"""The page with the real CLIs: a session that was begun by hand is continued, with nothing sent again."""

from __future__ import annotations

import subprocess

import msgspec
import pytest
from playwright.sync_api import Browser, expect

from tests.clis import CLIS
from tests.live.api import serving
from tests.live.conftest import talk
from tests.live.talk import Talk
from tests.page.conftest import WAIT_MS

__all__ = ["talk"]

CLAUDE = [("claude", CLIS["claude"].newest)]


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
    with serving(talk) as api:
        context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-GB")
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        page.goto(str(api.ask("POST", "/api/v1/login-links")[1]["url"]))
        page.goto(f"http://127.0.0.1:{api.port}/#/sessions/claude/{session}")
        page.get_by_role("button", name="Continue here").click()
        page.get_by_role("textbox", name="Key").fill("taken")
        page.get_by_label("What the agent should do next").fill("what number?")
        before = len(talk.model.requests)
        page.get_by_label("What the agent should do next").press("Enter")
        answer = page.locator(".msg[data-run]:not([aria-busy])").last
        expect(answer).to_contain_text("4711")
        expect(answer.locator(".end .mode")).to_have_text("resume")
        context.close()
        log = api.ask("GET", "/api/v1/conversations/taken/log")[1]
    assert (log[-1]["mode"], log[-1]["sent"]["text_messages"]) == ("resume", 1)
    sent = [request for request in talk.model.requests[before:] if not request.side]
    assert [msgspec.json.encode(each.body).decode().count("remember number 4711") for each in sent] == [1]
