"""Which turn came out of which, as the store tells it of a conversation."""

from __future__ import annotations

import asyncio

from segue.app.segue import Segue
from segue.store.records import Descent
from tests.integration.conftest import Program


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
