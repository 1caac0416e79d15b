"""Reading a dialogue while things happen: found messages, edits, cuts, answers that come late, long turns."""

from __future__ import annotations

from urllib.parse import quote

from playwright.sync_api import Page, Route, expect

from tests.integration.server.conftest import Daemon
from tests.page.test_conversations import answers, send
from tests.page.test_outages import ERRORS, imported

MANY = 400
HELD = """
  const plain = window.fetch;
  window.held = null;
  window.late = 0;
  window.fetch = async (address, options) => {
    const answer = await plain(address, options);
    if (!window.held || !new RegExp(window.held).test(String(address))) return answer;
    window.late += 1;
    while (window.held) await new Promise((done) => setTimeout(done, 20));
    setTimeout(() => { window.late -= 1; }, 200);
    return answer;
  };
"""
"""Answers to requests that match ``held`` are kept back while it is set; ``late``: how many."""


def long(page: Page, daemon: Daemon) -> None:
    imported(daemon, "long", MANY)
    page.goto(f"{daemon.url}/#/conversations/long")
    expect(page.get_by_text(f"message number {MANY - 1}", exact=True)).to_be_in_viewport()


def id_of(daemon: Daemon, number: int) -> str:
    """The id of a message by its number in the conversation, from 1."""
    found = daemon.ask("GET", f"/api/v1/conversations/long/messages?limit=1&at={quote(f'#{number}')}").json
    return str(found["messages"][-1]["id"])


def jump(page: Page, daemon: Daemon, number: int) -> None:
    """To a message, as a hit of the search does."""
    page.evaluate("place => { location.hash = place }", f"#/conversations/long/{id_of(daemon, number)}")
    expect(page.get_by_text(f"message number {number - 1}", exact=True)).to_be_in_viewport()


def test_a_found_message_of_the_open_conversation_is_shown(page: Page, daemon: Daemon) -> None:
    long(page, daemon)
    jump(page, daemon, 51)
    expect(page.get_by_role("button", name="Latest")).to_be_visible()
    page.wait_for_timeout(500)  # newer pages could be read, one after the other, as at the end
    expect(page.get_by_text("message number 50", exact=True)).to_be_in_viewport()
    expect(page.get_by_text(f"message number {MANY - 1}", exact=True)).to_have_count(0)
    jump(page, daemon, 301)
    page.get_by_role("button", name="Latest").click()
    expect(page.get_by_text(f"message number {MANY - 1}", exact=True)).to_be_in_viewport()


def test_an_answer_that_comes_late_does_not_replace_what_was_found(page: Page, daemon: Daemon) -> None:
    page.add_init_script(HELD)
    page.reload()
    long(page, daemon)
    page.evaluate("window.held = '/messages\\\\?limit=40&events=true$'")
    daemon.segue("edit", "long", f"#{MANY}", "another text")
    page.wait_for_function("() => window.late === 1")
    jump(page, daemon, 51)
    page.evaluate("window.held = null")
    page.wait_for_function("() => window.late === 0")
    expect(page.get_by_text("message number 50", exact=True)).to_be_in_viewport()


def test_edits_and_cuts_are_shown_where_the_reader_is(page: Page, daemon: Daemon) -> None:
    page.expected_errors = ("404",)  # type: ignore[attr-defined]  # what follows a message that is cut away
    long(page, daemon)
    jump(page, daemon, 51)
    daemon.segue("edit", "long", "#50", "better words")
    expect(page.get_by_text("better words", exact=True)).to_be_in_viewport()
    daemon.segue("edit", "long", "#53", "the new end", "--cut")
    expect(page.get_by_text("the new end", exact=True)).to_be_visible()
    expect(page.get_by_text("message number 54", exact=True)).to_have_count(0)
    expect(page.get_by_text("message number 50", exact=True)).to_be_in_viewport()


def test_an_edit_in_an_older_page_is_shown(page: Page, daemon: Daemon) -> None:
    long(page, daemon)
    older = f"message number {MANY - 60}"
    while page.get_by_text(older, exact=True).count() == 0:
        page.locator(".dialogue").evaluate("node => { node.scrollTop = 300 }")
        page.wait_for_timeout(100)
    daemon.segue("edit", "long", f"#{MANY - 59}", "better words")
    expect(page.get_by_text("better words", exact=True)).to_be_attached()


