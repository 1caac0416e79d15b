"""Native sessions on the page: the table, search, what a resume would do, transcripts of any size, and what
can be done with a session."""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.integration.server.conftest import Daemon
from tests.page.conftest import picture
from tests.page.session_files import Claude, message, rehearsal, rehearsal_folder

LARGE_BYTES = 200_000_000
HUGE_BYTES = 1_000_000_000
DAY_S = 86_400
TEXTS = ("the first question", "the first answer", "the second question", "the second answer")


@pytest.fixture
def home(daemon: Daemon) -> Path:
    """The user's home."""
    return daemon.home.parent


def visit(page: Page, daemon: Daemon, *parts: str) -> None:
    """Go to the view. The daemon's answers are read anew."""
    page.goto(f"{daemon.url}/#/{'/'.join(('sessions', *parts))}")
    page.reload()
    expect(page.locator(".tool-line")).to_be_visible()


def rows(page: Page) -> Locator:
    return page.locator("tr.r")


def titles(page: Page) -> list[str]:
    return page.locator("tr.r .n1 a").all_inner_texts()


def entries(page: Page) -> Locator:
    return page.locator(".prev [data-id]")


def panel(page: Page) -> Locator:
    return page.locator("aside.side.r")


def nodes(page: Page) -> int:
    count: int = page.evaluate("document.querySelectorAll('*').length")
    return count


def everything(page: Page) -> None:
    panel(page).get_by_role("button", name="All", exact=True).click()


def test_all_sessions_are_listed_filtered_and_sorted(page: Page, daemon: Daemon, home: Path) -> None:
    now = time.time()
    rehearsal(home, ("small and old", "yes"), cwd="/home/anna/infra", used=now - 3 * DAY_S)
    rehearsal(home, ("large and new", "x" * 40_000), cwd="/home/anna/app", used=now - 60)
    claude = Claude(home, cwd="/home/anna/app")
    claude.says("Expired tokens are accepted")
    claude.writes("They are not any more.")
    visit(page, daemon)
    expect(rows(page)).to_have_count(3)
    assert titles(page) == ["Expired tokens are accepted", "large and new", "small and old"]
    first = rows(page).first
    expect(first.locator("abbr")).to_have_attribute("title", "Claude")
    expect(first.locator(".dir")).to_have_text("~/app")
    expect(first.locator(".c-messages")).to_have_text("2")
    expect(first.locator(".c-context")).to_contain_text("30 %")
    expect(first.locator(".c-cost")).to_have_text("–")
    expect(first.locator(".c-expires span")).to_have_attribute("title", re.compile("Claude deletes it on"))
    page.get_by_role("button", name="Size").click()
    assert titles(page)[0] == "large and new"
    expect(page.locator("th.c-size")).to_have_attribute("aria-sort", "descending")
    page.get_by_role("button", name="Size").click()
    assert titles(page)[-1] == "large and new"
    page.get_by_role("button", name="Title").click()
    assert titles(page) == ["Expired tokens are accepted", "large and new", "small and old"]
    page.get_by_role("group", name="Filter by agent").get_by_role("button", name="Rehearsal").click()
    expect(rows(page)).to_have_count(2)
    expect(page.locator(".count")).to_have_text("2 of 3 sessions")
    page.get_by_label("Filter by directory").select_option("/home/anna/infra")
    expect(rows(page)).to_have_count(1)
    picture(page, "sessions")


