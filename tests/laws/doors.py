"""A row for each door: what must be there before, and how a run is made by it, with the rehearsal agent.

A row that is missing fails a test; a cell that cannot be is listed in ``IMPOSSIBLE``, with its reason.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from segue import Flow, RunOptions, RunOrder, RunShown, Segue, ToolAnswer, flow
from segue.core.laws import Door
from tests.integration.test_review import APPROVE, CODER_FULL, ONCE_MORE, REVIEWER_FULL
from tests.laws.stage import PATIENCE_S, SECRET, Stage

Through = Callable[[Stage, Segue, str], Coroutine[Any, Any, Any]]
TASK = "Build it\n\nAs told."
SAYS = f"say what you keep: {SECRET}"
UP = f'[[say ```json\n{{"escalate": true, "reason": "I keep {SECRET}", "failed_checks": []}}\n```]]'
DONE = '[[say ```json\n{"escalate": false, "reason": "done"}\n```]]'
CODER = (CODER_FULL, f"[[say I keep {SECRET}]]")
REVIEW = (CODER, (REVIEWER_FULL, APPROVE))
UNREADABLE = (CODER, (ONCE_MORE, APPROVE), (REVIEWER_FULL, "[[say hm]]"))
LIMIT = ("go on", "[[limit 5h 1 3600]][[error 429 retry-after 3600]]")
WAITING = ("queued", "running", "parked")


@dataclass(frozen=True)
class Row:
    """``before``: under the account ``old``, and whatever the door needs. ``through``: makes the run, under
    the account ``new``, and waits for its end; what it raises is what the caller is told."""

    through: Through
    before: Through
    spoke: str = "{key}"
    """The conversation in which the account ``new`` speaks."""
    flow: bool = False
    """Its runs are steps of a flow."""


def _options(stage: Stage) -> dict[str, Any]:
    return {"permission": stage.permission, "deny_tools": stage.deny, "account": stage.new}


def _order(stage: Stage, text: str, **more: Any) -> RunOrder:
    options = RunOptions(permission=stage.permission, deny_tools=stage.deny, **more.pop("options", {}))
    return RunOrder(message=text, account=stage.new, options=options, **more)


async def settled(library: Segue, run: str, states: tuple[str, ...] = WAITING) -> RunShown:
    """The run, once it neither waits nor runs."""
    shown = await library.runs.show(run)
    for _ in range(int(PATIENCE_S / 0.02)):
        if shown.state not in states:
            return shown
        await asyncio.sleep(0.02)
        shown = await library.runs.show(run)
    raise AssertionError(shown)


async def carry(stage: Stage, library: Segue, key: str) -> None:
    """With the user's consent, what was said under the old account is carried over to the new one."""
    if stage.new != stage.old:
        await library.accounts.switch(key, stage.new, carry="raw")


async def says(stage: Stage, library: Segue, key: str) -> None:
    await library.run(key, f"remember word {SECRET}", account=stage.old)


async def nothing(stage: Stage, library: Segue, key: str) -> None:
    """All that is needed is said by the door itself."""


# --- runs of a conversation ---


async def run(stage: Stage, library: Segue, key: str) -> Any:
    return await library.run(key, "what word?", **_options(stage))


async def said_twice(stage: Stage, library: Segue, key: str) -> None:
    await says(stage, library, key)
    await library.run(key, "and what word?", account=stage.old)


async def retry(stage: Stage, library: Segue, key: str) -> Any:
    return await library.retry(key, **_options(stage))


async def queue(stage: Stage, library: Segue, key: str) -> Any:
    return await settled(library, (await library.runs.submit(key, _order(stage, "what word?"))).run)


async def schedule(stage: Stage, library: Segue, key: str) -> Any:
    order = _order(stage, "what word?", not_before=int(time.time() * 1000) + 400)
    return await settled(library, (await library.runs.submit(key, order)).run)