def test_a_failed_request_for_newer_messages_is_repeated(page: Page, daemon: Daemon) -> None:
    page.expected_errors = ERRORS  # type: ignore[attr-defined]
    failed: list[str] = []

    def fail_once(route: Route) -> None:
        if failed:
            route.continue_()
        else:
            failed.append(route.request.url)
            route.abort()

    long(page, daemon)
    page.route("**/messages?*after=*", fail_once)
    jump(page, daemon, 51)
    page.locator(".dialogue").evaluate(
        "node => { node.scrollTop = node.scrollHeight - node.clientHeight - 100 }"
    )
    expect(page.get_by_text("message number 75", exact=True)).to_be_attached()
    assert len(failed) == 1


def test_a_deleted_conversation_does_not_come_back_with_a_late_answer(page: Page, daemon: Daemon) -> None:
    page.add_init_script(HELD)
    page.reload()
    for key in ("one", "two"):
        imported(daemon, key, 2)
        expect(page.locator(".row", has_text=key)).to_be_visible()
    page.evaluate("window.held = '/conversations/one$'")
    daemon.ask("PATCH", "/api/v1/conversations/one", {"title": "renamed"})
    page.wait_for_function("() => window.late === 1")
    daemon.segue("rm", "one")
    expect(page.locator(".row")).to_have_count(1)
    page.evaluate("window.held = null")
    page.wait_for_function("() => window.late === 0")
    expect(page.locator(".row")).to_have_count(1)


def test_a_conversation_deleted_while_the_list_is_fetched_is_not_in_it(page: Page, daemon: Daemon) -> None:
    imported(daemon, "one", 2)
    imported(daemon, "two", 2)
    page.add_init_script(HELD + "window.held = '/conversations$'; window.gone = 0;")
    page.add_init_script(
        "window.EventSource = class extends EventSource { constructor(address) { super(address);"
        " this.addEventListener('removed', () => { window.gone += 1; }); } };"
    )
    page.reload()
    page.wait_for_function("() => window.late === 2")  # at once, and when the stream began
    daemon.segue("rm", "one")
    page.wait_for_function("() => window.gone === 1")
    page.evaluate("window.held = null")
    page.wait_for_function("() => window.late === 0")
    expect(page.locator(".row", has_text="two")).to_be_visible()
    expect(page.locator(".row")).to_have_count(1)


def test_what_is_said_before_the_stream_begins_is_shown(page: Page, daemon: Daemon) -> None:
    imported(daemon, "long", 4)
    held: list[Route] = []
    page.route("**/api/v1/events*", lambda route: held.append(route))
    page.goto(f"{daemon.url}/#/conversations/long")
    page.reload()
    expect(page.get_by_text("message number 3", exact=True)).to_be_in_viewport()
    daemon.segue("run", "long", "[[say something new]]", "--no-daemon")
    for each in held:
        each.continue_()
    expect(answers(page).last).to_contain_text("something new")


def test_a_long_turn_keeps_its_first_steps(page: Page, daemon: Daemon) -> None:
    page.locator(".newkey input").fill("talk")
    page.locator(".pick-more > summary").click()
    page.get_by_label("Permission").select_option("full")
    many = " ".join(f"[[shell echo step-{n}]]" for n in range(220))
    send(page, f"{many} [[say done]]")
    expect(answers(page)).to_have_count(1)
    expect(answers(page).locator(".tool", has_text="echo step-0")).to_have_count(1)
    expect(answers(page).locator(".tool", has_text="echo step-")).to_have_count(220)
    expect(answers(page).locator(".boundary")).to_have_count(0)


def test_what_is_sent_from_an_earlier_place_is_shown(page: Page, daemon: Daemon) -> None:
    long(page, daemon)
    jump(page, daemon, 51)
    send(page, "[[say something new]]")
    expect(answers(page).last).to_contain_text("something new")
    expect(answers(page).last).to_be_in_viewport()
    expect(page.get_by_text(f"message number {MANY - 1}", exact=True)).to_be_attached()
    expect(page.locator(".jump button")).to_have_count(0)


