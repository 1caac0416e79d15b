"""The view of usage in a browser: its figures, chart and tables, live, in files, and with hostile texts."""

from __future__ import annotations

import csv
import io
import json
import re
import sqlite3
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.database import database
from tests.integration.server.conftest import Daemon
from tests.page.tools import AXE

PRICES = """
[defaults]
agent = "rehearsal"

[prices."rehearsal-*"]
input = 1.0
output = 5.0
cache_read = 0.1
cache_write = 1.25
"""
HOSTILE = (
    '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>\x1b[31mred\x1b[0m \u202egnp.exe'
)
LONG = HOSTILE + "A" * 5_000_000


@pytest.fixture
def used(daemon: Daemon) -> Daemon:
    """Two turns of today: the second continues the session."""
    daemon.segue.config(PRICES)
    for text in ("remember number 456", "what number?"):
        done = daemon.segue("run", "alpha", text, stdin=b"context " * 2000 if "456" in text else None)
        assert done.code == 0, done.stderr
    return daemon


def open_usage(page: Page, *parts: str) -> None:
    page.goto(f"{page.url.partition('#')[0]}#/{'/'.join(('usage', *parts))}")
    expect(page.get_by_role("heading", name="Usage", level=1)).to_be_visible()


def figure(page: Page, name: str) -> Locator:
    return page.locator(f'[data-figure="{name}"] dd')


def table(page: Page, name: str) -> Locator:
    return page.locator(f'[data-table="{name}"]')


def copies(daemon: Daemon, *changes: dict[str, Any]) -> None:
    """Write copies of the newest turn into the store, each with some columns changed."""
    with database(daemon.home / "segue.db") as store:
        store.row_factory = sqlite3.Row
        row = dict(store.execute("SELECT * FROM turns ORDER BY started_ms DESC LIMIT 1").fetchone())
        for number, change in enumerate(changes):
            told = json.loads(row["told"]) | change.pop("told", {})
            made = row | {"id": f"copy-{number}", "told": json.dumps(told)} | change
            marks = ", ".join("?" * len(made))
            store.execute(f"INSERT INTO turns ({', '.join(made)}) VALUES ({marks})", tuple(made.values()))


def days_ago(days: int) -> int:
    return int((datetime.now() - timedelta(days=days)).timestamp() * 1000)


def replaced(change: Callable[[str, Any], Any]) -> Callable[[Route], None]:
    """Change what the daemon says about usage on its way to the page."""

    def answer(route: Route) -> None:
        told = route.fetch().json()
        route.fulfill(json=change(route.request.url, told))

    return answer


def test_figures_and_tables_say_what_the_turns_were(used: Daemon, page: Page) -> None:
    open_usage(page)
    told = used.ask("GET", "/api/v1/usage?by=mode").json["total"]
    new = told["usage"]["input"] + told["usage"]["cache_write"]
    share = round(100 * told["usage"]["cache_read"] / (new + told["usage"]["cache_read"]))
    expect(figure(page, "turns")).to_contain_text("2")
    expect(figure(page, "turns")).to_contain_text("1 resumed, 50 %")
    expect(figure(page, "hits")).to_contain_text(f"{share} %")
    expect(figure(page, "new")).to_contain_text(f"{new / 1000:.1f}k")
    expect(figure(page, "cost")).to_contain_text(f"${told['cost_usd']:.3f}")
    expect(table(page, "mode").locator("tbody tr")).to_have_count(2)
    expect(table(page, "mode").locator("tbody tr").first).to_contain_text("resume")
    expect(table(page, "mode").locator("tbody tr").last).to_contain_text("fresh")
    expect(table(page, "agent").locator("tbody tr")).to_contain_text("Rehearsal")
    expect(table(page, "version").locator("tbody tr")).to_contain_text(f"{share} %")
    table(page, "conversation").get_by_role("link").click()
    expect(page).to_have_url(re.compile("#/conversations/alpha$"))


def test_what_is_not_known_is_a_dash(used: Daemon, page: Page) -> None:
    unknown = {"input": None, "cache_read": None, "cache_write": None, "output": None}
    money = dict.fromkeys(("cost_usd", "saved_usd", "predicted_usd", "predicted_cost_usd"))

    def forget(url: str, told: Any) -> Any:
        if "unpaid" in url:
            return []
        parts = [part for day in told["sums"] for part in day["parts"]]
        for each in [told["total"], *told["sums"], *parts]:
            each.update({"usage": unknown, **money})
        return told

    page.route("**/api/v1/usage?*", replaced(forget))
    open_usage(page)
    for name in ("cost", "saved", "hits", "new", "out"):
        expect(figure(page, name)).to_contain_text("–")
    expect(page.get_by_text("no agent reported it")).to_be_visible()
    expect(table(page, "prediction")).to_contain_text("No turn has both")
    expect(page.get_by_text("What continuing saved is not known")).to_be_visible()


