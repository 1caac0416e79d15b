"""Conversations on the page: turns and their reasons, edits, versions, questions, the queue, other doors."""

from __future__ import annotations

import re
import signal
import time
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.integration.server.conftest import Daemon, finish, start
from tests.page.conftest import WAIT_MS, end, picture


def send(page: Page, text: str) -> None:
    entry = page.locator("#entry")
    entry.fill(text)
    entry.press("Enter")


def answers(page: Page) -> Locator:
    """The answers that have ended."""
    return page.locator(".msg[data-run]:not([aria-busy])")


def converse(page: Page, daemon: Daemon, *texts: str) -> None:
    """A new conversation ``talk``, with these messages answered."""
    page.locator(".newkey input").fill("talk")
    for at, text in enumerate(texts, 1):
        send(page, text)
        expect(answers(page)).to_have_count(at)


def modes(daemon: Daemon, key: str = "talk") -> list[str]:
    log = daemon.ask("GET", f"/api/v1/conversations/{key}/log").json
    return [each["mode"] for each in log if each["from"] == "assistant"]


LINE = re.compile(r"^resume[\d.]+k? new[\d.]+k? cached~?<?\$[\d.]+[\d.]+ s$")
"""The line under an answer: mode, new tokens, cached ones, cost, time."""
PRICE = re.compile(r"^~\$[\d.]+\s*[\d.]+k? new$")
PRICES = '[prices."rehearsal-*"]\ninput = 3000\noutput = 15000\ncache_read = 300\ncache_write = 3750\n'
"""Of the rehearsal agent's model, high enough for short messages to cost something."""


def test_the_second_turn_resumes_and_says_why(page: Page, daemon: Daemon) -> None:
    expect(page.get_by_role("heading", name="No conversations yet")).to_be_visible()
    file = daemon.segue.home / "config.toml"
    file.write_text(file.read_text() + PRICES)
    converse(page, daemon, "remember number 456", "what number?")
    expect(answers(page).last).to_contain_text("456")
    badge = answers(page).last.locator(".end .mode")
    expect(badge).to_have_text("resume")
    expect(answers(page).last.locator(".end")).to_have_text(LINE)
    badge.click()
    panel = page.locator(".side.r")
    expect(panel.get_by_role("heading", name="Why this turn was resume")).to_be_visible()
    expect(panel.locator(".ladder li.on")).to_contain_text("resume")
    expect(panel.locator(".ladder li")).to_have_count(5)
    for mode in ("resume", "branch", "replay", "recap", "fresh"):
        expect(panel.locator(".ladder li", has_text=mode).first.locator(".p")).to_have_text(PRICE)
    expect(panel.locator(".checks li")).to_have_count(
        len(daemon.ask("GET", "/api/v1/conversations/talk/plan").json["checks"])
    )
    assert modes(daemon) == ["fresh", "resume"]
    picture(page, "why")


def test_before_sending_the_line_says_what_is_left_of_a_limit(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "[[limit 5h 0.82 3600]][[limit 7d 0.31 200000]][[say hi]]")
    said = page.locator(".composer .limit")
    resets = daemon.ask("GET", "/api/v1/conversations/talk/plan").json["limits"][0]["resets_at"]
    clock = page.evaluate("ms => new Date(ms).toTimeString().slice(0, 5)", resets)
    expect(said).to_have_text(f"5-hour limit: 82 % used, resets at {clock}")
    expect(said).not_to_have_class("limit t-needs")
    assert "7-day limit: 31 % used, resets at " in (said.get_attribute("title") or "")
    picture(page, "limit")
    send(page, "[[limit 5h 0.93 3600]][[say hi]]")
    expect(said).to_contain_text("5-hour limit: 93 % used")
    expect(said).to_have_class("limit t-needs")


def test_without_a_known_limit_the_line_says_nothing_of_it(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "hello")
    expect(page.locator(".composer .plan")).to_contain_text("Continues Rehearsal's session")
    expect(page.locator(".composer .limit")).to_have_count(0)