async def parked(stage: Stage, library: Segue, key: str) -> None:
    await says(stage, library, key)
    await park(stage, library, key)


async def park(stage: Stage, library: Segue, key: str) -> None:
    stage.play(LIMIT, account=stage.new)
    order = _order(stage, "go on: what word?", options={"park": True})
    shown = await settled(library, (await library.runs.submit(key, order)).run, ("queued", "running"))
    assert shown.state == "parked", shown
    stage.play(account=stage.new)


async def wake(stage: Stage, library: Segue, key: str) -> Any:
    (shown,) = await library.runs.ls(states=("parked",), key=key)
    await library.runs.now(shown.run)
    return await settled(library, shown.run)


async def asked(stage: Stage, library: Segue, key: str) -> None:
    await library.run(key, f"remember word {SECRET}", account=stage.old, questions="on")
    await ask(stage, library, key)


async def ask(stage: Stage, library: Segue, key: str) -> None:
    """The process that asks is killed, and its agent is."""
    stage.play(("ask me", f"[[ask Is {stage.asks} right? | yes | no]]"), account=stage.new)
    await asyncio.to_thread(stage.killed, "asks", key, "asked", with_agents=True)


async def answer(stage: Stage, library: Segue, key: str) -> Any:
    shown = next(each for each in await library.runs.ls(key=key) if each.questions)
    given = ToolAnswer(tool_use_id=shown.questions[0].id, content="yes")
    shown = await library.runs.answer(shown.run, given)
    assert shown.continued_by is not None, shown
    return await settled(library, shown.continued_by)


async def outside(stage: Stage, library: Segue, key: str) -> None:
    session = await asyncio.to_thread(stage.outside, stage.new, f"remember word {key}")
    (stage.root / f"outside-{key}").write_text(session)


def _outside(stage: Stage, key: str) -> str:
    return (stage.root / f"outside-{key}").read_text()


async def continue_(stage: Stage, library: Segue, key: str) -> Any:
    session = _outside(stage, key)
    shown = await library.runs.continue_session(session, _order(stage, "what word?"), key=key)
    return await settled(library, shown.run)


async def adopt(stage: Stage, library: Segue, key: str) -> Any:
    session = f"rehearsal:{_outside(stage, key)}"
    return await library.run(key, "what word?", adopt=session, **_options(stage))


async def fork(stage: Stage, library: Segue, key: str) -> Any:
    return await library.fork(key, f"{key}-2")


async def import_(stage: Stage, library: Segue, key: str) -> Any:
    return await library.import_(await library.export(key), f"{key}-2")


async def summary(stage: Stage, library: Segue, key: str) -> Any:
    """The old account writes it, for another one."""
    stage.play(("Write only the summary", f"[[say They keep {SECRET}.]]"))
    to = stage.new if stage.new != stage.old else "b"
    return await library.accounts.switch(key, to, carry="summary")


async def fail_over(stage: Stage, library: Segue, key: str) -> Any:
    """The account ``old`` meets a limit. Before: ``on_limit = "switch"``."""
    stage.play(LIMIT, account=stage.old)
    options = {**_options(stage), "account": stage.old}
    return await library.run(key, "go on: what word?", **options)


# --- flows ---


@flow(version=1, name="passes")
async def passes(flow: Flow, old: str, new: str, permission: str, deny: list[str]) -> str:
    """The second agent is told what the first one said."""
    rights: Any = {"permission": permission, "deny_tools": deny or ("none",)}
    said = await flow.turn("first", flow.key("first"), SAYS, role="coder", account=old, **rights)
    text = f"The other one said: {said.text}"
    told = await flow.turn("second", flow.key("second"), text, role="coder", account=new, **rights)
    return told.failure.message if told.failure is not None else told.text