def test_period_split_and_measure_are_chosen_and_remembered(used: Daemon, page: Page) -> None:
    copies(used, {"started_ms": days_ago(20)}, {"started_ms": days_ago(60), "mode": "replay"})
    open_usage(page, "7")
    expect(figure(page, "turns")).to_contain_text("2")
    page.get_by_role("button", name="30 d").click()
    expect(figure(page, "turns")).to_contain_text("3")
    page.get_by_role("button", name="All", exact=True).click()
    expect(figure(page, "turns")).to_contain_text("4")
    page.get_by_role("button", name="Conversation", exact=True).click()
    page.get_by_role("button", name="Cached", exact=True).click()
    expect(page.get_by_role("heading", name="Cached tokens per day")).to_be_visible()
    expect(page.locator(".legend li")).to_have_count(1)
    expect(page.locator(".legend li")).to_contain_text("remember number 456")
    assert page.url.endswith("#/usage/all/conversation/cached")
    page.goto(page.url.partition("#")[0] + "#/usage")
    page.reload()
    expect(page.get_by_role("heading", name="Cached tokens per day")).to_be_visible()
    expect(figure(page, "turns")).to_contain_text("4")


def test_stack_follows_the_ladder_with_a_table_beside_it(used: Daemon, page: Page) -> None:
    copies(used, {"mode": "replay", "started_ms": days_ago(1)}, {"mode": "branch", "started_ms": days_ago(1)})
    open_usage(page, "7", "mode", "cost")
    expect(page.locator(".legend li .mode")).to_have_text(["fresh", "replay", "branch", "resume"])
    expect(page.get_by_role("img", name="Cost per day").locator("canvas")).to_be_visible()
    page.get_by_text("As a table").click()
    cells = page.locator(".as-table tbody tr")
    expect(cells).to_have_count(2)
    expect(page.locator(".as-table thead th")).to_have_text(
        ["When", "Turns", "resume", "branch", "replay", "fresh", "Total"]
    )
    expect(cells.last.locator("td").nth(1)).to_have_text("2")
    assert cells.last.locator("td").nth(2).inner_text() == ""


def test_the_rest_of_many_conversations_is_one_part(used: Daemon, page: Page) -> None:
    def many(url: str, told: Any) -> Any:
        if "split=conversation" in url:
            day = told["sums"][0]
            day["parts"] = [
                day["parts"][0] | {"name": f"key-{at:02}", "cost_usd": 100.0 - at} for at in range(30)
            ]
        return told

    page.route("**/api/v1/usage?*", replaced(many))
    open_usage(page, "7", "conversation", "cost")
    names = page.locator(".legend li .n")
    expect(names).to_have_text(["22 others", *(f"key-{at:02}" for at in reversed(range(8)))])
    expect(page.locator(".legend li .v").first).to_have_text(f"${sum(100 - at for at in range(8, 30))}")


def test_long_times_are_weeks_and_months(used: Daemon, page: Page) -> None:
    copies(used, {"started_ms": days_ago(300)})
    open_usage(page, "all", "mode", "cost")
    expect(page.get_by_role("heading", name="Cost per week")).to_be_visible()
    page.get_by_text("As a table").click()
    expect(page.locator(".as-table tbody tr")).to_have_count(2)
    copies_of_old(used)
    page.reload()
    expect(page.get_by_role("heading", name="Cost per month")).to_be_visible()


def copies_of_old(daemon: Daemon) -> None:
    with database(daemon.home / "segue.db") as store:
        store.execute("UPDATE turns SET started_ms = ? WHERE id = 'copy-0'", (days_ago(2000),))


def test_pointing_at_a_bar_shows_its_day(used: Daemon, page: Page) -> None:
    copies(used, {"started_ms": days_ago(6), "cost_usd": 3.0})
    open_usage(page, "7", "mode", "cost")
    over = page.locator(".stack .u-over")
    box = over.bounding_box()
    assert box is not None
    expect(page.locator(".key-head")).to_contain_text("Whole period")
    page.mouse.move(box["x"] + box["width"] / 14, box["y"] + 40)
    expect(page.locator(".key-head b")).to_have_text("$3.00")
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 40)
    expect(page.locator(".key-head b")).to_have_text("no turns")
    page.mouse.move(5, 5)
    expect(page.locator(".key-head")).to_contain_text("Whole period")


def pixels(page: Page) -> Any:
    """The colours in the chart, most frequent first, without its ground."""
    return page.evaluate(
        """() => {
        const canvas = document.querySelector(".stack canvas");
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const seen = new Map();
        for (let at = 0; at < data.length; at += 4)
          if (data[at + 3] === 255) {
            const key = `${data[at]},${data[at + 1]},${data[at + 2]}`;
            seen.set(key, (seen.get(key) ?? 0) + 1);
          }
        return [...seen].sort((a, b) => b[1] - a[1]).slice(0, 12).map(([key]) => key.split(",").map(Number));
      }"""
    )