def test_before_sending_the_line_says_what_will_happen(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "remember number 456")
    plan = page.locator(".composer .plan")
    expect(plan).to_contain_text("Continues Rehearsal's session")
    page.get_by_role("switch", name="Fresh session").check()
    expect(plan).to_contain_text("Sends 2 earlier messages to Rehearsal as text")
    elsewhere = daemon.segue.cwd.parent / "elsewhere"
    elsewhere.mkdir()
    page.get_by_role("switch", name="Fresh session").uncheck()
    page.locator(".pick-more > summary").click()
    page.get_by_label("Directory").fill(str(elsewhere))
    expect(plan).to_contain_text("The session belongs to")
    expect(plan).to_contain_text("to keep the session")


def test_fresh_gives_a_replay(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "remember number 456")
    page.get_by_role("switch", name="Fresh session").check()
    send(page, "what number?")
    expect(answers(page)).to_have_count(2)
    expect(answers(page).last.locator(".end .mode")).to_have_text("replay")
    expect(page.get_by_role("switch", name="Fresh session")).not_to_be_checked()
    assert modes(daemon) == ["fresh", "replay"]


def test_an_edit_makes_the_next_turn_a_branch_and_shows_versions(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "remember number 456", "what number?")
    second = page.locator(".msg.you").nth(1)
    second.hover()
    second.get_by_role("button", name="Edit").click()
    second.get_by_label("The new text").fill("what number, in words?")
    second.get_by_role("button", name="Save and run again").click()
    expect(answers(page).last.locator(".end .mode")).to_have_text("branch")
    assert modes(daemon) == ["fresh", "branch"]
    versions = second.get_by_role("group", name="Versions of this message")
    expect(versions).to_contain_text("2/2")
    versions.get_by_role("button", name="Earlier version").click()
    expect(second.locator(".body")).to_have_text("what number?")
    versions.get_by_role("button", name="Later version").click()
    expect(second.locator(".body")).to_have_text("what number, in words?")


def test_retry_truncate_undo_and_fork(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "remember number 456", "what number?")
    page.locator(".msg.you").nth(1).get_by_role("button", name="Retry").dispatch_event("click")
    answer = answers(page).last
    expect(answer.get_by_role("group", name="Versions of this message")).to_contain_text("2/2")
    page.locator(".msg.you").nth(1).get_by_role("button", name="Cut here").dispatch_event("click")
    page.get_by_role("dialog").get_by_role("button", name="Cut here").click()
    expect(page.locator(".msg.you")).to_have_count(1)
    page.locator(".menu > summary").click()
    page.get_by_role("button", name="Undo the last change").click()
    expect(page.locator(".msg.you")).to_have_count(2)
    page.locator(".msg.you").first.get_by_role("button", name="Fork").dispatch_event("click")
    expect(page.locator(".msg.you")).to_have_count(1)
    assert page.url.endswith("#/conversations/talk-fork") or "talk" in page.url
    assert len(daemon.ask("GET", "/api/v1/conversations").json) == 2


def test_a_question_is_answered_in_the_form_after_a_reload_too(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "remember number 456")
    send(page, "[[ask Which one? | the first | the second]] [[result]]")
    expect(page.locator(".opt", has_text="the first")).to_have_text("the first")
    form = page.locator("form.ask")
    form.get_by_label("the second").check()
    expect(page.locator(".views b")).to_contain_text("1")
    assert page.title().startswith("(1) ")
    icon = page.locator("link[rel=icon]")
    expect(icon).to_have_attribute("href", re.compile("/icon-needs.svg$"), timeout=10_000)
    file = daemon.ask("GET", urlsplit(icon.get_attribute("href") or "").path, token=False)
    assert (file.status, file.headers["content-type"]) == (200, "image/svg+xml")
    page.reload()
    expect(form.get_by_label("the second")).to_be_checked()  # half-filled forms are kept
    picture(page, "question")
    form.get_by_role("button", name="Answer").click()
    expect(answers(page)).to_have_count(2)
    expect(answers(page).last).to_contain_text("the second")
    expect(form).to_have_count(0)
    expect(icon).to_have_attribute("href", re.compile("/icon.svg$"))


