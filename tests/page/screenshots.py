"""Pictures of every view for the documentation: light, dark, and as wide as a phone. ``make screenshots``.

A view that this tree does not have yet is left out, and said so. To add one, add a line to ``VIEWS``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests import isolation
from tests.integration.conftest import Program
from tests.integration.server.conftest import Daemon, finish, start
from tests.page import stage
from tests.page.conftest import ARGUMENTS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "src" / "segue" / "server" / "page"
MOST_BYTES = 250_000
WIDE, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
FORMS = {"light": ("light", WIDE), "dark": ("dark", WIDE), "phone": ("light", PHONE)}
SETTLED_MS = 1200
"""After the view is there: fonts, charts and pages that are read in the background."""


@dataclass(frozen=True)
class View:
    """A view: its name, its address, what must be on it, and the module that it needs."""

    name: str
    address: str
    shows: str
    module: str = "conversation.js"
    before: Callable[[Page], object] | None = None


def _why(page: Page) -> None:
    """Open the ladder of the last turn."""
    if badge := page.locator(".end .mode").all():
        badge[-1].click()


VIEWS = (
    View("conversation", "conversations/fix-auth", ".msg", before=_why),
    View("question", "conversations/checkout-worker", ".ask"),
    View("queue", "conversations/token-refresh", ".waiting"),
    View("limit", "conversations/start-up", ".msg"),
    View("failure", "conversations/pr-481", ".msg"),
    View("new", "conversations", ".row"),
    View("lineage", "lineage/fix-auth", "main", "lineage-view.js"),
    View("sessions", "sessions", "main", "sessions.js"),
    View("usage", "usage/30/mode/cost", ".stack canvas", "usage.js"),
    View("usage-conversations", "usage/30/conversation/new", ".stack canvas", "usage.js"),
    View("setup", "setup", "main", "setup.js"),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "images", help="where to put them")
    parser.add_argument("views", nargs="*", help="only these; all if none is named")
    given = parser.parse_args()
    if unknown := set(given.views) - {each.name for each in VIEWS}:
        known = ", ".join(each.name for each in VIEWS)
        parser.error(f"there is no view {', '.join(sorted(unknown))}; there are {known}")
    if obstacle := isolation.enter():
        print(f"without isolation: {obstacle}", file=sys.stderr)
    wanted = [each for each in VIEWS if not given.views or each.name in given.views]
    for each in wanted:
        if not (PAGE / each.module).exists():
            print(f"{each.name}: left out, there is no {each.module}")
    given.to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="segue-pictures-") as folder:
        return _take(Path(folder), [each for each in wanted if (PAGE / each.module).exists()], given.to)


def _take(folder: Path, views: list[View], target: Path) -> int:
    (folder / "app").mkdir()
    env = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "SEGUE_HOME": str(folder / "home"),
    }
    segue = stage.program(Program(folder / "home", folder / "app", env))
    stage.past(segue)
    daemon = start(segue)
    try:
        stage.present(daemon)
        with sync_playwright() as playwright:
            program = (
                shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
            )
            browser = playwright.chromium.launch(executable_path=program, args=list(ARGUMENTS))
            try:
                large = [each for form in FORMS for each in _pictures(browser, daemon, views, form, target)]
            finally:
                browser.close()
    finally:
        for run in daemon.ask("GET", "/api/v1/queue").json:
            daemon.ask("DELETE", f"/api/v1/queue/{run['run']}")
        segue("cancel", "token-refresh")
        segue("cancel", "checkout-worker")
        finish(daemon.process)
    for each in large:
        print(f"{each}: larger than {MOST_BYTES:,} bytes", file=sys.stderr)
    return 1 if large else 0


def _pictures(browser: Browser, daemon: Daemon, views: list[View], form: str, target: Path) -> list[Path]:
    """Take the views in one form; returns the pictures that are too large."""
    scheme, size = FORMS[form]
    context = browser.new_context(viewport=size, color_scheme=scheme, locale="en-GB", reduced_motion="reduce")  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(daemon.ask("POST", "/api/v1/login-links").json["url"])
    large: list[Path] = []
    for view in views:
        page.goto(f"{daemon.url}/#/{view.address}")
        page.locator(view.shows).first.wait_for(timeout=60_000)
        if view.before is not None and form != "phone":
            view.before(page)
        page.mouse.move(0, 0)
        page.wait_for_timeout(SETTLED_MS)
        file = target / f"{view.name}-{form}.png"
        page.screenshot(path=file)
        print(f"{file.name}: {file.stat().st_size:,} bytes")
        if file.stat().st_size >= MOST_BYTES:
            large.append(file)
    context.close()
    return large


if __name__ == "__main__":
    sys.exit(main())