def test_five_thousand_sessions_scroll_with_few_rows_in_the_page(
    page: Page, daemon: Daemon, home: Path
) -> None:
    now = time.time()
    for number in range(5000):
        name = str(uuid.UUID(int=number))
        rehearsal(home, (f"question {number}", "yes"), session=name, used=now - 60 - number)
    visit(page, daemon)
    table = page.locator("table.ses")
    expect(table).to_have_attribute("aria-rowcount", "5001")
    expect(page.locator(".foot .r")).to_contain_text("5000 sessions")
    assert rows(page).count() < 80
    assert titles(page)[0] == "question 0"
    page.evaluate("document.querySelector('.main .page').scrollTop = 1e9")
    expect(page.locator("tr.r").last).to_have_attribute("aria-rowindex", "5001")
    assert titles(page)[-1] == "question 4999"
    assert rows(page).count() < 80
    # Wherever one goes, there are rows.
    blank = page.evaluate(
        """async () => { const node = document.querySelector('.main .page'); let blank = 0;
        for (let at = 0; at < 40; at += 1) { node.scrollTop = (at * 79190) % node.scrollHeight;
          await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
          const box = node.getBoundingClientRect();
          const hit = document.elementFromPoint(box.left + 200, box.top + box.height / 2);
          if (!hit?.closest('tr.r')) blank += 1; }
        return blank; }"""
    )
    assert blank == 0


def test_a_search_shows_marked_words_and_jumps_to_the_message(page: Page, daemon: Daemon, home: Path) -> None:
    filler = [f"filler number {number} " * 20 for number in range(300)]
    rehearsal(
        home, (*filler[:200], "where is the purple walrus hiding?", *filler[200:]), used=time.time() - 600
    )
    rehearsal(home, ("something else", "entirely"))
    visit(page, daemon)
    page.keyboard.press("/")
    page.keyboard.type("purple walrus")
    expect(rows(page)).to_have_count(1)
    expect(rows(page).locator("mark")).to_have_text(["purple", "walrus"])
    expect(page.locator(".count")).to_have_text("1 of 2 sessions")
    page.keyboard.press("Enter")
    expect(rows(page).locator("a")).to_be_focused()
    page.keyboard.press("Enter")
    found = page.locator(".prev .found")
    expect(found).to_contain_text("purple walrus")
    expect(found).to_be_in_viewport()
    assert page.evaluate("CSS.highlights.get('found').size") == 2
    expect(panel(page).locator(".bar-prev")).to_contain_text("match 1 of 1")
    # Both directions from there.
    expect(entries(page).filter(has_text="filler number 199 ")).to_have_count(1)
    expect(entries(page).filter(has_text="filler number 200 ")).to_have_count(1)
    picture(page, "sessions-search")
    page.get_by_role("searchbox").fill("")
    expect(rows(page)).to_have_count(2)


def test_a_search_says_that_the_index_is_being_updated(page: Page, daemon: Daemon, home: Path) -> None:
    rehearsal(home, ("an old hat", "yes"))
    visit(page, daemon)
    expect(rows(page)).to_have_count(1)

    def later(route: object) -> None:
        time.sleep(1.5)
        route.continue_()  # type: ignore[attr-defined]

    page.route("**/sessions/search?*index=true*", later)
    page.get_by_role("searchbox").fill("hat")
    expect(page.locator(".count")).to_contain_text("the index is being updated")
    expect(page.locator(".count")).to_have_text("1 of 1 sessions")
    page.unroute("**/sessions/search?*index=true*")


def test_it_says_what_a_resume_would_do(page: Page, daemon: Daemon, home: Path) -> None:
    assert daemon.segue("run", "talk", "remember number 456").code == 0
    claude = Claude(home, cwd=str(daemon.segue.cwd))
    claude.says("Expired tokens are accepted")
    claude.calls("Bash", {"command": "pytest -q"}, "1 failed", wrong=True)
    claude.writes("They are not any more.")
    visit(page, daemon, "claude", claude.id)
    facts = panel(page).locator(".kv")
    expect(facts).to_contain_text("about 60.9k of 200k tokens (30 %).")
    expect(facts).to_contain_text("It would not be compacted.")
    expect(facts).to_contain_text("2 messages, 1 tool call")
    expect(facts).to_contain_text("the screen and running tasks")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    panel(page).get_by_role("button", name="Open in terminal").click()
    expect(panel(page).locator(".block code")).to_contain_text(f"claude --resume {claude.id}")
    panel(page).locator(".block").get_by_role("button").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == f"cd {daemon.segue.cwd} && claude --resume {claude.id}"
    rows(page).filter(has_text="talk").locator("a").click()
    expect(facts).to_contain_text("2 messages, 0 tool calls")
    panel(page).get_by_role("link", name="talk").click()
    expect(page.locator(".msg.you")).to_contain_text("remember number 456")


