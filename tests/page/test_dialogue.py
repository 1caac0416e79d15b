"""What a reader has done to a dialogue stays as it was: folds, versions, names. And what its lines say."""

from __future__ import annotations

import json
import re
import time

import pytest
from playwright.sync_api import Page, expect

from tests.database import database
from tests.integration.server.conftest import Daemon
from tests.page.conftest import WAIT_MS, picture
from tests.page.test_conversations import answers, converse, send


def allow_all(page: Page) -> None:
    page.locator(".pick-more > summary").click()
    page.get_by_label("Permission").select_option("full")
    page.locator(".pick-more > summary").click()


def rewrite(daemon: Daemon, **changes: dict[str, object]) -> None:
    """Change stored events by what their input says."""
    with database(daemon.segue.home / "segue.db") as store:
        for turn, seq, text in store.execute("SELECT turn, seq, event FROM events").fetchall():
            for part, change in changes.items():
                if part in text:
                    event = json.dumps({**json.loads(text), **change})
                    store.execute(
                        "UPDATE events SET event = ? WHERE turn = ? AND seq = ?", (event, turn, seq)
                    )


def test_esc_leaves_a_title_as_it_was(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "hello")
    title = page.locator(".bar-top .title")
    before = title.inner_text()
    title.click()
    page.get_by_role("textbox", name="Rename").fill("oops")
    page.keyboard.press("Escape")
    expect(title).to_have_text(before)
    page.reload()
    expect(title).to_have_text(before)
    title.click()
    page.get_by_role("textbox", name="Rename").fill("better")
    page.keyboard.press("Enter")
    expect(title).to_have_text("better")
    assert daemon.ask("GET", "/api/v1/conversations/talk").json["title"] == "better"


def test_what_was_unfolded_stays_so_when_the_turn_ends(page: Page, daemon: Daemon) -> None:
    allow_all(page)
    page.locator(".newkey input").fill("talk")
    send(page, "[[think hard]] [[shell echo hello]] [[ask Go on? | yes | no]] [[say done]]")
    running = page.locator(".msg[aria-busy]")
    for text in ("echo hello", "Thinking"):
        running.locator(".tool", has_text=text).locator("summary").click()
    expect(running.locator(".details")).to_contain_text("hello")
    page.locator("form.ask").get_by_label("yes").check()
    page.locator("form.ask").get_by_role("button", name="Answer").click()
    expect(answers(page)).to_have_count(1)
    expect(answers(page).locator(".tool", has_text="echo hello").locator(".details")).to_contain_text("hello")
    expect(answers(page).locator(".thought")).to_be_visible()
    page.get_by_role("button", name="Focused").click()
    expect(answers(page).locator(".tool")).to_have_count(0)
    page.get_by_role("group", name="Detail").get_by_role("button", name="All").click()
    expect(answers(page).locator(".details").first).to_be_visible()


def test_a_version_and_a_whole_text_stay_when_they_are_scrolled_away(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "first wording", f"{'long text ' * 2500} the end of it")
    first = page.locator(".msg.you").first
    first.get_by_role("button", name="Edit").dispatch_event("click")
    first.get_by_label("The new text").fill("second wording")
    first.get_by_role("button", name="Save only").click()
    expect(first.get_by_role("group", name="Versions of this message")).to_contain_text("2/2")
    first.get_by_role("button", name="Earlier version").click()
    expect(first.locator(".body")).to_have_text("first wording")
    page.get_by_role("button", name="Show everything").click()
    expect(page.locator(".msg.you").nth(1)).to_contain_text("the end of it")
    page.goto(f"{daemon.url}/#/sessions")
    expect(page.locator(".composer")).to_have_count(0)
    page.goto(f"{daemon.url}/#/conversations/talk")
    expect(first.locator(".body")).to_have_text("first wording")
    expect(first.get_by_role("group", name="Versions of this message")).to_contain_text("1/2")
    expect(page.locator(".msg.you").nth(1)).to_contain_text("the end of it")


def test_what_a_subagent_did_is_folded_under_its_call(page: Page, daemon: Daemon) -> None:
    allow_all(page)
    converse(page, daemon, "[[shell echo outer]] [[shell echo inner]] [[shell echo after]] [[say done]]")
    expect(answers(page).locator(".tool")).to_have_count(3)
    with database(daemon.segue.home / "segue.db") as store:
        events = [json.loads(text) for (text,) in store.execute("SELECT event FROM events ORDER BY seq")]
    outer = next(
        each["id"] for each in events if each["type"] == "tool-call" and "outer" in str(each["input"])
    )
    rewrite(daemon, **{"echo inner": {"parent": outer}})
    page.reload()
    expect(answers(page).locator(".tool")).to_have_count(2)
    call = answers(page).locator(".tool", has_text="echo outer")
    expect(call.locator("> summary .res")).to_contain_text("calls: 1")
    call.locator("> summary").click()
    expect(call.locator(".details .tool")).to_contain_text("echo inner")
    call.locator(".details .tool > summary").click()
    expect(call.locator(".details .details")).to_contain_text("inner")
    picture(page, "subagent")


