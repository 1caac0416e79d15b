"""How the length of a conversation tells: on the decision alone, and on what Segue adds to a turn.

The native session is the same small one in both conversations, so that only our own work differs.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

import msgspec

from bench.measure import Row, compile_bytecode, plain_environment
from segue.app.segue import Segue
from segue.core.cut import HeldIndex, ViewIndex, cut
from segue.core.ladder import decide
from segue.core.model import Held, Host, Message, Sender, Voice
from segue.store.records import Conversation, Settlement, TurnRow
from segue.store.store import Store
from segue.system import clock
from segue.system.processes import this_process
from segue.turns.prepare import Prepared, prepare
from segue.turns.request import request_from_options
from segue.turns.situation import gather

SHORT, LONG = 10, 1_000
VOICE = Voice("rehearsal")
ROUNDS = 15


def measure() -> list[Row]:
    compile_bytecode()
    with tempfile.TemporaryDirectory() as folder:
        env = {**plain_environment(), "HOME": folder, "SEGUE_HOME": f"{folder}/segue"}
        env |= {"REHEARSAL_HOME": f"{folder}/agent"}
        return asyncio.run(_measure(env, Path(folder)))


async def _measure(env: dict[str, str], folder: Path) -> list[Row]:
    async with Segue(env=env) as segue:
        for count in (SHORT, LONG):
            await segue.run(f"of-{count}-first", "hello", agent="rehearsal", cwd=folder)
            _lengthen(segue.workspace.store, f"of-{count}", count)
        prepared = prepare(
            request_from_options(f"of-{LONG}", "x", {"cwd": folder}), env, segue.workspace.store, folder
        )
        decision = _decision(segue.workspace.store, prepared)
        turns: dict[int, list[float]] = {SHORT: [], LONG: []}
        agents: list[float] = []
        for _ in range(ROUNDS + 1):
            for count in (SHORT, LONG):
                began = time.perf_counter()
                turn = await segue.run(f"of-{count}", "x", cwd=folder)
                turns[count].append(time.perf_counter() - began)
                if turn.mode != "resume":
                    raise RuntimeError(f"{count} messages: {turn.mode}")
            agents.append(await _bare(env, folder))
    short, long, agent = (statistics.median(times[1:]) for times in (turns[SHORT], turns[LONG], agents))
    ours = (long - agent) / max(short - agent, 1e-6)
    return [
        Row(
            f"deciding, {LONG:,} messages, once loaded",
            f"{decision * 1000:.2f} ms",
            "< 1 ms",
            decision < 0.001,
        ),
        Row(
            f"a turn with {LONG:,} messages / with {SHORT}",
            f"{long / short:.2f} × ({long * 1000:.0f} / {short * 1000:.0f} ms)",
            "≤ 1.2 ×",
            long <= 1.2 * short,
        ),
        Row(
            "the same, without the agent's own time",
            f"{ours:.2f} × ({(long - agent) * 1000:.0f} / {(short - agent) * 1000:.0f} ms)",
            "reported",
            True,
        ),
    ]


def _decision(store: Store, prepared: Prepared) -> float:
    """The median of deciding what the loaded conversation comes to."""
    new = Message(id="new", sender="user", voice=VOICE, under=("rehearsal/",), size=1)
    surveyed = gather(prepared, store, new=new)
    assert surveyed.pin is not None
    held, seen = HeldIndex(surveyed.pin.held), ViewIndex(surveyed.view)
    cut(held, seen)
    taken = []
    for _ in range(200):
        began = time.perf_counter()
        decision = decide(msgspec.structs.replace(surveyed.situation, cut=cut(held, seen)))
        taken.append(time.perf_counter() - began)
    assert decision.mode == "resume"
    return statistics.median(taken)


async def _bare(env: dict[str, str], folder: Path) -> float:
    """The agent's own process, without us."""
    from segue.agents.rehearsal.adapter import AGENT

    began = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        *AGENT.facts.builtin,
        env=env,
        cwd=folder,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    await process.communicate(b"x")
    return time.perf_counter() - began


def _lengthen(store: Store, key: str, count: int) -> None:
    """Another conversation of the same kind, as long as wanted, all of it held by the first one's session."""
    first = store.conversation(f"{key}-first")
    assert first is not None
    (pin,) = store.pins(first.id)
    (session,) = store.sessions(first.id)
    long = msgspec.structs.replace(first, id=_id(), key=key)
    store.add(long, [(_message(number), f"text of message {number}") for number in range(count - 2)])
    said, turn = _message(0), _turn(long)
    store.receive(long, said, "hello", turn)
    store.place(turn.id)
    answer = _message(1)
    rows = [Held(message.id, 1, pin.end) for message in (*store.messages(long.id), answer)]
    mine = msgspec.structs.replace(session, id=_id(), conversation=long.id)
    store.settle(
        Settlement(
            turn=msgspec.structs.replace(turn, message=said.id, state="done"),
            answer=(answer, "hello"),
            session=mine,
            held=tuple(rows),
            pin=msgspec.structs.replace(pin, session=mine.id),
        )
    )


def _message(number: int) -> Message:
    sender: Sender = "assistant" if number % 2 else "user"
    return Message(id=_id(), sender=sender, voice=VOICE, under=("rehearsal/",), size=20)


def _turn(conversation: Conversation) -> TurnRow:
    now = time.time_ns() // 1_000_000
    return TurnRow(
        id=_id(),
        conversation=conversation.id,
        message="",
        voice=VOICE,
        owner=this_process(Host("h")),
        started_ms=now,
    )


def _id() -> str:
    return clock.new_id()