def test_a_session_that_would_be_compacted_at_once_says_so(page: Page, daemon: Daemon, home: Path) -> None:
    claude = Claude(home)
    claude.says("A long story")
    usage = {"input_tokens": 4, "cache_read_input_tokens": 195_000, "output_tokens": 20}
    said = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-6"}
    claude.record("assistant", message={**said, "content": [{"type": "text", "text": "yes"}], "usage": usage})
    visit(page, daemon, "claude", claude.id)
    expect(panel(page).locator(".kv")).to_contain_text("The CLI would compact at once.")


def test_a_session_begun_elsewhere_is_continued_here(page: Page, daemon: Daemon, home: Path) -> None:
    path = rehearsal(home, ("remember number 777", "Noted: 777."), cwd=str(daemon.segue.cwd))
    visit(page, daemon, "rehearsal", path.stem)
    panel(page).get_by_role("button", name="Continue here").click()
    page.get_by_label("What the agent should do next").fill("what number?")
    page.reload()
    panel(page).get_by_role("button", name="Continue here").click()
    expect(page.get_by_label("What the agent should do next")).to_have_value("what number?")
    page.get_by_role("textbox", name="Key").fill("taken/over")
    page.get_by_label("What the agent should do next").press("Enter")
    expect(page).to_have_url(re.compile(r"#/conversations/taken%2Fover"))
    expect(page.locator(".msg[data-run]:not([aria-busy])").last).to_contain_text("777")
    log = daemon.ask("GET", "/api/v1/conversations/taken%2Fover/log").json
    assert log[-1]["mode"] == "resume"


KEPT = """() => {
  const field = document.querySelector("#ses-message");
  field.value = "half a thought";
  field.dispatchEvent(new Event("input", { bubbles: true }));
  return Object.keys(localStorage).filter((each) => each.startsWith("segue.draft:session:")).length;
}"""


def test_what_is_written_to_a_session_is_kept_at_once(page: Page, daemon: Daemon, home: Path) -> None:
    path = rehearsal(home, ("remember number 777", "Noted: 777."), cwd=str(daemon.segue.cwd))
    visit(page, daemon, "rehearsal", path.stem)
    panel(page).get_by_role("button", name="Continue here").click()
    expect(page.locator("#ses-message")).to_be_visible()
    assert page.evaluate(KEPT) == 1


def test_a_session_of_a_conversation_is_continued_there(page: Page, daemon: Daemon) -> None:
    assert daemon.segue("run", "talk", "remember number 456").code == 0
    visit(page, daemon)
    rows(page).locator("a").click()
    panel(page).get_by_role("button", name="Continue here").click()
    expect(panel(page)).to_contain_text("Continues in the conversation talk")
    expect(page.get_by_role("textbox", name="Key")).to_have_count(0)
    page.get_by_label("What the agent should do next").fill("what number?")
    panel(page).get_by_role("button", name="Send").click()
    expect(page.locator(".msg[data-run]:not([aria-busy])").last).to_contain_text("456")
    # The list has what the turn added.
    page.goto(f"{daemon.url}/#/sessions")
    expect(rows(page).locator(".c-messages")).to_have_text("4")


