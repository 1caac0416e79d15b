"""Which turn came out of which, as the store tells it of a conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from segue.app.segue import Segue
from segue.core.turn import Turn
from segue.store.records import Descent
from tests.integration.conftest import Program

Play = Callable[[Callable[[Segue], Awaitable[None]]], None]


@pytest.fixture
def play(segue: Program) -> Play:
    """Runs the work with a library whose agent is rehearsal, and that has another one."""
    segue.config(
        '[defaults]\nagent = "rehearsal"\n'
        '[agents.echo]\ncommand = ["/bin/sh", "-c", "cat > /dev/null; echo hi"]\nstdin = "prompt"\n'
    )
    env = {**segue.env, "REHEARSAL_HOME": str(segue.home / "agent")}

    def go(work: Callable[[Segue], Awaitable[None]]) -> None:
        async def within() -> None:
            async with Segue(env=env, cwd=segue.cwd) as library:
                await work(library)

        asyncio.run(within())

    return go


async def descents(library: Segue, key: str) -> list[Descent]:
    workspace = library.workspace
    return workspace.store.descents(workspace.conversation(key).id)


async def story(library: Segue, segue: Program) -> None:
    first = await library.run("t", "remember number 1", agent="rehearsal", cwd=segue.cwd)
    second = await library.run("t", "remember number 2", cwd=segue.cwd)
    again = await library.retry("t", cwd=segue.cwd)
    assert [first.mode, second.mode, again.mode] == ["fresh", "resume", "branch"]
    assert again.retry_of == second.run
    told = await descents(library, "t")
    assert {(each.run, each.kind, each.parent) for each in told} == {
        (second.run, "resume", first.run),
        (again.run, "retry", second.run),
        (again.run, "branch", first.run),
    }
    resumed, branched = (next(each for each in told if each.kind == kind) for kind in ("resume", "branch"))
    assert (resumed.session, resumed.parent_session) == (first.session_id, first.session_id)
    assert (branched.session, branched.parent_session) == (again.session_id, first.session_id)

    await library.fork("t", "u")
    forked = await library.run("u", "what number?", cwd=segue.cwd)
    told = await descents(library, "u")
    assert [(each.run, each.kind, each.parent, each.parent_key) for each in told] == [
        (forked.run, "fork", again.run, "t")
    ]
    after = await library.run("u", "what number?", cwd=segue.cwd)
    assert [(each.kind, each.parent) for each in await descents(library, "u")][1:] == [("resume", forked.run)]
    assert after.mode == "resume"


async def failing(library: Segue, segue: Program) -> None:
    failed = await library.run("v", "[[error 500]]", agent="rehearsal", cwd=segue.cwd, retries=1)
    (earlier,) = failed.earlier
    told = await descents(library, "v")
    assert [(each.run, each.kind, each.parent) for each in told] == [(failed.run, "retry", earlier)]


async def whole(library: Segue, *runs: Turn) -> None:
    """From each of these turns, the chain has all of them, and what they cost."""
    spent = sum(run.cost_usd or 0 for run in runs)
    for run in runs:
        chain = await library.conversations.chain(run.run)
        assert {each.run for each in chain.turns} == {each.run for each in runs}, run.run
        assert chain.cost_usd == pytest.approx(spent, abs=1e-9)


async def came(library: Segue, key: str) -> list[tuple[str, str, str | None]]:
    return [(each.run, each.kind, each.parent) for each in await descents(library, key)]


def test_a_fork_that_is_sent_the_past_as_text_comes_from_the_turn_it_was_forked_at(play: Play) -> None:
    async def work(library: Segue) -> None:
        first = await library.run("t", "remember number 1")
        await library.run("t", "remember number 2")
        await library.fork("t", "u", upto="#2")
        await library.fork("u", "v")
        forks = [await library.run(key, "what number?", fresh_session=True) for key in ("u", "v")]
        after = await library.run("u", "what number?", fresh_session=True)
        assert [each.mode for each in (*forks, after)] == ["replay"] * 3
        assert await came(library, "u") == [
            (forks[0].run, "fork", first.run),
            (after.run, "new_session", forks[0].run),
        ]
        assert await came(library, "v") == [(forks[1].run, "fork", first.run)]
        found = await library.conversations.lineage("t")
        assert [(each.conversation, each.run) for each in found.children] == [("u", None)], "no session"
        chain = await library.conversations.chain(forks[1].run)
        assert len(chain.turns) == 5

    play(work)


def test_a_fork_that_was_cut_comes_from_there_too(play: Play) -> None:
    """What a failed run did is copied for the agent of the fork; the copy is not a turn that was run."""

    async def work(library: Segue) -> None:
        first = await library.run("t", "remember number 1")
        failed = await library.run("t", "[[shell true]][[error 500]]", permission="full")
        await library.fork("t", "u")
        turn = await library.run("u", "what number?", fresh_session=True)
        assert await came(library, "u") == [(turn.run, "fork", failed.run)]
        await whole(library, first, failed, turn)
        assert len((await library.conversations.chain("u")).turns) == 3

    play(work)


def test_a_turn_that_resumed_and_failed_is_part_of_the_chain(play: Play) -> None:
    async def work(library: Segue) -> None:
        first = await library.run("t", "remember number 1")
        failed = await library.run("t", "[[error 500]]")
        third = await library.run("t", "what number?")
        assert (failed.mode, failed.status) == ("resume", "failed")
        assert (await came(library, "t"))[0] == (failed.run, "resume", first.run)
        await whole(library, first, failed, third)

    play(work)


def test_what_follows_in_a_new_session_comes_from_the_turn_before(play: Play) -> None:
    async def work(library: Segue) -> None:
        failed = await library.run("t", "[[error 500]]")
        second = await library.run("t", "remember number 1")
        third = await library.run("t", "what number?", fresh_session=True)
        other = await library.run("t", "and you?", agent="echo")
        back = await library.run("t", "what number?", agent="rehearsal")
        assert [each.mode for each in (second, third, other, back)] == [*["replay"] * 3, "resume"]
        assert await came(library, "t") == [
            (second.run, "new_session", failed.run),
            (third.run, "new_session", second.run),
            (other.run, "switch", third.run),
            (back.run, "resume", third.run),
        ]
        await whole(library, failed, second, third, other, back)
        shown = [(each.run, each.depth) for each in (await library.conversations.chain("t")).turns]
        straight = [(each.run, 0) for each in (failed, second, third, back)]
        assert shown == [*straight[:3], (other.run, 1), straight[3]], "what goes on is not indented"

    play(work)


def test_a_turn_that_begins_with_nothing_is_a_root(play: Play) -> None:
    async def work(library: Segue) -> None:
        first = await library.run("t", "remember number 1")
        blank = await library.run("t", "what number?", blank=True)
        after = await library.run("t", "what number?")
        assert await came(library, "t") == [(after.run, "resume", blank.run)]
        await whole(library, first)
        await whole(library, blank, after)
        assert len((await library.conversations.chain("t")).turns) == 3

    play(work)


def test_a_refused_session_is_a_step_down(play: Play, segue: Program) -> None:
    async def work(library: Segue) -> None:
        first = await library.run("t", "remember number 1")
        (file,) = (segue.home / "agent" / "sessions").glob("*.jsonl")
        head, rest = file.read_bytes().split(b"\n", 1)
        file.write_bytes(head.replace(b"{", b"[", 1) + b"\n" + rest)
        second = await library.run("t", "what number?")
        assert [each.mode for each in second.attempts] == ["resume", "replay"]
        assert await came(library, "t") == [(second.run, "step_down", first.run)]
        await whole(library, first, second)

    play(work)


def test_lineage(segue: Program) -> None:
    env = {**segue.env, "REHEARSAL_HOME": str(segue.home / "agent")}

    async def go() -> None:
        async with Segue(env=env) as library:
            await story(library, segue)
            await failing(library, segue)

    asyncio.run(go())


def test_the_same_words_again_are_a_retry_in_the_lineage(segue: Program) -> None:
    segue.env["REHEARSAL_HOME"] = str(segue.home / "agent")
    runs = [segue("run", "t", "[[error 500]]", "--agent", "rehearsal", "--json").turn for _ in range(2)]
    assert runs[1]["retry_of"] == runs[0]["run"]

    async def go() -> list[Descent]:
        async with Segue(env=segue.env) as library:
            return await descents(library, "t")

    assert [(each.run, each.kind, each.parent) for each in asyncio.run(go())] == [
        (runs[1]["run"], "retry", runs[0]["run"])
    ]
