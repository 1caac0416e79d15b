"""Texts that agents and files bring along do nothing but stand there."""

from __future__ import annotations

import gzip
import zlib

import brotli
import msgspec
import pytest
from playwright.sync_api import Page, expect

from tests.integration.server.conftest import Daemon
from tests.page.test_conversations import answers, converse

MARKUP = (
    "<script>window.owned = 1</script>"
    "<img src=x onerror='window.owned = 2'>"
    "<svg onload='window.owned = 3'></svg>"
    "<iframe srcdoc='<script>parent.owned = 4</script>'></iframe>"
    "<form action='http://198.51.100.1/'><input name=q></form>"
    "<a href='javascript:window.owned = 5' onclick='window.owned = 6'>a link</a>"
    "<div style='position:fixed;inset:0' id=page class=top>over everything</div>"
    "\n\n[text](javascript:window.owned=7) ![pixel](http://198.51.100.1/pixel.png) "
    "[site](https://example.org/)\n\n```html\n<script>window.owned = 8</script>\n```\n"
)
ESCAPES = "before \x1b[2J\x1b]0;title\x07 after \x9b31m \u202egnirts\u202c end \u2066x\u2069"


def imported(daemon: Daemon, text: str, key: str = "hostile") -> None:
    lines = [
        {"from": "user", "text": text, "agent": "rehearsal"},
        {"from": "assistant", "text": text, "agent": "rehearsal"},
    ]
    export = {"schema": 1, "key": key, "title": text[:100], "messages": lines}
    made = daemon.ask("POST", "/api/v1/conversations/import", {"export": export})
    assert made.status == 201, made.body


def test_markup_in_answers_runs_and_loads_nothing(page: Page, daemon: Daemon) -> None:
    imported(daemon, MARKUP)
    page.goto(f"{daemon.url}/#/conversations/hostile")
    answer = page.locator(".msg").last
    expect(answer).to_contain_text("<script>window.owned = 1</script>")
    assert page.evaluate("window.owned") is None
    assert answer.locator("script, img, iframe, form, svg:not(.mg), [style], [onclick]").count() == 0
    assert answer.locator("[href^='javascript']").count() == 0
    link = answer.get_by_role("link", name="site")
    assert link.get_attribute("rel") == "noreferrer noopener"
    expect(answer.locator("figure code")).to_contain_text("<script>window.owned = 8</script>")
    expect(page.locator(".msg.you")).to_contain_text("<script>window.owned = 1</script>")
    assert page.locator("#page").count() == 1


def test_escape_sequences_and_directions_are_shown_as_signs(page: Page, daemon: Daemon) -> None:
    imported(daemon, ESCAPES)
    page.goto(f"{daemon.url}/#/conversations/hostile")
    expect(page.locator(".msg.you")).to_be_visible()
    text = page.evaluate("document.body.innerText")
    assert not set(text) & set("\x1b\x9b\x07\u202e\u202c\u2066\u2069")
    assert "␛" in text
    assert "‹U+202E›" in text
    page.locator("#find").fill("before")
    expect(page.locator(".row.hit")).to_have_count(2)
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").get_by_role("combobox").fill("before")
    expect(page.locator("#palette li", has_text="message")).to_have_count(2)
    text = page.evaluate("document.body.innerText")
    assert not set(text) & set("\x1b\x9b\x07\u202e\u202c\u2066\u2069")


def test_a_line_of_five_megabytes_is_shown_in_part(page: Page, daemon: Daemon) -> None:
    imported(daemon, "x" * 5_000_000)
    page.goto(f"{daemon.url}/#/conversations/hostile")
    more = page.locator(".msg").last.get_by_role("button", name="Show everything")
    expect(more).to_be_visible()
    assert page.evaluate("document.body.innerText.length") < 200_000
    assert page.evaluate("document.documentElement.scrollWidth") <= 1440


def test_tool_input_and_output_are_text(page: Page, daemon: Daemon) -> None:
    page.locator(".pick-more > summary").click()
    page.get_by_label("Permission").select_option("full")
    command = "printf '<img src=x onerror=window.owned=1> \\033[31mred'"
    converse(page, daemon, f"[[shell {command}]] [[say done]]")
    tool = answers(page).last.locator(".tool").first
    tool.locator("summary").click()
    expect(tool.locator(".details")).to_contain_text("<img src=x onerror=window.owned=1> ␛[31mred")
    assert page.evaluate("window.owned") is None
    assert answers(page).last.locator("img").count() == 0


def test_the_policy_allows_no_inline_script_and_no_other_origin(page: Page, daemon: Daemon) -> None:
    answer = daemon.ask("GET", "/", token=False)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    page.expected_errors = ("Content Security Policy",)  # type: ignore[attr-defined]
    page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.owned = 1';"
        " document.body.append(s); }"
    )
    assert page.evaluate("window.owned") is None


def test_the_page_is_served_without_a_token_and_contains_no_data(daemon: Daemon) -> None:
    daemon.segue("run", "secret-key", "[[say hidden words]]", "--agent", "rehearsal")
    shell = daemon.ask("GET", "/", token=False, accept_encoding="gzip")
    assert shell.status == 200
    text = gzip.decompress(shell.body).decode()
    assert "secret-key" not in text
    build = text.split("/page/")[1].split("/")[0]
    script = daemon.ask("GET", f"/page/{build}/main.js", token=False)
    assert script.headers["content-encoding"] == "deflate"
    small = daemon.ask("GET", f"/page/{build}/main.js", token=False, accept_encoding="gzip, br")
    assert (small.headers["content-encoding"], small.headers["vary"]) == ("br", "accept-encoding")
    assert brotli.decompress(small.body) == zlib.decompress(script.body)
    assert (script.status, script.headers["cache-control"]) == (
        200,
        "public, max-age=31536000, immutable",
    )
    for path in (
        f"/page/{build}/..%2f..%2faccess.py",
        f"/page/{build}/types.d.ts",
        f"/page/{build}/vendor/manifest.json",
        f"/page/{build}/vendor/..%2fmain.js",
    ):
        assert daemon.ask("GET", path, token=False).status == 404
    assert daemon.ask("GET", "/", token=False, host="evil.example:1").status == 403


@pytest.mark.parametrize("refused", [0, 20])
def test_somebody_without_a_login_is_told_how_to_get_one(daemon: Daemon, page: Page, refused: int) -> None:
    page.expected_errors = ("401", "429")  # type: ignore[attr-defined]
    for _ in range(refused):
        assert daemon.ask("GET", "/api/v1/status", token=False).status in {401, 429}
    page.context.clear_cookies()
    page.goto(f"{daemon.url}/#/conversations")
    page.reload()
    expect(page.get_by_role("heading", name="This browser is not logged in")).to_be_visible()
    expect(page.get_by_text("segue status --link")).to_be_visible()


def test_problems_of_the_api_are_one_line(page: Page, daemon: Daemon) -> None:
    page.expected_errors = ("422",)  # type: ignore[attr-defined]
    page.locator(".newkey input").fill("not a key!")
    page.locator("#entry").fill("hello")
    page.locator("#entry").press("Enter")
    expect(page.locator(".told .bad")).to_contain_text("key")
    expect(page.locator("#entry")).to_have_value("hello")  # nothing is lost
    assert msgspec.json.decode(daemon.ask("GET", "/api/v1/conversations").body) == []