def test_lines_mark_where_the_account_changed_and_where_it_was_compacted(page: Page, daemon: Daemon) -> None:
    file = daemon.segue.home / "config.toml"
    homes = "".join(
        f'\n[accounts.{name}]\nagent = "rehearsal"\nhome = "{daemon.segue.home / name}"\n'
        for name in ("ann", "bob")
    )
    other = '\n[agents.other]\ncommand = ["cat"]\nstdin = "prompt"\n'
    file.write_text(file.read_text() + homes + other)
    run = ("run", "talk")
    for args in (("one", "--account", "ann"), ("two", "--agent", "other"), ("three", "--account", "bob")):
        assert daemon.segue(*run, *args).code == 0
    assert daemon.segue(*run, "[[think four]] [[say four]]").code == 0
    rewrite(daemon, **{'"thinking"': {"type": "compacted", "trigger": "auto", "tokens": 5}})
    page.goto(f"{daemon.url}/#/conversations/talk")
    expect(answers(page)).to_have_count(4)
    lines = page.locator(".boundary")
    expect(lines).to_have_text(
        ["Account changed: ann → bob", "The agent replaced its history with a summary here"]
    )
    place = "node => node.compareDocumentPosition(document.querySelectorAll('.msg.you')[2])"
    assert lines.first.evaluate(place) == 4  # the third message follows it
    picture(page, "boundaries")


def test_after_a_failure_it_is_said_what_the_tools_did(page: Page, daemon: Daemon) -> None:
    allow_all(page)
    page.locator(".newkey input").fill("talk")
    send(page, "[[error 400]]")
    said = page.locator(".ask.failed .dim")
    expect(said).to_have_text("Your message is kept.")
    send(page, "[[shell echo hello]] [[error 400]]")
    expect(said.last).to_have_text("Your message is kept. What its tools did before stays done.")


def test_a_failed_turn_keeps_its_tools_and_its_line(page: Page, daemon: Daemon) -> None:
    allow_all(page)
    page.locator(".newkey input").fill("talk")
    send(page, "[[shell echo hello]] [[error 400]]")
    expect(page.locator(".ask.failed")).to_contain_text("400")
    for reload in (False, True):
        if reload:
            page.reload()
        asked = page.locator(".msg.you")
        expect(asked.locator(".tool", has_text="echo hello")).to_have_count(1, timeout=10_000)
        expect(asked.locator(".ask.failed")).to_contain_text("400")
        expect(asked.locator(".end .mode")).to_have_text("fresh")
    page.locator(".msg.you .end .mode").click()
    expect(page.locator(".side.r .ladder li.on")).to_contain_text("fresh")


def test_of_an_answer_that_was_cut_nothing_is_left(page: Page, daemon: Daemon) -> None:
    allow_all(page)
    converse(page, daemon, "[[shell echo hello]] [[say done]]")
    answers(page).get_by_role("button", name="Cut here").dispatch_event("click")
    page.get_by_role("dialog").get_by_role("button", name="Cut here").click()
    expect(answers(page)).to_have_count(0)
    for reload in (False, True):
        if reload:
            page.reload()
        asked = page.locator(".msg.you")
        expect(asked.locator(".body")).to_have_count(1)  # the message itself
        expect(asked.locator(".tool")).to_have_count(0)


def test_the_panel_never_shows_another_conversations_sessions(page: Page, daemon: Daemon) -> None:
    daemon.segue("run", "other", "hello", "--agent", "rehearsal")
    converse(page, daemon, "hello")
    panel = page.locator(".side.r")
    expect(panel.get_by_role("heading", name="Session")).to_be_visible()
    expect(panel.locator(".ladder")).to_be_visible()
    held: list[object] = []
    page.route("**/conversations/other/sessions", lambda route: held.append(route))
    page.route("**/conversations/other/plan**", lambda route: held.append(route))
    page.locator(".row", has_text="other").locator(".over").click()
    expect(answers(page)).to_have_count(1)
    page.wait_for_url("**/#/conversations/other")
    until = time.monotonic() + WAIT_MS / 1000
    while len(held) < 2:
        assert time.monotonic() < until
        page.wait_for_timeout(50)
    expect(panel.get_by_role("heading", name="Session")).to_have_count(0)
    expect(panel.locator(".ladder")).to_have_count(0)
    for route in held:
        route.continue_()  # type: ignore[attr-defined]
    expect(panel.get_by_role("heading", name="Session")).to_be_visible()
    expect(panel.locator(".ladder")).to_be_visible()