async def own_flow(stage: Stage, library: Segue, key: str) -> Any:
    stage.play(("say what you keep", f"[[say I keep {SECRET}]]"))
    given = {"old": stage.old, "new": stage.new, "permission": stage.permission, "deny": list(stage.deny)}
    return await library.flows.run(passes, given, key=key, cwd=stage.tree(key))


def crew(stage: Stage) -> dict[str, Any]:
    who: dict[str, Any] = {"coder": "rehearsal", "reviewer": "rehearsal", "rounds": 1}
    for role, account in (("coder", stage.old), ("reviewer", stage.new)):
        who |= {f"{role}_account": account, f"{role}_permission": stage.permission}
    return who


async def review(stage: Stage, library: Segue, key: str) -> Any:
    stage.play(*REVIEW)
    return await library.flows.review(TASK, cwd=stage.tree(key), key=key, **crew(stage))


async def ask_again(stage: Stage, library: Segue, key: str) -> Any:
    stage.play(*UNREADABLE)
    return await library.flows.review(TASK, cwd=stage.tree(key), key=key, **crew(stage))


async def compare(stage: Stage, library: Segue, key: str) -> Any:
    stage.play(*REVIEW)
    found = await library.flows.compare(TASK, cwd=stage.tree(key), key=key, **crew(stage))
    return [await library.flows.show(each.flow) for each in found.reviews]


async def retry_step(stage: Stage, library: Segue, key: str) -> Any:
    steps = (await library.flows.show(key)).steps
    last = [each.key for each in steps if each.kind == "turn"][-1]
    await library.flows.retry_step(key, last)
    return await library.flows.join(key)


async def escalate(stage: Stage, library: Segue, key: str) -> Any:
    """The user trusts the directory, and the file says that the second tier is given what the first did."""
    tree = stage.tree(key)
    if not (tree / "FLOW.toml").exists():
        carries = "carry = true\n" if stage.new != stage.old else ""
        write_escalation(stage, key, carries)
        trust(stage, key)
    return await library.flows.escalate(tree / "FLOW.toml", cwd=tree, key=key)


def write_escalation(stage: Stage, key: str, second: str = "", first: str = "", top: str = "") -> None:
    tree = stage.tree(key)
    text = f'name = "{key}"\n{top}'
    for n, (account, do, more) in enumerate(((stage.old, UP, first), (stage.new, DONE, second)), 1):
        (tree / f"{n}.md").write_text(do)
        text += f'[[tier]]\nname = "t{n}"\nagent = "rehearsal"\naccount = "{account}"\n'
        text += f'prompt = "{n}.md"\nfull = "{n}.md"\npermission = "{stage.permission}"\n{more}'
    (tree / "FLOW.toml").write_text(text)


def trust(stage: Stage, key: str) -> None:
    from segue.config.home import Home
    from segue.config.trust import trust

    trust(Home(stage.home), stage.tree(key))


# --- what was killed ---


async def killed_whole(stage: Stage, library: Segue, key: str) -> None:
    await says(stage, library, key)
    await kill_whole(stage, library, key)


async def kill_whole(stage: Stage, library: Segue, key: str) -> None:
    """Segue is killed at work, and the agent is."""
    stage.hold()
    await asyncio.to_thread(stage.killed, "run", key, "at work", with_agents=True)
    stage.release()


async def killed_alone(stage: Stage, library: Segue, key: str) -> None:
    await says(stage, library, key)
    await kill_alone(stage, library, key)


async def kill_alone(stage: Stage, library: Segue, key: str) -> None:
    """Segue is killed at work; the agent goes on, once it is not held any more."""
    stage.hold()
    await asyncio.to_thread(stage.killed, "run", key, "at work")


async def recover(stage: Stage, library: Segue, key: str) -> Any:
    """As the next daemon does."""
    stage.release()
    await library.service.start()
    found = await library.runs.ls(key=key, states=("running", "queued"))
    return [await settled(library, each.run) for each in found]


