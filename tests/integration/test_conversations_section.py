"""``Segue.conversations``, usage and settings: real turns of the rehearsal agent, seen from the library."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime

import msgspec
import pytest

from segue import LogMessage, Misuse, NotFound, Segue, SettingsShown
from segue.app.usage import usage
from segue.app.workspace import open_workspace
from segue.config.schema import FLAT
from segue.core.turn import Saved
from segue.store.records import Settlement
from tests.integration.conftest import Program
from tests.integration.store.talking import Talk, told
from tests.integration.test_library import play


def test_the_first_turn_uses_what_a_conversation_was_created_with(segue: Program) -> None:
    async def work(door: Segue) -> None:
        shown = await door.conversations.create(
            "a/b", agent="rehearsal", role="coder", cwd=".", title="  My\nproject "
        )
        assert (shown.key, shown.title, shown.agent, shown.role) == (
            "a/b",
            "My project",
            "rehearsal",
            "coder",
        )
        assert (shown.messages, shown.state, shown.unread) == (0, "idle", False)
        turn = await door.run("a/b", "hello")
        assert (turn.role, turn.failure) == ("coder", None)
        assert (await door.conversations.show("a/b")).cwd == str(segue.cwd)

    play(segue, work)


def test_what_cannot_be_created_is_refused(segue: Program) -> None:
    async def work(door: Segue) -> None:
        create = door.conversations.create
        await create("t")
        for wrong in (
            create("t"),
            create("not a key"),
            create("u", agent="nobody"),
            create("u", account="nobody"),
            create("u", model="large"),
            create("u", cwd="nowhere"),
            create("u", title="x" * 201),
            create("u", role="two\nlines"),
        ):
            with pytest.raises(Misuse):
                await wrong
        assert [each.key for each in await door.ls()] == ["t"]

    play(segue, work)


def test_pages_are_parts_of_the_log(segue: Program) -> None:
    async def work(door: Segue) -> None:
        for n in range(3):
            await door.run("t", f"remember number {n}")
        await door.run("t", "[[error 500]]")
        log = await door.log("t")
        found: list[LogMessage] = []
        page = await door.conversations.messages("t", limit=3)
        found[:0] = page.messages
        while page.has_more:
            page = await door.conversations.messages("t", before=page.first_id, limit=3)
            found[:0] = page.messages
        assert found == log
        assert (page.size, page.rewrites) == (7, 0)
        gone = log[-1].id
        assert gone is not None
        await door.truncate("t", "#6")
        with pytest.raises(NotFound):
            await door.conversations.messages("t", before=gone)
        assert (await door.conversations.messages("t")).rewrites == 1
        for limit in (0, -1, 1001):
            with pytest.raises(Misuse):
                await door.conversations.messages("t", limit=limit)

    play(segue, work)


def test_versions_of_messages_and_answers(segue: Program) -> None:
    async def work(door: Segue) -> None:
        first = await door.run("t", "remember number 1")
        await door.edit("t", "#1", "remember number 2", cut=True)
        second = await door.retry("t")
        asked = await door.conversations.siblings("t", "#1")
        assert [(each.text, each.revision, each.run, each.current) for each in asked] == [
            ("remember number 1", 1, first.run, False),
            ("remember number 2", 2, second.run, True),
        ]
        answered = await door.conversations.siblings("t", "#2")
        assert [(each.text, each.run, each.current) for each in answered] == [
            ("Noted: 1.", first.run, False),
            ("Noted: 2.", second.run, True),
        ]
        assert len({each.message for each in answered}) == 2
        await door.edit("t", "#2", "Noted: two.")
        edited = await door.conversations.siblings("t", "#2")
        assert [(each.text, each.current) for each in edited] == [
            ("Noted: 1.", False),
            ("Noted: 2.", False),
            ("Noted: two.", True),
        ]
        with pytest.raises(NotFound):
            await door.conversations.siblings("t", "#3")
        copy = await door.import_(await door.export("t"), "copy")
        (only,) = await door.conversations.siblings(copy, "#2")
        assert (only.text, only.run, only.current) == ("Noted: two.", None, True)

    play(segue, work)


def test_lineage_names_what_each_turn_came_from(segue: Program) -> None:
    async def work(door: Segue) -> None:
        first = await door.run("t", "remember number 1")
        second = await door.run("t", "what number?")
        third = await door.retry("t")
        turns = (await door.conversations.lineage("t")).turns
        assert [turn.run for turn in turns] == [first.run, second.run, third.run]
        assert turns[0].parents == ()
        (resumed,) = turns[1].parents
        assert (resumed.kind, resumed.run, resumed.conversation) == ("resume", first.run, "t")
        assert resumed.session == first.session_id
        assert ("retry", second.run) in [(parent.kind, parent.run) for parent in turns[2].parents]

    play(segue, work)


def test_messages_tell_what_their_turns_did(segue: Program) -> None:
    async def work(door: Segue) -> None:
        turn = await door.run("t", "[[shell true]][[say Done.]]", permission="full")
        failed = await door.run("t", "[[error 400]]")
        asked, answer, unanswered = await door.log("t")
        assert (asked.duration_ms, asked.context, asked.notices, asked.versions) == (None, None, (), 1)
        for ran, said in ((turn, answer), (failed, unanswered)):
            assert (said.duration_ms, said.tools_run) == (ran.duration_ms, ran.tools_run)
            assert (said.notices, said.predicted_usd) == (ran.notices, ran.predicted_usd)
        assert (answer.tools_run, answer.context) == (1, turn.context)

    play(segue, work)


def test_long_texts_in_events_are_cut(segue: Program) -> None:
    async def work(door: Segue) -> None:
        run = (await door.run("t", "hello")).run
        store, output = door.workspace.store, "x" * 5_000
        event = {"type": "tool-result", "id": "1", "ok": True, "output": output, "more": [output, "y"]}
        store.record(run, [(1000, 1, msgspec.json.encode(event).decode())])
        store.record(run, [(1001 + n, 1, '{"type":"thinking","text":"y"}') for n in range(500)])
        page = await door.conversations.messages("t", events=True)
        assert page.events is not None
        assert page.events_left_out is not None
        assert (len(page.events[run]), page.events_left_out[run] > 100) == (400, True)
        assert page.events[run][-1].n == 1500
        whole = await door.runs.event(run, 1000)
        assert (msgspec.json.decode(whole.event), whole.cut) == (event, False)

        other = (await door.run("t", "hello")).run
        store.record(other, [(1000, 1, msgspec.json.encode(event).decode())])
        page = await door.conversations.messages("t", events=True, limit=1)
        assert page.events is not None
        *short, last = page.events[other]
        cut = msgspec.json.decode(last.event)
        assert (last.cut, [len(each) for each in (cut["output"], *cut["more"])]) == (True, [4_000, 4_000, 1])
        assert not any(each.cut for each in short)
        with pytest.raises(NotFound):
            await door.runs.event(other, 2000)

    play(segue, work)


def test_what_did_not_pay_is_told_with_the_reason(segue: Program) -> None:
    async def work(door: Segue) -> None:
        talk = Talk(door.workspace.store)
        for saved, notices in (
            (-0.25, ()),
            (-0.0001, ()),
            (0.5, ("more tools: the prompt cache could not be used, so 9 tokens were paid",)),
        ):
            _, row = talk.receive("go on")
            talk.store.place(row.id)
            ran = msgspec.structs.replace(
                told(row, "ok", mode="resume"), saved=Saved(usd=saved), notices=notices, agent_version="2.1"
            )
            ended = msgspec.structs.replace(row, state="done", mode="resume", told=ran, ended_ms=5000)
            assert talk.store.settle(Settlement(turn=ended))
        found = await door.unpaid()
        assert [each.reason for each in found] == [
            "more tools: the prompt cache could not be used, so 9 tokens were paid",
            "it cost a little more than sending everything as text",
            "it cost about $0.250 more than sending everything as text",
        ]
        assert {(each.conversation, each.agent, each.agent_version, each.mode) for each in found} == {
            ("talk", "claude", "2.1", "resume")
        }
        assert len(await door.unpaid(limit=1)) == 1
        with pytest.raises(Misuse):
            await door.unpaid(limit=0)

    play(segue, work)


def test_search_shows_the_words_in_their_place(segue: Program) -> None:
    async def work(door: Segue) -> None:
        around = "word " * 100
        await door.run("t", f"{around}the NEEDLE\nlies here {around}[[say found nothing]]")
        await door.conversations.create("other", title="Needles")
        title, message = await door.conversations.search(" needle ")
        assert (title.where, title.key, title.snippet) == ("title", "other", "Needles")
        assert (message.where, message.key, message.sender) == ("message", "t", "user")
        assert message.snippet.startswith("…")
        assert message.snippet.endswith("…")
        assert "the NEEDLE lies here" in message.snippet
        assert len(message.snippet) < 140
        assert message.message == (await door.log("t"))[0].id
        with pytest.raises(Misuse):
            await door.conversations.search("  ")

    play(segue, work)


def test_stars_titles_and_reading(segue: Program) -> None:
    async def work(door: Segue) -> None:
        await door.run("t", "remember number 1")
        (shown,) = await door.ls()
        assert (shown.title, shown.starred, shown.unread) == ("remember number 1", False, True)
        await door.conversations.mark_read("t")
        await door.conversations.star("t")
        await door.conversations.rename("t", "Numbers")
        (shown,) = await door.ls()
        assert (shown.title, shown.starred, shown.unread) == ("Numbers", True, False)
        assert shown == await door.conversations.show("t")
        await door.conversations.star("t", False)
        await door.conversations.rename("t", "")
        await door.run("t", "what number?")
        shown = await door.conversations.show("t")
        assert (shown.title, shown.starred, shown.unread) == ("remember number 1", False, True)
        for unknown in (
            door.conversations.show("u"),
            door.conversations.star("u"),
            door.conversations.rename("u", "x"),
            door.conversations.mark_read("u"),
            door.conversations.messages("u"),
            door.conversations.lineage("u"),
        ):
            with pytest.raises(NotFound):
                await unknown

    play(segue, work)


def test_usage_adds_up_what_the_turns_say(segue: Program) -> None:
    async def work(door: Segue) -> None:
        turns = [await door.run(key, "remember number 1") for key in ("a", "a", "b")]
        total = sum(turn.usage.output or 0 for turn in turns)
        for by, names in (
            ("conversation", {"a", "b"}),
            ("agent", {"rehearsal"}),
            ("mode", {turn.mode for turn in turns}),
        ):
            found = await door.usage(since="1d", by=by)  # type: ignore[arg-type]
            assert {each.name for each in found.sums} == names
            assert (found.total.turns, found.total.usage.output) == (3, total)
        found = await door.usage()
        assert sum(each.turns for each in found.sums) == 3
        assert (await door.usage(since="2099-01-01")).sums == ()
        for wrong in (door.usage(by="colour"), door.usage(since="soon")):  # type: ignore[arg-type]
            with pytest.raises(Misuse):
                await wrong

    play(segue, work)


@pytest.fixture
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("in_berlin")
def test_a_day_is_one_of_this_machines_clock(segue: Program) -> None:
    """Also the one with 23 hours: it begins an hour before midnight in London, and ends two hours before."""
    with open_workspace(segue.env, segue.cwd) as workspace:
        talk = Talk(workspace.store)
        for moment in ("28T22:59", "28T23:01", "29T21:59", "29T22:01"):
            at = datetime.fromisoformat(f"2026-03-{moment}:00+00:00")
            talk.now_ms = int(at.timestamp() * 1000)
            talk.say("hello")
        found = usage(workspace, since=None, by="day")
        assert [(each.name, each.turns, each.cost_usd) for each in found.sums] == [
            ("2026-03-30", 1, 0.25),
            ("2026-03-29", 2, 0.5),
            ("2026-03-28", 1, 0.25),
        ]
        assert (found.total.turns, found.total.cost_usd) == (4, 1.0)


def test_every_section_of_the_configuration_is_shown() -> None:
    """But for the store's: its URL may contain a password."""
    assert set(FLAT) - {"store"} <= set(SettingsShown.__struct_fields__)


SECRETS = """
[defaults]
agent = "rehearsal"

[accounts.work]
agent = "rehearsal"
home = "~/work"
env = { TOKEN_OF_WORK = "s3cret-value" }
pass_env = ["PASSED_ON"]

[agents.mine]
command = ["mine", "--key", "s3cret-argument", "{prompt}"]
"""


def test_settings_show_no_secrets(segue: Program) -> None:
    segue.env["PASSED_ON"] = "s3cret-passed"

    async def work(door: Segue) -> None:
        (segue.home / "config.toml").write_text(SECRETS)
        settings, accounts = await door.settings(), await door.accounts.ls()
        assert (settings.store, settings.home) == ("sqlite", str(segue.home))
        assert list(settings.accounts) == accounts
        (work,) = accounts
        assert (work.name, work.agent, work.env, work.pass_env) == (
            "work",
            "rehearsal",
            ("TOKEN_OF_WORK",),
            ("PASSED_ON",),
        )
        assert [(each.agent, each.program, each.declared) for each in settings.agents] == [
            ("mine", "mine", True)
        ]
        assert "s3cret" not in msgspec.json.encode(settings).decode()

    play(segue, work)