def test_a_permission_is_allowed_once_and_denied_with_a_reason(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "remember number 456")
    send(page, "[[shell echo hello > made]] [[say done]]")
    form = page.locator("form.ask")
    expect(form).to_contain_text("echo hello > made")
    form.get_by_role("button", name="Allow once").click()
    expect(answers(page)).to_have_count(2)
    assert (daemon.segue.cwd / "made").exists()
    send(page, "[[shell rm made]] [[result]]")
    form.get_by_label("Reason, if you deny it").fill("keep it")
    form.get_by_role("button", name="Deny").click()
    expect(answers(page)).to_have_count(3)
    assert (daemon.segue.cwd / "made").exists()
    tool = answers(page).last.locator(".tool").first
    expect(tool).to_contain_text("refused")


def test_tools_thoughts_and_code_are_folded_lines(page: Page, daemon: Daemon) -> None:
    page.locator(".pick-more > summary").click()
    page.get_by_label("Permission").select_option("full")
    converse(
        page,
        daemon,
        "[[think about it]] [[shell echo hello; exit 3]] [[write new.py print(1)]]"
        "[[say Some `code`:\n\n```python\nprint(1)\n```\n]]",
    )
    answer = answers(page).last
    shell = answer.locator(".tool", has_text="echo hello")
    expect(shell.locator(".res")).to_contain_text("exit 3")
    expect(answer.locator(".details")).to_have_count(0)
    shell.locator("summary").click()
    expect(shell.locator(".details")).to_contain_text("hello")
    thought = answer.locator(".tool", has_text="Thinking")
    thought.locator("summary").click()
    expect(thought.locator(".thought")).to_be_visible()
    expect(answer.locator("figure.block code")).to_have_text("print(1)")
    expect(answer.locator("figure.block .hljs-built_in")).to_have_text("print")
    page.get_by_role("button", name="Focused").click()
    expect(answer.locator(".tool")).to_have_count(0)
    expect(answer).to_contain_text("Some code")
    picture(page, "focused")


def test_a_queue_is_edited_and_runs_in_order(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "remember number 456")
    send(page, "[[ask Go on? | yes | no]] [[say first]]")
    expect(page.locator("form.ask")).to_be_visible()  # what comes now waits until this is answered
    expect(page.locator(".composer .btn.primary")).to_have_text("Queue")
    send(page, "[[say second]]")
    expect(page.locator(".waiting")).to_have_count(1)
    send(page, "[[say third]]")
    expect(page.locator(".waiting")).to_have_count(2)
    picture(page, "queue")
    page.locator(".waiting").nth(1).get_by_role("button", name="Earlier").click()
    expect(page.locator(".waiting").first).to_contain_text("third")
    page.locator(".waiting").nth(1).get_by_role("button", name="Edit").click()
    page.locator(".waiting textarea").fill("[[say changed]]")
    page.locator(".waiting.edit").get_by_role("button", name="Save").click()
    expect(page.locator(".waiting").nth(1)).to_contain_text("changed")
    page.locator("form.ask").get_by_label("yes").check()
    page.locator("form.ask").get_by_role("button", name="Answer").click()
    expect(answers(page)).to_have_count(4)
    expect(answers(page).nth(2)).to_contain_text("third")
    expect(answers(page).nth(3)).to_contain_text("changed")


def test_a_reload_in_mid_stream_loses_and_doubles_nothing(page: Page, daemon: Daemon) -> None:
    words = " ".join(f"word{n}" for n in range(200))
    page.locator(".newkey input").fill("talk")
    send(page, f"[[slow 12 100]] [[say {words}]]")
    running = page.locator(".msg[aria-busy]")
    expect(running).to_contain_text("word20")
    page.reload()
    expect(running).to_contain_text("word20")
    shown = running.locator(".body").last.inner_text().split()
    assert shown == [f"word{n}" for n in range(len(shown))] or shown[:-1] == [
        f"word{n}" for n in range(len(shown) - 1)
    ]
    expect(answers(page)).to_have_count(1)
    assert answers(page).last.locator(".body").inner_text().split() == words.split()