def test_a_damaged_session_is_checked_and_repaired(page: Page, daemon: Daemon, home: Path) -> None:
    claude = Claude(home, cwd=str(daemon.segue.cwd))
    claude.says("Expired tokens are accepted")
    claude.damage()
    claude.writes("They are not any more.")
    visit(page, daemon, "claude", claude.id)
    expect(page.locator(".prev .damaged")).to_contain_text("Unreadable:")
    panel(page).get_by_role("button", name="Check").click()
    result = panel(page).locator(".ses-findings")
    expect(result).to_contain_text("A resume would fail or go wrong.")
    expect(result.locator("li.error").first).to_contain_text("To do: write a repaired copy")
    result.locator("li.error a").first.click()
    expect(page.locator(".prev .damaged.found")).to_be_visible()
    result.get_by_role("button", name="Repair").click()
    picture(page, "sessions-check")
    panel(page).get_by_role("button", name="Write a repaired copy").click()
    expect(result).to_contain_text("Repaired in a copy:")
    copy = result.get_by_role("link").first
    expect(copy).to_be_visible()
    copy.click()
    expect(page).not_to_have_url(re.compile(claude.id))
    expect(page.locator(".prev .damaged")).to_have_count(0)
    expect(rows(page)).to_have_count(2)
    panel(page).get_by_role("button", name="Check").click()
    expect(panel(page).locator(".ses-findings")).to_contain_text("A resume would work.")


FINDINGS = {
    "es": (
        "Comprobar",
        "registros que no se pueden leer: 1; la mayoría de los agentes los omiten",
        "Qué hacer: escribe una copia reparada con segue sessions repair {name}.",
    ),
    "zh": (
        "检查",
        "1 条记录无法读取：多数代理会跳过，有些会拒绝整个会话",
        "处理办法：用 segue sessions repair {name} 写入修复后的副本。",
    ),
}


@pytest.mark.parametrize("language", FINDINGS)
def test_findings_are_told_in_the_language_of_the_page(
    page: Page, daemon: Daemon, home: Path, language: str
) -> None:
    button, means, do = FINDINGS[language]
    claude = Claude(home, cwd=str(daemon.segue.cwd))
    claude.says("Expired tokens are accepted")
    claude.damage()
    claude.writes("They are not any more.")
    page.goto(f"{daemon.url}/#/sessions")
    page.evaluate("language => localStorage.setItem('segue.language', language)", language)
    visit(page, daemon, "claude", claude.id)
    panel(page).get_by_role("button", name=button).click()
    found = panel(page).locator(".ses-findings li.error").first
    expect(found).to_contain_text(means)
    expect(found).to_contain_text(do.format(name=claude.id[:8]))


def test_a_sound_session_has_nothing_to_repair_but_can_be_trimmed(
    page: Page, daemon: Daemon, home: Path
) -> None:
    claude = Claude(home, cwd=str(daemon.segue.cwd))
    claude.says("Read it")
    claude.calls("Read", {"file_path": "a.txt"}, "a long line\n" * 20_000)
    claude.writes("Done.")
    visit(page, daemon, "claude", claude.id)
    panel(page).get_by_role("button", name="Repair").click()
    panel(page).get_by_role("button", name="Write a repaired copy").click()
    expect(panel(page)).to_contain_text("There is nothing to repair.")
    page.get_by_label("Without tool output and images").check()
    panel(page).get_by_role("button", name="Write a repaired copy").click()
    expect(panel(page).locator(".ses-findings")).to_contain_text("Repaired in a copy:")


def test_a_session_that_is_gone_is_restored_from_its_copy(page: Page, daemon: Daemon, home: Path) -> None:
    assert daemon.segue("run", "talk", "remember number 456").code == 0
    visit(page, daemon)
    expect(rows(page).locator(".c-expires")).to_have_text("kept by Segue")
    (file,) = rehearsal_folder(home).glob("*.jsonl")
    file.unlink()
    page.reload()
    expect(rows(page)).to_contain_text("Deleted; a copy is kept")
    rows(page).locator("a").click()
    panel(page).get_by_role("button", name="Restore").click()
    expect(page.locator(".told")).to_contain_text("Restored from the copy")
    expect(rows(page).locator(".n1")).to_contain_text("remember number 456")
    expect(entries(page).first).to_contain_text("remember number 456")
    assert file.exists()