@pytest.mark.parametrize(
    ("language", "word"), [("en", "needs you"), ("es", "te necesita"), ("zh", "等你处理")]
)
def test_what_waits_for_somebody_is_called_the_same_everywhere(
    page: Page, daemon: Daemon, language: str, word: str
) -> None:
    page.evaluate("language => localStorage.setItem('segue.language', language)", language)
    page.reload()
    page.locator(".newkey input").fill("talk")
    send(page, "[[ask Go on? | yes | no]]")
    expect(page.locator(".msg[aria-busy] .t-needs")).to_have_text(word)
    choice = page.locator(".side.l").get_by_role("button", name=re.compile(f"^{word}", re.IGNORECASE))
    expect(choice).to_be_visible()


def test_the_rest_of_long_thoughts_and_texts_can_be_read(page: Page, daemon: Daemon) -> None:
    allow_all(page)
    thought, text = "deep " * 1500 + "bottom", "wide " * 1500 + "border"
    converse(page, daemon, f"[[think {thought}]] [[say {text}]] [[shell echo hello]] [[say done]]")
    page.reload()
    answer = answers(page).last
    expect(answer).to_contain_text("done")
    expect(answer).not_to_contain_text("border")
    answer.get_by_role("button", name="Show the rest").click()
    expect(answer).to_contain_text("border")
    expect(answer.get_by_role("button", name="Show the rest")).to_have_count(0)
    answer.locator(".tool", has_text="Thinking").locator("summary").click()
    expect(answer.locator(".thought")).to_contain_text("bottom")


def test_a_permission_to_change_a_file_shows_the_change(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "hello")
    given = {"path": "new.py", "content": 'first = "1"\nsecond = 2\n', "mode": "0644"}
    send(page, f"[[tool write {json.dumps(given)}]] [[say done]]")
    form = page.locator("form.ask")
    expect(form.locator(".diff .cap")).to_have_text("new.py")
    expect(form.locator(".diff .a")).to_have_count(2)
    expect(form.locator(".diff .a").first).to_contain_text('first = "1"')
    expect(form).to_contain_text("0644")  # whoever allows it sees all of it
    picture(page, "permission-change")
    form.get_by_role("button", name="Deny").click()
    expect(answers(page)).to_have_count(2)


def test_a_permission_shows_every_line_of_a_long_change(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "hello")
    given = {"path": "new.py", "content": "\n".join(f"line{n}" for n in range(500))}
    send(page, f"[[tool write {json.dumps(given)}]] [[say done]]")
    form = page.locator("form.ask")
    expect(form.locator(".diff")).to_contain_text("line0")
    expect(form.locator(".diff")).to_contain_text("line499")
    expect(form.locator(".diff .more")).to_have_count(0)


def test_the_focused_view_shows_what_a_turn_said_last(page: Page, daemon: Daemon) -> None:
    allow_all(page)
    converse(page, daemon, "hello")
    page.get_by_role("button", name="Focused").click()
    send(
        page,
        "[[say I look first.]] [[shell echo hello]] [[say Then I wait.]] [[ask Go on? | yes]] [[say done]]",
    )
    running = page.locator(".msg[aria-busy]")
    expect(page.locator("form.ask")).to_be_visible()
    expect(running).to_contain_text("Then I wait.")
    expect(running).not_to_contain_text("I look first.")
    page.reload()
    expect(running).to_contain_text("Then I wait.")
    expect(running.locator(".tool")).to_have_count(0)


def test_what_was_said_before_esc_stays(page: Page, daemon: Daemon) -> None:
    allow_all(page)
    converse(page, daemon, "hello")
    words = " ".join(f"word{n}" for n in range(300))
    send(page, f"[[shell echo hello]] [[slow 60 300]] [[say {words}]]")
    running = page.locator(".msg[aria-busy]")
    expect(running).to_contain_text("word5")
    page.locator(".dialogue").focus()
    page.keyboard.press("Escape")
    expect(running).to_have_count(0)
    asked = page.locator(".msg.you").last
    for reload in (False, True):
        if reload:
            page.reload()
        expect(asked.locator(".ask.failed")).to_contain_text("Cancelled")
        expect(asked.locator(".tool", has_text="echo hello")).to_have_count(1)
        expect(asked.locator(".body").nth(1)).to_contain_text("word5", timeout=10_000)