def test_a_run_in_a_terminal_appears_live(page: Page, daemon: Daemon) -> None:
    process = daemon.segue.start(
        "run",
        "shell/talk",
        "[[slow 10 40]] [[say from the terminal it came]]",
        "--agent",
        "rehearsal",
        "--no-daemon",
    )
    row = page.locator(".row", has_text="shell/talk")
    expect(row).to_be_visible()
    row.locator(".over").click()
    expect(page.locator(".msg[aria-busy]")).to_contain_text("from")
    expect(answers(page)).to_have_count(1)
    expect(answers(page).last).to_contain_text("from the terminal it came")
    finish(process)


def test_esc_stops_the_turn(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "remember number 456")
    send(page, "[[hang]]")
    expect(page.locator(".msg[aria-busy]")).to_be_visible()
    page.locator(".dialogue").focus()
    page.keyboard.press("Escape")
    expect(page.locator(".msg[aria-busy]")).to_have_count(0)
    expect(page.locator(".ask.failed")).to_contain_text("Cancelled")


def test_drafts_survive_a_reload(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "remember number 456")
    page.locator("#entry").fill("half a thought")
    page.reload()
    expect(page.locator("#entry")).to_have_value("half a thought")


def test_after_a_kill_and_a_restart_the_page_reads_on(page: Page, daemon: Daemon) -> None:
    page.expected_errors = ("ERR_", "Failed to load")  # type: ignore[attr-defined]
    converse(page, daemon, "remember number 456")
    send(page, "[[ask Really? | yes | no]] [[result]]")
    expect(page.locator("form.ask")).to_be_visible()
    daemon.end(signal.SIGKILL)
    expect(page.locator(".banner")).to_be_visible()
    again = start(daemon.segue)
    try:
        assert again.port == daemon.port
        expect(page.locator(".banner")).to_have_count(0)
        expect(page.locator("form.ask")).to_contain_text("was interrupted")
        expect(page.locator(".composer .btn.primary")).to_have_text("Send")
        page.locator("form.ask").get_by_label("yes").check()
        page.locator("form.ask").get_by_role("button", name="Answer").click()
        expect(answers(page)).to_have_count(2)  # the answer was the next message of the session
        expect(page.locator(".msg.you").last).to_contain_text("yes")
        assert modes(again)[-1] == "resume"
    finally:
        end(again)


def test_a_banner_says_that_the_daemon_was_updated(page: Page, daemon: Daemon) -> None:
    page.expected_errors = ("ERR_", "Failed to load")  # type: ignore[attr-defined]
    expect(page.locator("#entry")).to_be_visible()
    page.wait_for_function("() => document.querySelector('.plan .mode')")
    health = {**daemon.ask("GET", "/api/v1/health").json, "version": "99.1"}
    page.route("**/api/v1/health", lambda route: route.fulfill(json=health))
    daemon.end(signal.SIGKILL)
    again = start(daemon.segue)
    try:
        expect(page.locator(".banner")).to_contain_text("The daemon is now version 99.1.")
        page.unroute("**/api/v1/health")
        page.get_by_role("button", name="Reload").click()
        expect(page.locator("#entry")).to_be_visible()
        expect(page.locator(".banner")).to_have_count(0)
    finally:
        end(again)


