"""The page in a real Chromium, served by a real daemon in a home of its own, with loopback alone."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright

from tests import isolation
from tests.integration.conftest import Program, segue
from tests.integration.server.conftest import Daemon, finish, start

__all__ = ["segue"]

WAIT_MS = 60_000
"""How long something may take on a busy machine."""
ARGUMENTS = (
    "--no-sandbox",  # as root there is none
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
)
expect.set_options(timeout=WAIT_MS)


def whole_browser() -> str | None:
    """Chromium with its windows. The headless shell is the same without them, and needs less time."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="session")
def playwright_() -> Iterator[Playwright]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session", autouse=True)
def alone() -> None:
    obstacle = isolation.enter()
    if obstacle:
        pytest.fail(f"no isolation: {obstacle}") if os.environ.get("CI") else pytest.skip(obstacle)


@pytest.fixture(scope="session")
def browser(alone: None, playwright_: Playwright) -> Iterator[Browser]:
    program = shutil.which("chromium-headless-shell") or whole_browser()
    if program is None:
        pytest.fail("chromium is missing: make packages")
    started = playwright_.chromium.launch(executable_path=program, args=list(ARGUMENTS))
    yield started
    started.close()


@pytest.fixture
def daemon(segue: Program) -> Iterator[Daemon]:
    segue.config('[defaults]\nagent = "rehearsal"\n')
    started = start(segue)
    yield started
    end(started)


def end(daemon: Daemon) -> None:
    """End a daemon, and before it all agents that still work or wait for an answer."""
    with suppress(OSError):
        for run in daemon.ask("GET", "/api/v1/runs").json:
            daemon.ask("POST", f"/api/v1/runs/{run['run']}/cancel")
        for _ in range(100):
            if not daemon.ask("GET", "/api/v1/runs?state=running&state=needs_you").json:
                break
            time.sleep(0.1)
    finish(daemon.process)


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-GB", color_scheme="light")
    made.set_default_timeout(WAIT_MS)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext, daemon: Daemon) -> Iterator[Page]:
    """The page, logged in. A test fails if the page logs an error, or asks for anything but the daemon."""
    opened = context.new_page()
    wrong: list[str] = []
    opened.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on(
        "request",
        lambda asked: None if asked.url.startswith((daemon.url, "data:")) else wrong.append(asked.url),
    )
    opened.goto(daemon.link)
    yield opened
    expected = getattr(opened, "expected_errors", ())
    left = [each for each in wrong if not any(part in each for part in expected)]
    assert left == []


def picture(page: Page, name: str) -> None:
    """Keep a picture of the page, if somebody asks for pictures (``SEGUE_PICTURES``)."""
    if folder := os.environ.get("SEGUE_PICTURES"):
        page.screenshot(path=Path(folder) / f"{name}.png")
