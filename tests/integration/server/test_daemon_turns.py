"""``Segue(daemon=True)``: the daemon runs the turns of the library, with the same results."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from segue import (
    Answer,
    Attachment,
    Cancel,
    DaemonUnavailable,
    Misuse,
    Permission,
    Question,
    Segue,
    Session,
    SyncSegue,
    Text,
    Turn,
)
from tests.images import png
from tests.integration.conftest import Program
from tests.integration.server.conftest import WAIT_S, Daemon
from tests.integration.server.test_remote import requests, same, wait_for_run

REHEARSAL: Any = {"agent": "rehearsal"}


def door(segue: Program, *, daemon: bool = True) -> Segue:
    return Segue(home=segue.home, env=segue.env, cwd=segue.cwd, daemon=daemon)


def work(segue: Program, task: Callable[[Segue], Awaitable[None]], *, daemon: bool = True) -> None:
    async def opened() -> None:
        async with door(segue, daemon=daemon) as opened:
            await task(opened)

    asyncio.run(asyncio.wait_for(opened(), WAIT_S * 2))


def test_turns_are_the_same_as_in_process(daemon: Daemon) -> None:
    turns: dict[bool, list[Turn]] = {True: [], False: []}
    heard: dict[bool, list[str]] = {True: [], False: []}

    for way in (False, True):

        async def talk(segue: Segue, way: bool = way) -> None:
            key, texts = f"k{way:d}", ("remember number 7", "what number?", "[[error 400]]")
            for text in texts:
                turn = await segue.run(
                    key, text, on_event=lambda e: heard[way].append(type(e).__name__), **REHEARSAL
                )
                turns[way].append(turn)
            turns[way].append(await segue.retry(key))

        work(daemon.segue, talk, daemon=way)
    assert [same(turn.to_dict()) for turn in turns[True]] == [same(turn.to_dict()) for turn in turns[False]]
    assert heard[True] == heard[False]
    assert {turn.transport for turn in turns[True]} == {"daemon"}
    assert {turn.transport for turn in turns[False]} == {"process"}
    assert requests(daemon).count("local/turns") == 4


def test_a_failed_text_is_not_retried_by_saying_it_again(daemon: Daemon) -> None:
    async def talk(segue: Segue) -> None:
        first = await segue.run("k", "[[error 429]]", **REHEARSAL)
        second = await segue.run("k", "[[error 429]]")
        assert first.message != second.message
        assert second.retry_of is None

    work(daemon.segue, talk)


def test_questions_files_and_cancelling_work_through_the_daemon(daemon: Daemon) -> None:
    async def answer(asked: Question | Permission) -> Answer:
        return Answer(True, answers={"Which?": "b"})

    async def broken(asked: Question | Permission) -> Answer:
        raise ValueError("no idea")

    async def talk(segue: Segue) -> None:
        text = "[[ask Which? | a | b]][[result]]"
        assert (await segue.run("q", text, answer=answer, **REHEARSAL)).text == "b"
        unanswered = await segue.run("q2", text, answer=broken, **REHEARSAL)
        assert any("answer raised ValueError" in notice for notice in unanswered.notices)
        with pytest.raises(Misuse):
            await segue.run("f", "look", attachments=[Attachment("x.png", b"\0no image")], **REHEARSAL)
        sent = await segue.run("f", "look", attachments=[Attachment("x.png", png(1))], **REHEARSAL)
        (row, _) = await segue.log("f")
        assert (sent.status, [each.name for each in row.attachments]) == ("ok", ["x.png"])
        cancel, types = Cancel(), list[type]()
        async for event in segue.stream("c", "[[hang]]", cancel=cancel, **REHEARSAL):
            types.append(type(event))
            if isinstance(event, Session):
                cancel()
        assert types[-1] is Turn
        assert (await segue.last("c")).failed is not None

    work(daemon.segue, talk)


def test_without_a_daemon_it_says_so(segue: Program) -> None:
    async def talk(opened: Segue) -> None:
        with pytest.raises(DaemonUnavailable, match="no daemon runs here; start one with: segue serve"):
            await opened.run("k", "hi", **REHEARSAL)
        assert await opened.ls() == []

    work(segue, talk)


def test_a_daemon_of_another_protocol_is_not_available(daemon: Daemon) -> None:
    told = daemon.home / "daemon.json"
    told.write_text(told.read_text().replace('"protocol":1', '"protocol":99'))
    with (
        SyncSegue(home=daemon.home, env=daemon.segue.env, cwd=daemon.segue.cwd, daemon=True) as opened,
        pytest.raises(DaemonUnavailable, match=r"speaks another protocol$"),
    ):
        opened.run("k", "hi", agent="rehearsal")


def test_a_turn_outlives_its_daemon(daemon: Daemon) -> None:
    async def talk(segue: Segue) -> None:
        heard: list[str] = []

        def hear(event: object) -> None:
            if isinstance(event, Text):
                heard.append(event.text)

        text = "[[say one]][[slow 3 20]][[say two three four]]"
        running = asyncio.create_task(segue.run("k", text, on_event=hear, **REHEARSAL))
        await asyncio.to_thread(wait_for_run, daemon, "k")
        await asyncio.to_thread(daemon.end, signal.SIGKILL)
        turn = await running
        assert turn.status == "ok"
        assert "".join(heard).count("two three four") == 1

    work(daemon.segue, talk)