def test_somebody_elsewhere_is_notified_of_a_question(page: Page, daemon: Daemon) -> None:
    page.context.grant_permissions(["notifications"], origin=daemon.url)
    page.add_init_script(
        "window.told = []; window.Notification = class { constructor(title, more) {"
        " window.told.push([title, more.body]); } };"
        "Notification.permission = 'granted';"
        "Object.defineProperty(document, 'visibilityState', {get: () => 'hidden'});"
    )
    daemon.segue("run", "first", "hello")
    page.reload()
    expect(page.locator(".row")).to_have_count(1)
    run = {"message": "[[ask Which one? | a | b]]", "answers": True}
    daemon.ask("POST", "/api/v1/conversations/asking/runs", run)
    page.wait_for_function("() => window.told.length > 0")
    assert page.evaluate("window.told")[0][1] == "Which one?"
    assert page.title().startswith("(1) ")


SLOW_ANSWERS = r"""
  const plain = window.fetch;
  window.late = 0;
  window.fetch = async (address, options) => {
    const answer = await plain(address, options);
    if (!/\/runs\/[^/]+$/.test(String(address))) return answer;
    await new Promise((done) => setTimeout(done, 1500));
    setTimeout(() => { window.late += 1; }, 100);
    return answer;
  };
"""


def test_an_answer_that_was_overtaken_by_the_feed_is_not_shown(page: Page, daemon: Daemon) -> None:
    page.add_init_script(SLOW_ANSWERS)
    page.reload()
    page.locator(".newkey input").fill("talk")
    send(page, "[[ask Which one? | a | b]]")
    expect(page.locator("form.ask")).to_be_visible()
    page.wait_for_function("() => window.late > 0", timeout=WAIT_MS)
    expect(page.locator("form.ask")).to_be_visible()


def test_files_are_chosen_and_shown_again(page: Page, daemon: Daemon) -> None:
    page.locator(".newkey input").fill("talk")
    page.locator(".pick-more > summary").click()
    page.locator("input[type=file]").set_input_files(
        {"name": "dot.png", "mimeType": "image/png", "buffer": dot()}
    )
    expect(page.locator(".entry .file")).to_contain_text("dot.png")
    page.locator(".pick-more > summary").click()
    send(page, "what is this?")
    expect(page.locator(".msg.you .files img")).to_have_js_property("naturalWidth", 8)


def dot() -> bytes:
    from tests.images import png

    return png()


def test_keys_move_search_and_help(page: Page, daemon: Daemon) -> None:
    for key in ("one", "two", "three"):
        daemon.segue("run", key, f"[[say answer {key}]]", "--agent", "rehearsal")
    expect(page.locator(".row")).to_have_count(3)
    page.locator("body").press("j")
    expect(page.locator(".row[aria-current]")).to_contain_text("three")
    page.keyboard.press("j")
    expect(page.locator(".row[aria-current]")).to_contain_text("two")
    page.keyboard.press("k")
    expect(page.locator(".row[aria-current]")).to_contain_text("three")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("/")
    expect(page.locator("#find")).to_be_focused()
    page.keyboard.type("answer two")
    expect(page.locator(".row.hit").first).to_contain_text("answer two")
    page.locator(".row.hit").first.click()
    expect(page.locator(".msg.found")).to_be_visible()
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").get_by_role("combobox").fill("one")
    expect(page.locator("#palette li").first).to_contain_text("one")
    page.keyboard.press("Enter")
    page.wait_for_url("**/#/conversations/one")
    page.keyboard.press("Control+k")  # the conversation that is open has its commands there too
    page.get_by_role("dialog").get_by_role("combobox").fill("fork")
    expect(page.locator("#palette li[aria-selected=true]")).to_contain_text("Fork")
    page.keyboard.press("Enter")
    page.wait_for_url("**/#/conversations/one~2")
    page.locator("#find").fill("")
    page.locator(".bar-top .menu summary").click()
    page.locator(".menu-in").get_by_role("button", name="Star", exact=True).click()
    expect(page.locator(".row[aria-current] .star")).to_have_attribute("aria-pressed", "true")


def test_unread_is_marked_until_somebody_looks(page: Page, daemon: Daemon) -> None:
    daemon.segue("run", "quiet", "[[say hello]]", "--agent", "rehearsal", "--queue")
    row = page.locator(".row.unread", has_text="quiet")
    expect(row).to_be_visible()
    row.locator(".over").click()
    expect(page.locator(".row.unread")).to_have_count(0)