def test_a_copy_is_of_the_version_that_is_shown(page: Page, daemon: Daemon) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=daemon.url)
    converse(page, daemon, "first wording")
    message = page.locator(".msg.you")
    message.get_by_role("button", name="Edit").dispatch_event("click")
    field = message.get_by_label("The new text")
    expect(field).to_be_focused()
    low = field.evaluate("node => node.offsetHeight")
    field.fill("line\n" * 12 + "second wording")
    assert field.evaluate("node => node.offsetHeight") > low
    assert field.evaluate("node => node.scrollHeight <= node.clientHeight + 2")
    message.get_by_role("button", name="Save only").click()
    copied = "() => navigator.clipboard.readText()"
    copy = message.get_by_role("button", name="Copy the message")
    expect(message.get_by_role("group", name="Versions of this message")).to_contain_text("2/2")
    copy.dispatch_event("click")
    expect(copy).to_have_text("Copied")
    assert page.evaluate(copied).endswith("second wording")
    message.get_by_role("button", name="Earlier version").click()
    expect(message.locator(".body")).to_have_text("first wording")
    expect(copy).to_have_text("Copy")
    copy.dispatch_event("click")
    expect(copy).to_have_text("Copied")
    assert page.evaluate(copied) == "first wording"


def test_the_time_of_a_turn_counts_from_its_beginning(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "hello")
    send(page, "[[ask Go on? | yes]] [[say first]]")
    expect(page.locator("form.ask")).to_be_visible()
    send(page, "[[ask And now? | yes]] [[say second]]")
    expect(page.locator(".waiting")).to_have_count(1)
    with database(daemon.segue.home / "segue.db", timeout=60) as store:  # it has waited for an hour
        store.execute("UPDATE turns SET started_ms = started_ms - 3600000 WHERE state = 'queued'")
    page.locator("form.ask").get_by_label("yes").check()
    page.locator("form.ask").get_by_role("button", name="Answer").click()
    expect(answers(page)).to_have_count(2)
    expect(page.locator("form.ask")).to_contain_text("And now?")
    for reload in (False, True):
        if reload:
            page.reload()
        expect(page.locator(".msg[aria-busy] .end")).to_have_text(re.compile(r"^resume\d?\d(\.\d)? s"))


def test_who_is_not_logged_in_is_told_the_command(page: Page, daemon: Daemon) -> None:
    file = daemon.segue.home / "config.toml"
    file.write_text(
        f'{file.read_text()}\n[accounts.ann]\nagent = "rehearsal"\nhome = "{daemon.segue.home / "ann"}"\n'
    )
    details = {**daemon.ask("GET", "/api/v1/accounts/ann").json, "login_command": "agent login --home ann"}
    page.route("**/accounts/ann", lambda route: route.fulfill(json=details))
    assert daemon.segue("run", "talk", "[[error 401]]", "--account", "ann").code != 0
    page.goto(f"{daemon.url}/#/conversations/talk")
    failed = page.locator(".ask.failed")
    expect(failed).to_contain_text("The agent is not logged in")
    expect(failed.locator("figure.block code")).to_have_text("agent login --home ann")


def test_an_earlier_answer_has_its_own_line_and_reasons(page: Page, daemon: Daemon) -> None:
    converse(page, daemon, "remember number 456", "what number?")
    answer = answers(page).last
    expect(answer.locator(".end .mode")).to_have_text("resume")
    page.locator(".msg.you").last.get_by_role("button", name="Retry").dispatch_event("click")
    versions = answer.get_by_role("group", name="Versions of this message")
    expect(versions).to_contain_text("2/2")
    expect(answer.locator(".end .mode")).to_have_text("branch")
    versions.get_by_role("button", name="Earlier version").click()
    expect(versions).to_contain_text("1/2")
    expect(answer.locator(".end .mode")).to_have_text("resume", timeout=10_000)
    answer.locator(".end .mode").click()
    heading = page.locator(".side.r").get_by_role("heading", level=2).first
    expect(heading).to_contain_text("Why this turn was resume")
    expect(answer).to_have_attribute("aria-current", "true")
    versions.get_by_role("button", name="Later version").click()
    expect(answer.locator(".end .mode")).to_have_text("branch")
    expect(answer).not_to_have_attribute("aria-current", "true")


def test_a_retry_asks_before_it_drops_what_was_said_since(page: Page, daemon: Daemon) -> None:
    page.locator(".newkey input").fill("talk")
    send(page, "[[error 400]]")
    failed = page.locator(".ask.failed")
    expect(failed).to_contain_text("400")
    send(page, "[[say something else]]")
    expect(answers(page)).to_have_count(1)
    failed.get_by_role("button", name="Retry").click()
    asked = page.get_by_role("dialog", name="Run this message again?")
    expect(asked).to_contain_text("What was said after it will be dropped", timeout=10_000)
    asked.get_by_role("button", name="Cancel").click()
    page.wait_for_timeout(500)
    log = daemon.ask("GET", "/api/v1/conversations/talk/log").json
    assert [each["n"] for each in log] == [1, 2, 3]
    failed.get_by_role("button", name="Retry").click()
    asked.get_by_role("button", name="Retry").click()
    expect(page.locator(".msg.you")).to_have_count(1)
    expect(answers(page)).to_have_count(0)