def test_prune_lists_what_would_go_and_deletes_after_a_confirmation(
    page: Page, daemon: Daemon, home: Path
) -> None:
    for key in ("one", "two"):
        assert daemon.segue("run", key, f"remember number 456 for {key}").code == 0
    assert daemon.segue("rm", "one", "--yes").code == 0
    old = time.time() - 30 * DAY_S
    for file in rehearsal_folder(home).glob("*.jsonl"):
        os.utime(file, (old, old))
        text = file.read_text()
        file.write_text(re.sub(r'("(?:time|created)_ms":)\d+', rf"\g<1>{int(old * 1000)}", text))
        os.utime(file, (old, old))
    visit(page, daemon)
    expect(rows(page)).to_have_count(2)
    page.get_by_role("button", name="Prune").click()
    dialog = page.locator("dialog[open]")
    expect(dialog).to_contain_text("1 session would go")
    expect(dialog.locator("tbody tr")).to_have_count(1)
    expect(dialog.locator("tbody")).to_contain_text("for one")
    expect(dialog.locator(".wy")).to_contain_text("not used for 30 days")
    dialog.get_by_label("Not used for, days").fill("60")
    expect(dialog).to_contain_text("Nothing would go.")
    dialog.get_by_label("Not used for, days").fill("7")
    dialog.get_by_label("Larger than, MB").fill("5")
    expect(dialog).to_contain_text("Nothing would go.")
    dialog.get_by_label("Larger than, MB").fill("")
    expect(dialog).to_contain_text("1 session would go")
    picture(page, "sessions-prune")
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog).to_contain_text("They cannot be brought back.")
    assert len(list(rehearsal_folder(home).glob("*.jsonl"))) == 2
    dialog.get_by_role("button", name="Delete it for good").click()
    expect(page.locator(".told")).to_contain_text("1 session deleted")
    expect(rows(page)).to_have_count(1)
    assert len(list(rehearsal_folder(home).glob("*.jsonl"))) == 1