FIRST_ON_SCREEN = """() => {
  const edge = document.querySelector(".dialogue").getBoundingClientRect().top;
  const all = [...document.querySelectorAll(".msg")].map((each) => [each.id, each.getBoundingClientRect()]);
  const [id, box] = all.find(([, box]) => box.bottom > edge);
  return box.top <= edge && [id, Math.round(box.top - edge)];  // else it is not drawn yet
}"""


def test_long_dialogues_open_at_their_end_and_read_older_pages(page: Page, daemon: Daemon) -> None:
    sides = ("user", "assistant")
    lines = [
        {"from": sides[n % 2], "text": f"message number {n}", "agent": "rehearsal"} for n in range(10_000)
    ]
    made = daemon.ask(
        "POST", "/api/v1/conversations/import", {"export": {"schema": 1, "key": "long", "messages": lines}}
    )
    assert made.status == 201
    page.goto(f"{daemon.url}/#/conversations/long")
    expect(page.get_by_text("message number 9999", exact=True)).to_be_in_viewport()
    dialogue = page.locator(".dialogue")
    for _ in range(12):
        before = dialogue.evaluate("node => node.scrollHeight")
        dialogue.evaluate("node => { node.scrollTop = 300 }")
        read = page.wait_for_function(FIRST_ON_SCREEN, timeout=WAIT_MS).json_value()
        page.wait_for_function(
            "before => document.querySelector('.dialogue').scrollHeight > before", arg=before, timeout=WAIT_MS
        )
    time.sleep(0.5)
    assert page.evaluate(FIRST_ON_SCREEN) == read  # nothing jumps
    assert page.locator(".msg").count() < 150  # what is far away is not in the page
    page.get_by_role("button", name="Latest").click()
    expect(page.get_by_text("message number 9999", exact=True)).to_be_in_viewport()


def test_what_is_written_elsewhere_does_not_move_the_reader(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, *(f"[[say {'line after line ' * 60} {n}]]" for n in range(4)))
    dialogue = page.locator(".dialogue")
    dialogue.evaluate("node => { node.scrollTop = 0 }")
    expect(page.get_by_role("button", name="Latest")).to_be_visible()
    daemon.segue("run", "talk", f"[[say {'more and more ' * 100}]]", "--no-daemon")
    time.sleep(1)
    assert dialogue.evaluate("node => node.scrollTop") == 0


def test_nothing_is_asked_for_a_conversation_that_was_deleted_elsewhere(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "[[say hello]]")
    assert daemon.segue("rm", "talk", "--yes").code == 0
    expect(page.get_by_role("heading", name="There is no such conversation")).to_be_visible()
    expect(page.locator(".row")).to_have_count(0)
    time.sleep(0.5)  # the fixture looks for requests that failed


def test_on_a_phone_the_list_and_the_panel_are_sheets(page: Page, daemon: Daemon) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    converse(page, daemon, "remember number 456", "[[think hard]] [[say done]]")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    picture(page, "phone")
    answers(page).last.locator(".end .mode").click()
    expect(page.locator(".side.r")).to_be_visible()
    picture(page, "phone-panel")
    page.locator(".side.r").get_by_role("button", name="Close").click()
    expect(page.locator(".side.r")).not_to_be_visible()
    page.get_by_role("button", name="‹ All").click()
    expect(page.locator(".side.l .row")).to_be_visible()
    picture(page, "phone-list")
    page.locator(".side.l").get_by_role("button", name="Close").click()
    expect(answers(page).last.locator(".tool")).to_have_count(1)
    page.locator(".menu > summary").click()
    page.get_by_role("button", name="Prompts and final answers only").click(timeout=10_000)
    expect(answers(page).last.locator(".tool")).to_have_count(0)


NOTICES = {
    "es": "llamadas a herramientas rechazadas: 1 (shell); consulta --permission y --allow-tool",
    "zh": "1 次工具调用被拒绝：shell（见 --permission 和 --allow-tool）",
}


