"""Pictures of every view for the documentation: light, dark, and as wide as a phone. ``make screenshots``.

A view that this tree does not have yet is left out, and said so. To add one, add a line to ``VIEWS``.
"""

from __future__ import annotations

import argparse
import base64
import os
import shutil
import struct
import sys
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from tests import isolation
from tests.integration.conftest import Program
from tests.integration.server.conftest import Daemon, finish, start
from tests.page import stage
from tests.page.conftest import ARGUMENTS, whole_browser

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


def _press(what: str) -> Callable[[Page], None]:
    """Click the last of these, if there are any: it opens the details beside the view."""

    def press(page: Page) -> None:
        page.wait_for_timeout(SETTLED_MS)
        if found := page.locator(what).all():
            found[-1].click()

    return press


SMALLER = """async (data) => {
  const image = await createImageBitmap(await (await fetch(data)).blob());
  const { width, height } = image;
  const pen = new OffscreenCanvas(width, height).getContext("2d");
  pen.drawImage(image, 0, 0);
  const pixels = new Uint32Array(pen.getImageData(0, 0, width, height).data.buffer);
  const counts = new Map();
  for (const each of pixels) counts.set(each, (counts.get(each) ?? 0) + 1);
  const parts = (colour) => [colour & 255, (colour >>> 8) & 255, (colour >>> 16) & 255];
  const left = [...counts].map(([colour, count]) => ({
    colour, rgb: parts(colour), weight: Math.sqrt(count), place: 0, far: Infinity,
  }));
  const chosen = [];
  while (chosen.length < Math.min(256, left.length)) {
    const score = (each) => each.weight * Math.min(each.far, 1e9);
    const next = left.reduce((best, each) => (score(each) > score(best) ? each : best));
    for (const each of left) {
      const far = each.rgb.reduce((sum, value, at) => sum + (value - next.rgb[at]) ** 2, 0);
      if (far < each.far) Object.assign(each, { far, place: chosen.length });
    }
    chosen.push(next.colour);
  }
  const places = new Map(left.map((each) => [each.colour, each.place]));
  const indexed = Uint8Array.from(pixels, (each) => places.get(each));
  let text = "";
  for (let at = 0; at < indexed.length; at += 32768)
    text += String.fromCharCode(...indexed.subarray(at, at + 32768));
  return { colours: chosen, width, height, indexed: btoa(text) };
}"""
"""A picture with 256 colours: what is frequent or far from the others; for the rest, the nearest."""


def smaller(page: Page, data: bytes) -> bytes:
    """The same picture, as a PNG with a palette. ``page``: any page of a browser, to compute in."""
    found = page.evaluate(SMALLER, f"data:image/png;base64,{base64.b64encode(data).decode()}")
    width, height, indexed = found["width"], found["height"], base64.b64decode(found["indexed"])
    palette = b"".join(bytes((each & 255, each >> 8 & 255, each >> 16 & 255)) for each in found["colours"])
    lines = b"".join(b"\0" + indexed[at : at + width] for at in range(0, width * height, width))
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    parts = ((b"IHDR", header), (b"PLTE", palette), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in parts
    )


VIEWS = (
    View("conversation", "conversations/fix-auth", ".msg", before=_press(".end .mode")),
    View("question", "conversations/checkout-worker", ".ask"),
    View("queue", "conversations/token-refresh", ".waiting"),
    View("limit", "conversations/start-up", ".msg, .waiting"),
    View("failure", "conversations/pr-481", ".msg"),
    View("new", "conversations", ".row"),
    View("lineage", "lineage/fix-auth", "main", "lineage-view.js", before=_press(".lin.large li button")),
    View(
        "sessions",
        "sessions",
        "main",
        "sessions.js",
        before=_press("table.ses tr[data-name]:has-text('Expired')"),
    ),
    View("flows", "flows/{asks}", ".flow .ask", "flows.js"),
    View(
        "flow", "flows/{done}", ".flow .chained", "flows.js", before=_press(".stepkey:has-text('reviewer/1')")
    ),
    View("chain", "chain/{done}", ".chained", "chain-view.js"),
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
    folder = _folder()
    try:
        return _take(folder, [each for each in wanted if (PAGE / each.module).exists()], given.to)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _folder() -> Path:
    """A new directory, with a short name if it is free: the page shows it."""
    short = Path(tempfile.gettempdir(), "work")
    try:
        short.mkdir(mode=0o700)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="work-"))
    return short


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
        named = stage.flows(daemon) if any("{" in each.address for each in views) else {}
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=whole_browser(), args=list(ARGUMENTS))
            try:
                large = [
                    each for form in FORMS for each in _pictures(browser, daemon, views, form, target, named)
                ]
            finally:
                browser.close()
    finally:
        stage.end(daemon)
        finish(daemon.process)
    for each in large:
        print(f"{each}: larger than {MOST_BYTES:,} bytes", file=sys.stderr)
    return 1 if large else 0


def _pictures(
    browser: Browser, daemon: Daemon, views: list[View], form: str, target: Path, named: dict[str, str]
) -> list[Path]:
    """Take the views in one form; returns the pictures that are too large. ``named``: the flows."""
    scheme, size = FORMS[form]
    context = browser.new_context(viewport=size, color_scheme=scheme, locale="en-GB", reduced_motion="reduce")  # type: ignore[arg-type]
    blank, page = context.new_page(), context.new_page()
    page.goto(daemon.ask("POST", "/api/v1/login-links").json["url"])
    large: list[Path] = []
    for view in views:
        page.goto(f"{daemon.url}/#/{view.address.format(**named)}")
        page.locator(view.shows).first.wait_for(timeout=60_000)
        if view.before is not None and form != "phone":
            view.before(page)
        page.mouse.move(0, 0)
        page.wait_for_timeout(SETTLED_MS)
        file = target / f"{view.name}-{form}.png"
        file.write_bytes(smaller(blank, page.screenshot()))
        print(f"{file.name}: {file.stat().st_size:,} bytes")
        if file.stat().st_size >= MOST_BYTES:
            large.append(file)
    context.close()
    return large


if __name__ == "__main__":
    sys.exit(main())