def test_the_transcript_folds_what_is_not_said(page: Page, daemon: Daemon, home: Path) -> None:
    claude = Claude(home)
    claude.says("Expired tokens are accepted")
    claude.answers({"type": "thinking", "thinking": "The leeway is five minutes.", "signature": "x"})
    claude.writes("I look first.")
    claude.calls("Bash", {"command": "pytest -q"}, "1 failed", wrong=True)
    edit = {"file_path": "auth.py", "old_string": "a = 1\n", "new_string": "a = 2\nb = 3\n"}
    claude.calls("Edit", edit, "ok")
    claude.says("What does the subagent say?", isSidechain=True)
    claude.writes("The subagent says this.", isSidechain=True)
    claude.writes("They are **not** any more.")
    claude.record("user", message={"role": "user", "content": "A summary of all."}, isCompactSummary=True)
    claude.says("And refresh tokens?")
    claude.writes("The same.")
    visit(page, daemon, "claude", claude.id)
    said = page.locator(".prev article")
    expect(said).to_have_count(4)
    expect(said.nth(1)).to_contain_text("2 tool calls")
    expect(said.nth(1).locator("strong")).to_have_text("not")
    expect(page.locator(".prev .boundary")).to_contain_text("Compacted")
    expect(page.get_by_text("A summary of all.").last).to_be_visible()
    everything(page)
    expect(said).to_have_count(5)
    transcript = page.locator(".prev")
    expect(transcript.locator("summary", has_text="Thinking")).to_contain_text("The leeway")
    bash = transcript.locator("details", has_text="pytest -q")
    expect(bash.locator("summary")).to_contain_text("failed · 1.5 s")
    expect(bash.locator("pre")).to_have_count(0)
    bash.locator("summary").click()
    expect(bash.locator("pre").last).to_have_text("1 failed")
    change = transcript.locator("details", has_text="auth.py")
    expect(change.locator("summary")).to_contain_text("+2 −1")
    change.locator("summary").click()
    expect(change.locator(".diff .a")).to_have_count(2)
    side = transcript.locator("details", has_text="Subagent")
    expect(side).to_contain_text("2 entries")
    expect(side.get_by_text("The subagent says this.")).to_have_count(0)
    side.locator("summary").first.click()
    expect(side.get_by_text("The subagent says this.")).to_be_visible()
    expect(side.locator(".who b")).to_have_text(["To the subagent", "Subagent"])
    picture(page, "sessions-transcript")
    page.reload()
    expect(panel(page).get_by_role("button", name="All", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )


def large(home: Path, least: int) -> tuple[Path, int]:
    """A session of so many bytes, and the number of its messages."""
    filler = "and so on, as it was said before; " * 60

    def texts() -> Iterator[str]:
        size = number = 0
        while size < least:
            text = f"message {number} {filler}"
            size += len(text) + 150
            number += 1
            yield text

    path = rehearsal(home, texts(), used=time.time() - 3600)
    with path.open("rb") as file:
        count = sum(1 for _ in file) - 1
    return path, count


def test_a_large_session_is_read_in_both_directions_with_a_small_page(
    page: Page, daemon: Daemon, home: Path, soak: bool
) -> None:
    path, count = large(home, HUGE_BYTES if soak else LARGE_BYTES)
    small = rehearsal(home, (f"small {number} " + "and so on " * 200 for number in range(100)))
    visit(page, daemon)
    began = time.monotonic()
    rows(page).locator(f'a[href*="{small.stem}"]').click()
    expect(entries(page).filter(has_text="small 99 ")).to_be_in_viewport()
    usual = time.monotonic() - began
    began = time.monotonic()
    rows(page).locator(f'a[href*="{path.stem}"]').click()
    last = entries(page).filter(has_text=f"message {count - 1} ")
    expect(last).to_be_in_viewport()
    opened = time.monotonic() - began
    expect(panel(page).locator(".kv")).to_contain_text("Counted at its beginning and end only")
    assert opened < 5 * usual + 1, "it takes as long as a small one"
    before, seen = nodes(page), {count - 1}
    transcript = page.locator(".prev")
    for _ in range(40):
        transcript.evaluate("node => (node.scrollTop = Math.max(1, node.scrollTop - 15000))")
        page.wait_for_timeout(60)
        first = entries(page).first.inner_text()
        seen.add(int(first.split("message ")[1].split()[0]))
    assert min(seen) < count - 300, f"five pages up: {min(seen)} of {count}"
    assert entries(page).count() <= 330
    assert nodes(page) < before + 6000
    expect(page.get_by_role("button", name="Latest")).to_be_visible()
    # And down again, over pages that had gone.
    lowest = entries(page).first.get_attribute("data-id")
    for _ in range(80):
        transcript.evaluate("node => node.scrollTop += 15000")
        page.wait_for_timeout(60)
        if last.count():
            break
    expect(last).to_have_count(1)
    assert page.locator(f'[data-id="{lowest}"]').count() == 0
    assert entries(page).count() <= 330
    page.evaluate(
        "location.hash = location.hash + '/' + document.querySelector('.prev [data-id]').dataset.id"
    )
    expect(page.locator(".prev .found")).to_be_visible()
    page.get_by_role("button", name="Latest").click()
    expect(last).to_be_in_viewport()
    path.unlink()


def test_the_place_stays_while_older_pages_arrive(page: Page, daemon: Daemon, home: Path) -> None:
    path = rehearsal(
        home, (f"message {number} " + "word " * 60 for number in range(600)), used=time.time() - 3600
    )
    visit(page, daemon, "rehearsal", path.stem)
    expect(entries(page).filter(has_text="message 599 ")).to_be_in_viewport()
    page.wait_for_timeout(500)
    moved = page.evaluate(
        """async () => { const node = document.querySelector('.prev'); node.scrollTop = 900;
        const edge = node.getBoundingClientRect().top;
        const all = [...node.querySelectorAll('[data-id]')];
        const mark = all.find((each) => each.getBoundingClientRect().top > edge);
        const at = mark.getBoundingClientRect().top; const first = node.querySelector('[data-id]').dataset.id;
        for (let tries = 0; tries < 100 && node.querySelector('[data-id]').dataset.id === first; tries += 1)
          await new Promise((done) => setTimeout(done, 50));
        await new Promise((done) => setTimeout(done, 300));
        const older = node.querySelector('[data-id]').dataset.id !== first;
        return mark.isConnected && older ? mark.getBoundingClientRect().top - at : null; }"""
    )
    assert moved is not None
    assert abs(moved) < 3


def test_the_end_is_followed_while_the_session_grows(page: Page, daemon: Daemon, home: Path) -> None:
    path = rehearsal(home, (f"message {number} " + "word " * 60 for number in range(40)))
    visit(page, daemon, "rehearsal", path.stem)
    expect(entries(page).filter(has_text="message 39 ")).to_be_in_viewport()
    with path.open("a") as file:
        file.write(message(40, "user", "message 40 is new") + "\n")
    expect(entries(page).filter(has_text="message 40 is new")).to_be_in_viewport()
    # Elsewhere, nothing moves.
    page.locator(".prev").evaluate("node => (node.scrollTop = 10)")
    expect(page.get_by_role("button", name="Latest")).to_be_visible()
    with path.open("a") as file:
        file.write(message(41, "assistant", "message 41 is new") + "\n")
    page.wait_for_timeout(3000)
    expect(entries(page).first).to_be_in_viewport()
    page.get_by_role("button", name="Latest").click()
    expect(entries(page).filter(has_text="message 41 is new")).to_be_in_viewport()


def test_a_rewritten_session_is_read_anew(page: Page, daemon: Daemon, home: Path) -> None:
    path = rehearsal(
        home, (f"message {number} " + "word " * 60 for number in range(400)), used=time.time() - 3600
    )
    visit(page, daemon, "rehearsal", path.stem)
    expect(entries(page).filter(has_text="message 399 ")).to_be_in_viewport()
    rehearsal(home, ("all is different", "yes"), session=path.stem)
    page.expected_errors = ("410",)  # type: ignore[attr-defined]
    page.locator(".prev").evaluate("node => (node.scrollTop = 1)")
    expect(entries(page).first).to_contain_text("all is different")


def test_the_keyboard_moves_opens_checks_and_closes(page: Page, daemon: Daemon, home: Path) -> None:
    now = time.time()
    for number in range(120):
        rehearsal(home, (f"question {number}", "yes"), cwd=str(daemon.segue.cwd), used=now - 60 - number)
    visit(page, daemon)
    expect(rows(page).first).to_be_visible()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="question 0")).to_be_focused()
    for _ in range(60):
        page.keyboard.press("j")
    expect(page.get_by_role("link", name="question 60")).to_be_focused()
    expect(page.get_by_role("link", name="question 60")).to_be_in_viewport()
    page.keyboard.press("k")
    expect(page.get_by_role("link", name="question 59")).to_be_focused()
    page.keyboard.press("Enter")
    expect(entries(page).first).to_contain_text("question 59")
    page.keyboard.press("c")
    expect(panel(page).locator(".ses-findings")).to_contain_text("checks pass")
    page.keyboard.press("Escape")
    expect(page).to_have_url(f"{daemon.url}/#/sessions")
    expect(panel(page)).to_contain_text("Choose a session")
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    expect(page.locator("#entry")).to_be_visible()