@pytest.mark.parametrize("language", NOTICES)
def test_notices_are_told_in_the_language_of_the_page(page: Page, daemon: Daemon, language: str) -> None:
    converse(page, daemon, "remember number 456")
    assert daemon.segue("run", "talk", "[[shell touch b]][[say done]]").code == 0, "nobody is asked"
    expect(answers(page)).to_have_count(2)
    expect(answers(page).last.locator(".notice")).to_contain_text("1 tool call was refused: shell")
    page.evaluate("language => localStorage.setItem('segue.language', language)", language)
    page.reload()
    expect(answers(page).last.locator(".notice")).to_have_text(NOTICES[language])
    answers(page).last.locator(".end .mode").click()
    expect(page.locator(".side.r p.why").filter(has_text="--allow-tool")).to_have_text(NOTICES[language])


REASONS = {
    "es": "La sesión pertenece a {there}, esto es {here}.",
    "zh": "会话属于 {there}，当前是 {here}。",
}


@pytest.mark.parametrize("language", REASONS)
def test_reasons_are_told_in_the_language_of_the_page(page: Page, daemon: Daemon, language: str) -> None:
    converse(page, daemon, "remember number 456")
    elsewhere = daemon.segue.cwd.parent / "elsewhere"
    elsewhere.mkdir()
    assert daemon.segue("run", "talk", "what number?", "--cwd", str(elsewhere)).code == 0
    expect(answers(page)).to_have_count(2)
    page.evaluate("language => localStorage.setItem('segue.language', language)", language)
    page.reload()
    answers(page).last.locator(".end .mode").click()
    expect(page.locator(".plan .mode"), "the conversation's directory is not the daemon's").to_contain_text(
        "resume"
    )
    told = REASONS[language].format(there=daemon.segue.cwd, here=elsewhere)
    expect(page.locator(".ladder li").first).to_contain_text(told)
    expect(page.locator(".side.r p.why").filter(has_text="workdir")).to_contain_text(told)


def test_the_menu_shows_the_command_that_opens_the_session(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "hello")
    command = "cd /home/me/app && AGENT_HOME=/home/me/work agent --resume 4f50"

    def with_command(route: Route) -> None:
        route.fulfill(json=[each | {"command": command} for each in route.fetch().json()])

    page.route("**/conversations/talk/sessions", with_command)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator(".bar-top details.menu > summary").click()
    page.get_by_role("button", name="Open in terminal", exact=True).click()
    expect(page.get_by_role("dialog").locator("pre")).to_have_text(command)
    page.get_by_role("dialog").get_by_role("button", name="Copy").click()
    page.wait_for_function(
        "text => navigator.clipboard.readText().then((found) => found === text)", arg=command
    )


def test_found_messages_follow_the_filter(page: Page, daemon: Daemon) -> None:
    for key in ("one", "two"):
        assert daemon.segue("run", key, f"a needle in {key}").code == 0
    page.locator('.row[data-key="two"] .star').click()
    page.locator("#find").fill("needle")
    hits = page.locator(".row.hit", has_text="a needle")
    expect(hits).to_have_count(2)
    page.get_by_role("button", name="Starred").click()
    expect(hits).to_have_count(1)
    expect(hits).to_contain_text("two")


def test_what_was_spent_yesterday_is_not_todays(page: Page, daemon: Daemon) -> None:
    day = {"turns": 1, "usage": {}, "cost_usd": 4.56, "cost_estimated": False, "parts": []}
    named: list[str] = ["2001-02-03"]
    page.route(
        "**/usage?by=day*",
        lambda route: route.fulfill(json={"sums": [day | {"name": each} for each in named], "total": day}),
    )
    page.reload()
    expect(page.locator(".top .right")).not_to_contain_text("4.56")
    named[0] = page.evaluate("new Date().toLocaleDateString('sv')")
    page.reload()
    expect(page.locator(".top .right")).to_contain_text("4.56")