ROWS: dict[Door, Row] = {
    Door.RUN: Row(run, says),
    Door.RETRY: Row(retry, said_twice),
    Door.QUEUE: Row(queue, says),
    Door.SCHEDULED: Row(schedule, says),
    Door.WAKES: Row(wake, parked),
    Door.ANSWER: Row(answer, asked),
    Door.AGAIN: Row(ask_again, nothing, "flow/{flow}/reviewer", flow=True),
    Door.RETRY_STEP: Row(retry_step, review, "flow/{flow}/reviewer", flow=True),
    Door.CONTINUE: Row(continue_, outside),
    Door.ADOPT: Row(adopt, outside),
    Door.FORK: Row(fork, says, "{key}-2"),
    Door.IMPORT: Row(import_, says, "{key}-2"),
    Door.SUMMARY: Row(summary, says),
    Door.HAND_OFF: Row(escalate, nothing, "flow/{flow}/chain", flow=True),
    Door.FAILOVER: Row(fail_over, says),
    Door.FLOW: Row(own_flow, nothing, "flow/{flow}/second", flow=True),
    Door.REVIEW: Row(review, nothing, "flow/{flow}/reviewer", flow=True),
    Door.ESCALATE: Row(escalate, nothing, "flow/{flow}/chain", flow=True),
    Door.COMPARE: Row(compare, nothing, "flow/{flow}/reviewer", flow=True),
    Door.RECOVERY: Row(recover, killed_whole),
    Door.ADOPTION: Row(recover, killed_alone),
}

_ACCEPTED = "what it takes was judged when it was accepted; what is stored is text"
_READS_NO_FILE = "it reads no file of a project"
_STARTS_NOTHING = "it starts no agent"
_STARTED = "its agent was started with what was admitted; settling starts nothing"
_BEGUN_OUTSIDE = "whose words a session has that was begun outside is in no file: they count as its login's"
IMPOSSIBLE: dict[tuple[str, Door], str] = {
    **{("wall", each): _BEGUN_OUTSIDE for each in (Door.CONTINUE, Door.ADOPT)},
    **{("permission", each): _STARTS_NOTHING for each in (Door.FORK, Door.IMPORT)},
    **{("permission", each): _STARTED for each in (Door.RECOVERY, Door.ADOPTION)},
    ("permission", Door.HAND_OFF): "it is a part of the prompt of a tier, which has its own row",
    **{("budget", each): _STARTS_NOTHING for each in (Door.FORK, Door.IMPORT)},
    ("budget", Door.HAND_OFF): "it is a part of the prompt of a tier, which has its own row",
    **{("one writer", each): _STARTS_NOTHING for each in (Door.FORK, Door.IMPORT)},
    ("one writer", Door.HAND_OFF): "it is a part of the prompt of a tier, which has its own row",
    **{("trust", each): _ACCEPTED for each in (Door.RETRY, Door.WAKES, Door.AGAIN, Door.RETRY_STEP)},
    **{
        ("trust", each): _READS_NO_FILE
        for each in (
            *(Door.ANSWER, Door.FORK, Door.IMPORT, Door.SUMMARY, Door.FAILOVER),
            *(Door.RECOVERY, Door.ADOPTION, Door.FLOW),
        )
    },
    **{("secrets", each): _STARTS_NOTHING for each in (Door.FORK, Door.IMPORT)},
    ("secrets", Door.HAND_OFF): "it is a part of the prompt of a tier, which has its own row",
    **{("never lost", each): "it is one transaction" for each in (Door.FORK, Door.IMPORT)},
    ("never lost", Door.HAND_OFF): "it is a part of the prompt of a tier, which has its own row",
}
LAWS = ("wall", "permission", "budget", "one writer", "trust", "secrets", "never lost")


def doors(law: str) -> list[Door]:
    """The doors at which a law can be broken."""
    return [door for door in Door if door in ROWS and (law, door) not in IMPOSSIBLE]