def test_hostile_texts_do_nothing(page: Page, daemon: Daemon, home: Path) -> None:
    bad = (
        '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script> [x](javascript:window.pwned=1) '
    )
    tricks = f"{bad}\x1b[31mred\x1b]0;title\x07 \u202etxt.exe\u2066 "
    claude = Claude(home, cwd="/home/anna/<b>app\u202e")
    claude.says(f"{tricks} needle")
    claude.answers({"type": "thinking", "thinking": tricks, "signature": "x"})
    claude.calls("Ba<b>sh\u202e", {"command": tricks, "description": bad}, tricks + "y" * 5_000_000)
    claude.calls(
        "Edit", {"file_path": bad, "old_string": "a" * 5_000_000, "new_string": "b" * 5_000_000}, "ok"
    )
    claude.writes(tricks + "z" * 5_000_000)
    claude.record("user", message={"role": "user", "content": tricks}, isCompactSummary=True)
    claude.record("ai-title", aiTitle=tricks)
    rehearsal(home, chain((tricks + "w" * 5_000_000,), TEXTS[1:]))
    visit(page, daemon)
    expect(rows(page)).to_have_count(2)
    page.get_by_role("searchbox").fill("needle")
    expect(page.locator("tr.r mark").first).to_have_text("needle")
    rows(page).first.locator("a").click()
    everything(page)
    expect(page.locator(".prev .m").first).to_be_visible()
    for fold in page.locator(".prev details > summary").all():
        fold.click()
    panel(page).get_by_role("button", name="All details").click()
    page.wait_for_timeout(500)
    shown = page.locator("#page").inner_text()
    assert not {"\u202e", "\u2066", "\x1b", "\x07"} & set(shown)
    assert "‹U+202E›" in shown
    assert "␛" in shown
    assert page.evaluate("window.pwned") is None
    assert page.locator("#page img, #page script, #page b b").count() == 0
    assert page.locator('#page a[href^="javascript"]').count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert nodes(page) < 4000