def test_at_an_earlier_place_a_retry_asks_before_it_drops_what_follows(page: Page, daemon: Daemon) -> None:
    long(page, daemon)
    jump(page, daemon, 51)
    page.locator(".msg.you").last.get_by_role("button", name="Retry").dispatch_event("click")
    expect(page.get_by_role("dialog", name="Run this message again?")).to_be_visible(timeout=10_000)
    page.keyboard.press("Escape")
    assert daemon.ask("GET", "/api/v1/conversations/long").json["messages"] == MANY


def test_a_retry_drops_nothing_that_the_page_does_not_know(page: Page, daemon: Daemon) -> None:
    page.expected_errors = ("422",)  # type: ignore[attr-defined]
    imported(daemon, "long", 4)
    page.add_init_script(HELD)
    page.goto(f"{daemon.url}/#/conversations/long")
    page.reload()
    expect(page.get_by_text("message number 3", exact=True)).to_be_in_viewport()
    page.evaluate("window.held = '/messages'")
    assert daemon.segue("run", "long", "[[say something new]]", "--agent", "rehearsal").code == 0
    page.wait_for_function("() => window.late > 0")
    page.locator(".msg.you").last.get_by_role("button", name="Retry").dispatch_event("click")
    expect(page.locator(".told .bad")).to_contain_text("follow", timeout=10_000)
    page.evaluate("window.held = null")
    expect(answers(page).last).to_contain_text("something new")
    assert daemon.ask("GET", "/api/v1/conversations/long").json["messages"] == 6


BELOW = "node => node.scrollHeight - node.scrollTop - node.clientHeight"


def test_a_stream_is_followed_at_the_end_and_nowhere_else(page: Page, daemon: Daemon) -> None:
    page.locator(".newkey input").fill("talk")
    words = "".join(f"word{n} and a few more of them\n\n" for n in range(400))
    send(page, f"[[slow 40 400]] [[say {words}]]")
    dialogue, running = page.locator(".dialogue"), page.locator(".msg[aria-busy]")
    expect(running).to_contain_text("word60 ")
    assert dialogue.evaluate(BELOW) < 60
    dialogue.hover()
    page.mouse.wheel(0, -500)
    expect(page.get_by_role("button", name="Latest")).to_be_visible()
    page.wait_for_timeout(300)
    place = dialogue.evaluate("node => node.scrollTop")
    expect(running).to_contain_text("word90 ")
    assert abs(dialogue.evaluate("node => node.scrollTop") - place) <= 1
    page.get_by_role("button", name="Latest").click()
    expect(running).to_contain_text("word120 ")
    assert dialogue.evaluate(BELOW) < 60
    expect(page.get_by_role("button", name="Latest")).to_have_count(0)


def test_what_is_read_stays_where_it_is_while_older_pages_arrive(page: Page, daemon: Daemon) -> None:
    sides = ("user", "assistant")
    lines = [
        {"from": sides[n % 2], "text": f"message number {n}\n\n" + "line\n\n" * (n % 7), "agent": "rehearsal"}
        for n in range(MANY)
    ]
    export = {"schema": 1, "key": "long", "messages": lines}
    assert daemon.ask("POST", "/api/v1/conversations/import", {"export": export}).status == 201
    page.goto(f"{daemon.url}/#/conversations/long")
    expect(page.locator(".msg", has_text=f"message number {MANY - 1}")).to_be_in_viewport()
    moved = page.evaluate(
        """async () => {
        const node = document.querySelector('.dialogue');
        const edge = node.getBoundingClientRect().top;
        const pause = (ms) => new Promise((done) => setTimeout(done, ms));
        const moves = [];
        for (let round = 0; round < 12; round += 1) {
          const before = node.scrollHeight;
          node.scrollTop = Math.max(40, node.scrollTop - 700);
          await pause(20);
          const seen = (each) => each.getBoundingClientRect().bottom > edge;
          const mark = [...node.querySelectorAll('.msg')].find(seen);
          const at = mark.getBoundingClientRect().top;
          await pause(400);
          moves.push(mark.isConnected ? Math.round(mark.getBoundingClientRect().top - at) : null);
        }
        return moves; }"""
    )
    assert [each for each in moved if each is None or abs(each) > 2] == [], moved
    assert page.locator(".msg").count() < 150