def test_colours_are_those_of_the_theme_and_change_with_it(used: Daemon, page: Page) -> None:
    open_usage(page, "7", "mode", "cost")
    expect(page.locator(".stack canvas")).to_be_visible()
    fresh_light, fresh_dark = [0x56, 0x60, 0x6D], [0xA7, 0xB0, 0xBC]
    page.wait_for_timeout(300)
    assert fresh_light in pixels(page)
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(300)
    assert fresh_dark in pixels(page)
    assert fresh_light not in pixels(page)
    page.keyboard.press("Control+k")
    page.get_by_role("combobox").fill("theme: light")
    page.keyboard.press("Enter")
    page.wait_for_timeout(300)
    assert fresh_light in pixels(page)


def test_chart_is_as_wide_as_its_place(used: Daemon, page: Page) -> None:
    open_usage(page, "30")
    chart = page.locator(".stack .chart")
    expect(chart.locator("canvas")).to_be_visible()
    for width in (1440, 1000, 390):
        page.set_viewport_size({"width": width, "height": 844})
        page.wait_for_timeout(300)
        box, canvas = chart.bounding_box(), chart.locator("canvas").bounding_box()
        assert box is not None
        assert canvas is not None
        assert abs(box["width"] - canvas["width"]) <= 1
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_tables_are_cards_on_a_phone(used: Daemon, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    open_usage(page)
    cells = table(page, "agent").locator("tbody td:visible")
    expect(cells.first).to_be_visible()
    for cell in cells.all():
        box = cell.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390


def test_a_turn_that_ends_elsewhere_appears_without_a_flicker(used: Daemon, page: Page) -> None:
    open_usage(page, "7", "mode", "cost")
    expect(figure(page, "turns")).to_contain_text("2")
    page.evaluate(
        """() => {
        window.gone = 0;
        window.canvas = document.querySelector(".stack canvas");
        const look = () => (window.gone += document.querySelector(".figs") ? 0 : 1);
        new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
      }"""
    )
    done = used.segue("run", "alpha", "what number?")
    assert done.code == 0
    expect(figure(page, "turns")).to_contain_text("3")
    expect(figure(page, "turns")).to_contain_text("2 resumed")
    assert page.evaluate("window.gone") == 0
    assert page.evaluate("window.canvas === document.querySelector('.stack canvas')")


def test_empty_view_teaches(page: Page, daemon: Daemon) -> None:
    open_usage(page)
    expect(page.get_by_role("heading", name="Nothing was used yet")).to_be_visible()
    expect(page.locator("pre")).to_contain_text("segue run hello")
    assert daemon.segue("run", "first", "hello").code == 0
    expect(figure(page, "turns")).to_contain_text("1")


def test_a_period_without_turns_offers_all(used: Daemon, page: Page) -> None:
    with database(used.home / "segue.db") as store:
        store.execute("UPDATE turns SET started_ms = started_ms - 20 * 86400000")
    open_usage(page, "7")
    expect(page.get_by_role("heading", name="No turn ended in this period")).to_be_visible()
    page.get_by_role("button", name="Show all turns").click()
    expect(figure(page, "turns")).to_contain_text("2")


def test_resumes_that_did_not_pay_have_a_reason_and_a_link(used: Daemon, page: Page) -> None:
    open_usage(page)
    expect(table(page, "unpaid")).to_contain_text("No turn that continued a session (1 in this period)")
    loss = {
        "saved_usd": -0.25,
        "cost_usd": 0.75,
        "told": {
            "cost_usd": 0.75,
            "saved": {"tokens": None, "usd": -0.25, "against": "replay", "estimated": True},
        },
    }
    copies(used, loss)
    page.reload()
    row = table(page, "unpaid").locator("tbody tr")
    expect(row).to_contain_text("$0.75")
    expect(row).to_contain_text("it cost about $0.250 more than sending everything as text")
    expect(table(page, "unpaid").locator("h2")).to_contain_text("1 of 2, $0.25 lost")
    message = used.ask("GET", "/api/v1/usage/unpaid").json[0]["message"]
    assert str(row.get_by_role("link").get_attribute("href")).endswith(f"alpha/{message}")


def test_prediction_is_compared_with_the_truth(used: Daemon, page: Page) -> None:
    copies(used, {"predicted_usd": 2.0, "cost_usd": 3.0})
    with database(used.home / "segue.db") as store:
        store.execute("UPDATE turns SET predicted_usd = NULL WHERE id <> 'copy-0'")
    open_usage(page)
    expect(table(page, "prediction").locator("tbody td")).to_have_text(
        ["Rehearsal", "$2.00", "$3.00", "$1.00", "", "1.50 ×"]
    )


def test_what_is_shown_is_saved_as_csv_and_json(used: Daemon, page: Page, tmp_path: Path) -> None:
    open_usage(page, "7", "mode", "cost")

    def name(url: str, told: Any) -> Any:
        if "by=conversation" in url:
            told["sums"][0]["name"] = '=cmd|" /c calc"!A1,\n"x"'
        return told

    page.route("**/api/v1/usage?*", replaced(name))
    page.reload()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download as CSV").click()
    saved.value.save_as(tmp_path / "usage.csv")
    assert saved.value.suggested_filename == "segue-usage-7-days.csv"
    rows = list(csv.DictReader(io.StringIO((tmp_path / "usage.csv").read_text(), newline="")))
    total = used.ask("GET", "/api/v1/usage?by=day").json["total"]
    assert float(rows[-1]["cost_usd"]) == pytest.approx(total["cost_usd"])
    assert {(row["by"], row["split"]) for row in rows} == {
        ("day", ""),
        ("day", "mode"),
        *((by, "") for by in ("mode", "agent", "version", "conversation", "total")),
    }
    assert next(row["name"] for row in rows if row["by"] == "conversation") == '\'=cmd|" /c calc"!A1,\n"x"'
    with page.expect_download() as saved:
        page.get_by_role("button", name="Download as JSON").click()
    saved.value.save_as(tmp_path / "usage.json")
    told = json.loads((tmp_path / "usage.json").read_text())
    assert told["days"]["total"]["turns"] == 2
    assert told["days"]["split"] == "mode"


@pytest.mark.parametrize("split", ["mode", "agent", "conversation"])
def test_hostile_texts_do_nothing(used: Daemon, page: Page, split: str) -> None:
    def poison(url: str, told: Any) -> Any:
        if "unpaid" in url:
            return [
                {
                    "run": HOSTILE,
                    "conversation": HOSTILE,
                    "message": HOSTILE,
                    "agent": HOSTILE,
                    "agent_version": HOSTILE,
                    "model": HOSTILE,
                    "mode": "resume",
                    "created": 0,
                    "cost_usd": 1.0,
                    "saved_usd": -1.0,
                    "usage": {"input": 1, "cache_read": 1, "cache_write": 1, "output": 1},
                    "reason": LONG,
                }
            ]
        if told["by"] in ("agent", "conversation", "version"):
            told["sums"][0]["name"] = LONG if told["by"] == "conversation" else HOSTILE
        for each in told["sums"]:
            for part in each["parts"]:
                part["name"] = HOSTILE if split != "mode" else part["name"]
        return told

    page.route("**/api/v1/usage?*", replaced(poison))
    page.route("**/api/v1/usage/unpaid*", replaced(poison))
    open_usage(page, "7", split, "cost")
    expect(table(page, "unpaid").locator("tbody tr")).to_contain_text("<img src=x onerror=")
    shown = page.locator(".usage").inner_text()
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert len(shown) < 20_000
    assert page.evaluate("window.hacked") is None
    assert page.locator(".usage img, .usage script").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1440


@pytest.mark.parametrize(
    ("language", "words"), [("es", "Continuaciones que no compensaron"), ("zh", "不划算的继续")]
)
def test_other_languages(used: Daemon, page: Page, language: str, words: str) -> None:
    page.evaluate("language => localStorage.setItem('segue.language', language)", language)
    page.goto(f"{page.url.partition('#')[0]}#/usage")
    page.reload()
    expect(table(page, "unpaid").locator("h2")).to_contain_text(words)
    assert "usage." not in page.locator(".usage").inner_text()


def test_by_keyboard_alone(used: Daemon, page: Page) -> None:
    open_usage(page, "7", "mode", "cost")
    part = page.locator(".legend li button").first
    part.focus()
    page.keyboard.press("Enter")
    expect(part).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Enter")
    expect(part).to_have_attribute("aria-pressed", "false")
    page.get_by_text("As a table").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".as-table table")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(used: Daemon, page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    copies(used, {"mode": "replay", "started_ms": days_ago(1)}, {"mode": "branch", "saved_usd": -0.1})
    for split, width in (("mode", 1440), ("agent", 1440), ("conversation", 390)):
        page.set_viewport_size({"width": width, "height": 844})
        open_usage(page, "7", split, "cost")
        expect(page.locator(".stack canvas")).to_be_visible()
        page.locator(".as-table").evaluate("node => { node.open = true }")
        page.evaluate(AXE.read_text("utf-8"))
        rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
        found = page.evaluate("rules => axe.run(document.querySelector('.usage'), {runOnly: rules})", rules)
        assert [
            (each["id"], [node["html"][:200] for node in each["nodes"]]) for each in found["violations"]
        ] == []