def test_on_a_phone_the_session_is_a_sheet(page: Page, daemon: Daemon, home: Path) -> None:
    path = rehearsal(home, TEXTS)
    page.set_viewport_size({"width": 390, "height": 844})
    visit(page, daemon)
    expect(rows(page)).to_be_visible()
    expect(rows(page).locator(".dir")).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    expect(panel(page)).to_be_hidden()
    rows(page).locator("a").click()
    expect(panel(page)).to_be_visible()
    expect(page).to_have_url(re.compile(path.stem))
    box = panel(page).bounding_box()
    assert box is not None
    assert box["width"] == 390
    expect(entries(page).last).to_be_in_viewport()
    picture(page, "sessions-phone")
    panel(page).get_by_role("button", name="Close").click()
    expect(panel(page)).to_be_hidden()


def test_a_session_that_does_not_exist_is_said_to_be_missing(page: Page, daemon: Daemon, home: Path) -> None:
    rehearsal(home, TEXTS)
    page.expected_errors = ("404", "422")  # type: ignore[attr-defined]
    visit(page, daemon, "rehearsal", str(uuid.uuid4()))
    expect(panel(page).locator(".why")).to_contain_text("no session")
    expect(page.locator(".prev")).to_have_count(0)
    expect(rows(page)).to_have_count(1)


def test_without_sessions_the_view_says_what_to_do(page: Page, daemon: Daemon) -> None:
    visit(page, daemon)
    expect(page.get_by_role("heading", name="No sessions yet")).to_be_visible()


def test_a_turn_elsewhere_appears_without_a_reload(page: Page, daemon: Daemon) -> None:
    visit(page, daemon)
    expect(page.get_by_role("heading", name="No sessions yet")).to_be_visible()
    assert daemon.segue("run", "talk", "remember number 456").code == 0
    expect(rows(page)).to_contain_text("talk")


@pytest.mark.parametrize(("language", "title"), [("es", "Título"), ("zh", "标题")])
def test_other_languages(page: Page, daemon: Daemon, home: Path, language: str, title: str) -> None:
    path = rehearsal(home, TEXTS)
    page.evaluate(f"localStorage.setItem('segue.language', {json.dumps(language)})")
    visit(page, daemon, "rehearsal", path.stem)
    expect(page.locator("th.c-title")).to_contain_text(title)
    expect(entries(page).first).to_be_visible()
    shown = page.locator("#page").inner_text()
    assert not re.search(r"\b(?:sessions|transcript|prune)\.[a-z]", shown)
