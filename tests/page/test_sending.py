"""What was written is sent once and not lost: answers that do not come, a full store, hidden tabs."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.integration.server.conftest import Daemon
from tests.page.session_files import rehearsal
from tests.page.test_conversations import answers, converse, send
from tests.page.test_outages import ERRORS


def lose_answers(page: Page, path: str = "**/conversations/*/runs") -> None:
    """The daemon gets runs, and the page does not hear of it."""

    def lose(route: Route) -> None:
        if route.request.method == "POST":
            route.fetch()
            route.abort()
        else:
            route.continue_()

    page.expected_errors = ERRORS  # type: ignore[attr-defined]
    page.route(path, lose)


def said(daemon: Daemon) -> list[str]:
    """The texts of the users' messages in all conversations."""
    keys = [each["key"] for each in daemon.ask("GET", "/api/v1/conversations").json]
    logs = [daemon.ask("GET", f"/api/v1/conversations/{key}/log").json for key in keys]
    return [each["text"] for log in logs for each in log if each["from"] == "user"]


@pytest.mark.parametrize("reload", [False, True])
def test_a_message_whose_answer_was_lost_is_sent_once(page: Page, daemon: Daemon, reload: bool) -> None:
    converse(page, daemon, "hello")
    lose_answers(page)
    send(page, "remember number 456")
    expect(page.locator(".told")).to_contain_text("The daemon does not answer.")
    expect(page.locator("#entry")).to_have_value("remember number 456")
    expect(answers(page)).to_have_count(2)
    page.unroute("**/conversations/*/runs")
    if reload:
        page.reload()
    expect(page.locator("#entry")).to_have_value("remember number 456")
    page.locator("#entry").press("Enter")
    expect(page.locator("#entry")).to_have_value("")
    send(page, "what number?")
    expect(answers(page)).to_have_count(3)
    assert said(daemon) == ["hello", "remember number 456", "what number?"]


def test_the_first_message_whose_answer_was_lost_makes_one_conversation(page: Page, daemon: Daemon) -> None:
    lose_answers(page)
    send(page, "remember number 456")
    expect(page.locator(".row")).to_have_count(1)
    expect(page.locator("#entry")).to_have_value("remember number 456")
    page.unroute("**/conversations/*/runs")
    page.locator("#entry").press("Enter")
    expect(answers(page)).to_have_count(1)
    assert said(daemon) == ["remember number 456"]


@pytest.mark.parametrize("reload", [False, True])
def test_a_session_is_continued_once_if_the_answer_was_lost(page: Page, daemon: Daemon, reload: bool) -> None:
    path = rehearsal(daemon.home.parent, ("remember number 777", "Noted: 777."), cwd=str(daemon.segue.cwd))
    page.goto(f"{daemon.url}/#/sessions/rehearsal/{path.stem}")
    begin = page.get_by_role("button", name="Continue here")
    begin.click()
    entry = page.get_by_label("What the agent should do next")
    entry.fill("what number?")
    lose_answers(page, "**/continue")
    entry.press("Enter")
    expect(page.locator(".told")).to_contain_text("The daemon does not answer.")
    page.unroute("**/continue")
    if reload:
        page.reload()
        begin.click()
    expect(entry).to_have_value("what number?")
    entry.press("Enter")
    expect(page).to_have_url(re.compile("#/conversations/rehearsal-"))
    expect(answers(page).last).to_contain_text("777")
    assert said(daemon).count("what number?") == 1


def test_a_retry_whose_answer_was_lost_runs_once(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "hello")
    lose_answers(page)
    retry = page.locator(".msg.you").get_by_role("button", name="Retry")
    versions = answers(page).get_by_role("group", name="Versions of this message")
    retry.dispatch_event("click")
    expect(page.locator(".told")).to_contain_text("The daemon does not answer.")
    expect(versions).to_contain_text("2/2")
    page.unroute("**/conversations/*/runs")
    with page.expect_response("**/conversations/*/runs"):
        retry.dispatch_event("click")
    send(page, "and on")
    expect(answers(page)).to_have_count(2)
    expect(versions.first).to_contain_text("2/2")


def test_a_message_is_kept_until_it_is_accepted(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "hello")
    page.expected_errors = ERRORS  # type: ignore[attr-defined]
    held: list[Route] = []
    page.route("**/conversations/*/runs", lambda route: held.append(route))
    send(page, "remember number 456")
    expect(page.locator("#entry")).to_have_value("")
    page.wait_for_timeout(100)
    assert len(held) == 1
    page.locator("#entry").fill("and this")
    other = page.context.new_page()  # as after a crash
    other.goto(page.url)
    expect(other.locator("#entry")).to_have_value("remember number 456\n\nand this")
    held[0].continue_()
    expect(answers(page)).to_have_count(2)
    other.reload()
    expect(other.locator("#entry")).to_have_value("and this")


FILL = """() => {
  let size = 1 << 20;
  for (let n = 0; size > 8; ) {
    try {
      localStorage.setItem(`segue.edit:${n}`, JSON.stringify("x".repeat(size)));
      n += 1;
    } catch { size >>= 1; }
  }
}"""


def test_in_a_full_store_old_drafts_give_way_to_new_ones(page: Page, daemon: Daemon) -> None:
    page.locator("#entry").fill("for a new conversation")
    daemon.segue("run", "talk", "hello")
    page.locator(".row", has_text="talk").locator(".over").click()
    expect(answers(page)).to_have_count(1)
    page.evaluate(FILL)
    page.locator("#entry").fill("half a thought " * 20)
    page.reload()
    expect(page.locator("#entry")).to_have_value("half a thought " * 20)
    page.goto(f"{daemon.url}/#/conversations")
    expect(page.locator("#entry")).to_have_value("for a new conversation")


TAB = """
  window.hidden_ = false;
  window.sources = [];
  window.told = [];
  window.Notification = class { constructor(title, more) { window.told.push(more.body); } };
  Notification.permission = "granted";
  Object.defineProperty(document, "visibilityState", { get: () => (window.hidden_ ? "hidden" : "visible") });
  window.EventSource = class extends EventSource {
    constructor(address) { super(address); window.sources.push(this); }
  };
  window.isConnected_ = () => window.sources.some((each) => each.readyState === 1);
  window.show_ = (shown) => {
    window.hidden_ = !shown;
    document.dispatchEvent(new Event("visibilitychange"));
  };
"""


def until(tab: Page, true: str) -> None:
    """Wait in a tab that may be hidden: it has no frames."""
    tab.wait_for_function(f"() => {true}", polling=100)


def test_hidden_tabs_take_over_the_connection_from_each_other(page: Page, daemon: Daemon) -> None:
    daemon.segue("run", "first", "hello")
    tabs = [page.context.new_page() for _ in range(3)]
    for tab in tabs:
        tab.add_init_script(TAB)
        tab.goto(daemon.url)
        expect(tab.locator(".row")).to_have_count(1)
        until(tab, "window.isConnected_()")
    first, second, third = tabs
    for tab in tabs:
        tab.evaluate("show_(false)")
        if tab is not first:
            until(tab, "!window.isConnected_()")
    assert first.evaluate("isConnected_()")
    first.close()
    until(second, "window.isConnected_()")
    assert not third.evaluate("isConnected_()")
    second.evaluate("show_(true)")
    until(third, "window.isConnected_()")
    run = {"message": "[[ask Which one? | a | b]]", "answers": True}
    daemon.ask("POST", "/api/v1/conversations/asking/runs", run)
    until(third, "window.told.length > 0")
    assert third.evaluate("window.told") == ["Which one?"]
    second.close()
    third.close()
