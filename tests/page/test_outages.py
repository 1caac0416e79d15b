"""The page and the stream: it stays connected, reads on after an outage, and shows what is true then."""

from __future__ import annotations

import signal
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.integration.conftest import Program
from tests.integration.server.conftest import Daemon, finish, start
from tests.integration.server.test_versions import other_version
from tests.page.conftest import end

ERRORS = ("ERR_", "Failed to load")
COUNTED = """
  window.opened = 0; window.beats = 0;
  window.EventSource = class extends EventSource {
    constructor(address) {
      super(address);
      window.opened += 1;
      this.addEventListener("heartbeat", () => { window.beats += 1; });
    }
  };
"""
"""Counts connections and heartbeats."""


def imported(daemon: Daemon, key: str, count: int) -> None:
    """A conversation with ``message number 0`` and so on."""
    lines = [
        {"from": ("user", "assistant")[n % 2], "text": f"message number {n}", "agent": "rehearsal"}
        for n in range(count)
    ]
    export = {"schema": 1, "key": key, "messages": lines}
    assert daemon.ask("POST", "/api/v1/conversations/import", {"export": export}).status == 201


def test_a_quiet_page_stays_connected_and_a_dead_connection_is_replaced(
    page: Page, daemon: Daemon, segue: Program, tmp_path: Path
) -> None:
    page.expected_errors = ERRORS  # type: ignore[attr-defined]
    end(daemon)
    quicker = {"server/events.py": ("HEARTBEAT_S = 15.0", "HEARTBEAT_S = 0.3")}
    again = start(other_version(segue, tmp_path / "quicker", quicker))
    try:
        page.clock.install()
        page.add_init_script(COUNTED)
        page.goto(again.link)
        page.wait_for_function("() => window.opened === 1")
        for _ in range(8):  # two minutes, with a heartbeat every 15 seconds
            page.evaluate("window.beats = 0")
            page.wait_for_function("() => window.beats > 0")
            page.clock.run_for(15_000)
        assert page.evaluate("window.opened") == 1
        page.evaluate("window.beats = 0")
        page.clock.fast_forward(3_600_000)  # as if nothing had come
        page.wait_for_function("() => window.opened === 2")
    finally:
        finish(again.process)


def test_what_cannot_be_fetched_stays_in_the_list_until_it_is_known_to_be_deleted(
    page: Page, daemon: Daemon
) -> None:
    page.expected_errors = ERRORS  # type: ignore[attr-defined]
    imported(daemon, "one", 2)
    imported(daemon, "two", 2)
    row = page.locator(".row", has_text="one")
    expect(row).to_be_visible()
    page.route("**/api/v1/conversations/one", lambda route: route.fulfill(status=503, json={"kind": "busy"}))
    with page.expect_response("**/api/v1/conversations/one"):
        daemon.ask("PATCH", "/api/v1/conversations/one", {"title": "renamed"})
    daemon.ask("PATCH", "/api/v1/conversations/two", {"title": "the other"})
    expect(page.locator(".row", has_text="the other")).to_be_visible()
    expect(row).to_be_visible()
    page.unroute("**/api/v1/conversations/one")
    daemon.ask("PATCH", "/api/v1/conversations/two", {"title": "once more"})
    expect(page.locator(".row", has_text="renamed")).to_be_visible()
    daemon.segue("rm", "one")
    expect(page.locator(".row", has_text="renamed")).to_have_count(0)
    expect(page.locator(".row")).to_have_count(1)


def test_what_was_opened_during_an_outage_is_there_after_it(page: Page, daemon: Daemon) -> None:
    page.expected_errors = ERRORS  # type: ignore[attr-defined]
    imported(daemon, "first", 4)
    imported(daemon, "second", 4)
    page.locator(".row", has_text="first").locator(".over").click()
    expect(page.get_by_text("message number 3", exact=True)).to_be_visible()
    daemon.end(signal.SIGKILL)
    expect(page.locator(".banner")).to_be_visible()
    page.locator(".row", has_text="second").locator(".over").click()
    expect(page.locator(".dialogue")).to_contain_text("The daemon does not answer.")
    again = start(daemon.segue)
    try:
        expect(page.locator(".banner")).to_have_count(0)
        expect(page.get_by_text("message number 3", exact=True)).to_be_in_viewport()
        expect(page.locator(".dialogue")).not_to_contain_text("The daemon does not answer.")
        expect(page.locator(".composer .plan .mode")).to_be_visible()
        expect(page.locator(".side.r .ladder li")).not_to_have_count(0)
    finally:
        end(again)
