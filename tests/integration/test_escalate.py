"""``escalate``: tiers of one chain, on the rehearsal agent."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from segue import FlowShown, Segue
from segue.flows.hand_off import HandOff
from tests.integration.conftest import Program

T = TypeVar("T")
Within = Callable[[Callable[[Segue], Awaitable[Any]]], Any]
UP = '```json\n{"escalate": true, "reason": "the disk is full", "failed_checks": ["web"]}\n```'
DONE = '```json\n{"escalate": false, "reason": "it works again"}\n```'


@pytest.fixture
def within(segue: Program) -> Within:
    env = {**segue.env, "REHEARSAL_HOME": str(segue.home / "agent"), "SEGUE_KEEP_ENABLED": "false"}

    def enter(work: Callable[[Segue], Awaitable[T]]) -> T:
        async def go() -> T:
            async with asyncio.timeout(120), Segue(env=env, cwd=segue.cwd) as library:
                return await work(library)

        return asyncio.run(go())

    return enter


class Files:
    """Writes a ``FLOW.toml`` and its prompts, in a directory that the user trusts."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.tiers = directory, 0
        self.text = 'name = "shop"\nenvironment = "The shop runs on host number 77."\n'

    def tier(self, prompt: str, full: str | None = None, **keys: object) -> Files:
        self.tiers += 1
        short, long = self.directory / f"{self.tiers}.md", self.directory / f"{self.tiers}-full.md"
        short.write_text(prompt)
        long.write_text(full if full is not None else f"{prompt}\n(full {self.tiers})")
        given = {"name": f"t{self.tiers}", "agent": "rehearsal", "prompt": short.name, "full": long.name}
        self.table("[[tier]]", **{**given, **keys})
        return self

    def table(self, heading: str, **keys: object) -> Files:
        lines = [f"{key} = {msgspec.json.encode(value).decode()}" for key, value in keys.items()]
        self.text += "\n".join(["", heading, *lines, ""])
        return self

    def write(self) -> None:
        (self.directory / "FLOW.toml").write_text(self.text)

    async def run(self, segue: Segue, **options: Any) -> FlowShown:
        self.write()
        return await segue.flows.escalate("FLOW.toml", **options)


@pytest.fixture
def files(segue: Program) -> Files:
    segue.trust()
    return Files(segue.cwd)


def turns(shown: FlowShown) -> list[tuple[str, int | None, str | None]]:
    return [(each.key, each.tier, each.mode) for each in shown.steps if each.kind == "turn"]


def result(shown: FlowShown) -> dict[str, Any]:
    assert shown.result is not None, shown.failure
    found: dict[str, Any] = msgspec.json.decode(shown.result)
    return found


async def document(segue: Segue, shown: FlowShown, name: str) -> HandOff:
    found = next(each for each in shown.artefacts if each.name == name)
    return msgspec.json.decode(await segue.flows.artefact(found.hash), type=HandOff)


def test_a_tier_that_is_done_ends_the_chain(within: Within, files: Files) -> None:
    async def work(segue: Segue) -> None:
        shown = await files.tier(f"[[say {DONE}]]").tier("[[say never]]").run(segue, label="cycle 42")
        assert (shown.state, shown.end, shown.rounds, shown.label) == ("done", "done", 1, "cycle 42")
        assert turns(shown) == [("tier-1", 1, "fresh")]
        assert (result(shown)["tier"], result(shown)["reason"]) == (1, "it works again")

    within(work)


def test_the_next_tier_continues_the_session_with_its_own_permissions(
    within: Within, files: Files, segue: Program
) -> None:
    """What is denied in tier 1 runs in tier 2, what is allowed in tier 2 is denied in tier 3, in one session;
    the environment is known everywhere."""
    files.tier(f"[[shell echo 1 >> done]] [[say {UP}]]", permission="full", deny=["shell"], model="small")
    files.tier(
        f"[[shell echo 2 >> done]] [[recall number \\d+]] [[say {UP}]]", permission="full", model="big"
    )
    files.tier(f"[[shell echo 3 >> done]] [[recall number \\d+]] [[say {DONE}]]", permission="read")

    async def work(library: Segue) -> None:
        shown = await files.run(library)
        assert turns(shown) == [("tier-1", 1, "fresh"), ("tier-2", 2, "resume"), ("tier-3", 3, "resume")]
        assert (shown.end, shown.rounds) == ("done", 3)
        steps = [each for each in shown.steps if each.kind == "turn"]
        told = [await library.runs.show(each.run or "") for each in steps]
        assert {each.role for each in steps} == {"escalation"}
        assert [each.turn.model for each in told[:2] if each.turn] == ["small", "big"]
        assert len({each.turn.session_id for each in told if each.turn}) == 1
        for each in told[1:]:
            assert each.turn is not None
            assert "number 77" in each.turn.text
        log = await library.log(f"flow/{shown.flow}/chain")
        assert len(log) == 6
        assert "full 2" not in (log[2].text or "")

    within(work)
    assert (segue.cwd / "done").read_text() == "2\n"


def test_the_highest_tier_caps_the_chain(within: Within, files: Files) -> None:
    async def work(segue: Segue) -> None:
        shown = await files.tier(f"[[say {UP}]]").tier(f"[[say {UP}]]").run(segue, max_tier=1)
        assert (shown.state, shown.end, turns(shown)) == ("done", "capped", [("tier-1", 1, "fresh")])
        assert result(shown)["failed_checks"] == ["web"]
        assert (await document(segue, shown, "hand-off-1.json")).reason == "the disk is full"

    within(work)


def test_a_session_that_is_gone_leads_to_the_hand_off(within: Within, files: Files, segue: Program) -> None:
    remove = f"rm -rf '{segue.home}/agent/sessions'"
    files.tier(f"[[shell echo hello]] [[say {UP}]]", permission="full")
    files.table("[[tier]]", name="person", human=True, question="Look, please.")
    files.tier("[[say short]]", full="[[recall .*]] [[say {DONE}]]".replace("{DONE}", DONE))

    async def work(library: Segue) -> None:
        shown = await files.run(library)
        assert (shown.state, shown.needs) == ("needs_you", "human")
        assert shown.questions[0].text.startswith("Look, please.\nWhy: the disk is full\nFailed checks: web")
        await asyncio.to_thread(__import__("os").system, remove)
        await library.flows.answer(shown.flow, "It is the cable.")
        await library.flows.resume(shown.flow)
        shown = await library.flows.join(shown.flow)
        assert (shown.end, turns(shown)[-1]) == ("done", ("tier-3", 3, "fresh"))
        left = await document(library, shown, "hand-off-1.json")
        assert (left.source, left.tools[0].tool, left.tools[0].output.strip()) == (
            "transcript",
            "shell",
            "hello",
        )
        sent = sent_to(segue, shown)
        assert '"reason": "the disk is full"' in sent
        assert "host number 77" in sent
        assert "It is the cable." in sent

    within(work)


def sent_to(segue: Program, shown: FlowShown) -> str:
    """What the session of the flow's last turn begins with."""
    (file,) = (segue.home / "agent" / "sessions").glob("*.jsonl")
    lines = [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]
    return next(str(line["text"]) for line in lines if line.get("role") == "user")


def test_a_full_context_leads_to_the_hand_off(within: Within, files: Files) -> None:
    async def work(segue: Segue) -> None:
        files.tier(f"[[say {UP}]] {'x' * 660_000}").tier("[[say short]]", full=f"[[say {DONE}]]")
        shown = await files.run(segue)
        assert (shown.end, turns(shown)[-1]) == ("done", ("tier-2", 2, "fresh"))

    within(work)


def test_a_refused_resume_leads_to_the_hand_off(within: Within, files: Files, segue: Program) -> None:
    """It is refused while it is tried: the file looks well, and cannot be read."""
    files.tier(f"[[say {UP}]]", permission="full")
    files.table("[[tier]]", name="person", human=True)
    files.tier("[[say short]]", full=f"[[say {DONE}]]")

    async def work(library: Segue) -> None:
        shown = await files.run(library)
        (file,) = (segue.home / "agent" / "sessions").glob("*.jsonl")
        first, rest = file.read_bytes().split(b"\n", 1)
        file.write_bytes(first.replace(b"{", b"[", 1) + b"\n" + rest)
        await library.flows.answer(shown.flow, "go on")
        await library.flows.resume(shown.flow)
        shown = await library.flows.join(shown.flow)
        assert (shown.end, turns(shown)[-1]) == ("done", ("tier-3", 3, "fresh"))
        run = await library.runs.show(next(e.run for e in shown.steps if e.key == "tier-3") or "")
        assert run.turn is not None
        assert [each.mode for each in run.turn.attempts] == ["resume", "fresh"]
        chain = await library.conversations.lineage(f"flow/{shown.flow}/chain")
        assert [[each.kind for each in turn.parents] for turn in chain.turns] == [[], ["escalation"]]

    within(work)


def test_another_agent_gets_the_hand_off(within: Within, files: Files, segue: Program) -> None:
    segue.config('[agents.echo]\ncommand = ["/bin/sh", "-c", "cat > got; echo ESCALATE"]\nstdin = "prompt"\n')
    files.tier("[[say ESCALATE: look]]").tier("short", agent="echo")
    files.table("[policy]", signal="text")

    async def work(library: Segue) -> None:
        shown = await files.run(library)
        assert (shown.end, turns(shown)[-1]) == ("capped", ("tier-2", 2, "fresh")), shown
        got = (segue.cwd / "got").read_text()
        assert '"reason": "look"' in got
        assert "(full 2)" in got

    within(work)


@pytest.mark.parametrize(("fault", "end"), [("[[error 400]]", "failed"), ("[[hang]]", "done")])
def test_only_the_tiers_own_failures_escalate(within: Within, files: Files, fault: str, end: str) -> None:
    """A tier that exceeds its time limit is followed by one that starts anew, with what is known."""

    async def work(segue: Segue) -> None:
        files.tier(f"[[shell echo x]] {fault}", permission="full", timeout=2.0)
        files.tier("[[say short]]", full=f"[[say {DONE}]]")
        shown = await files.run(segue)
        assert shown.end == end, shown.steps
        if end == "done":
            assert turns(shown) == [("tier-1", 1, "fresh"), ("tier-2", 2, "fresh")]
            left = await document(segue, shown, "hand-off-1.json")
            assert left.failure is not None
            assert [each.call for each in left.tools] == ['{"command":"echo x"}']

    within(work)


async def parked(segue: Segue, shown: FlowShown) -> bool:
    runs = [each.run for each in shown.steps if each.kind == "turn" and each.run is not None]
    return bool(runs) and (await segue.runs.show(runs[-1])).state == "parked"


@pytest.mark.parametrize("fault", ["[[error 429 retry-after 900]]", "[[error 503]]"])
def test_limits_and_networks_wait_and_never_escalate(within: Within, files: Files, fault: str) -> None:
    async def work(segue: Segue) -> None:
        files.tier(fault).tier("[[say never]]").write()
        shown = await segue.flows.start_escalation("FLOW.toml")
        while shown.state == "running" and not await parked(segue, shown):
            await asyncio.sleep(0.02)
            shown = await segue.flows.show(shown.flow)
        assert turns(shown) == [("tier-1", 1, "fresh")]
        assert [(await segue.runs.show(each.run)).mode for each in shown.steps if each.run] == ["fresh"]
        await segue.flows.cancel(shown.flow)

    within(work)


def test_an_answer_without_a_signal_is_asked_for_once_more(within: Within, files: Files) -> None:
    async def work(segue: Segue) -> None:
        shown = await files.tier("[[say hello]]").run(segue)
        assert (shown.state, shown.end) == ("failed", "failed")
        assert turns(shown) == [("tier-1", 1, "fresh"), ("tier-1/again", 1, "resume")]
        assert "JSON block" in result(shown)["reason"]

    within(work)


def test_cooldowns_hold_over_all_runs_and_are_told(within: Within, files: Files, segue: Program) -> None:
    acted = '```json\n{"escalate": false, "actions": [{"kind": "restart", "key": "web"}]}\n```'
    command = "echo restart web >> done; cat $FLOW_COOLDOWNS > told; env | grep ^FLOW_ > env"
    files.tier(f"[[shell {command}]] [[say {acted}]]", permission="full")
    files.table(
        "[[cooldown]]", kind="restart", limit=2, hours=4, match=["shell: echo restart {key}"], deny=["shell"]
    )

    async def work(library: Segue) -> None:
        for _ in range(3):
            shown = await files.run(library)
            assert shown.end == "done"
        last = next(each for each in shown.steps if each.key == "tier-1/before")
        assert last.result is not None
        assert msgspec.json.decode(last.result)["denied"] == ["shell"]

    within(work)
    assert (segue.cwd / "done").read_text() == "restart web\n" * 2
    told = msgspec.json.decode((segue.cwd / "told").read_bytes())
    assert [(each["kind"], each["key"], each["done"]) for each in told["done"]] == [("restart", "web", 1)]
    env = dict(line.split("=", 1) for line in (segue.cwd / "env").read_text().splitlines())
    assert (env["FLOW_TIER"], env["FLOW_DRY_RUN"], env["FLOW_MAX_TIER"]) == ("1", "0", "1")
    assert [each.name for each in (segue.cwd / ".segue").iterdir()] == [".gitignore"]


def test_a_dry_run_changes_nothing_and_is_told(within: Within, files: Files, segue: Program) -> None:
    files.tier(f"[[shell touch changed]] [[recall FLOW_DRY_RUN is \\d]] [[say {DONE}]]", permission="full")

    async def work(library: Segue) -> None:
        shown = await files.run(library, dry_run=True)
        assert shown.end == "done"
        log = await library.log(f"flow/{shown.flow}/chain")
        assert "This is a dry run" in (log[0].text or "")

    within(work)
    assert not (segue.cwd / "changed").exists()


def test_a_person_can_stop_the_chain(within: Within, files: Files) -> None:
    async def work(segue: Segue) -> None:
        files.tier(f"[[say {UP}]]").table("[[tier]]", name="on call", human=True)
        shown = await files.run(segue)
        assert (shown.state, shown.needs, shown.held) == ("needs_you", "human", False)
        await segue.flows.answer(shown.flow, "stop")
        await segue.flows.resume(shown.flow)
        shown = await segue.flows.join(shown.flow)
        assert (shown.state, shown.end, result(shown)["tier"]) == ("failed", "failed", 2)

    within(work)


def test_a_budget_suspends_the_chain_and_raising_it_goes_on(within: Within, files: Files) -> None:
    async def work(segue: Segue) -> None:
        files.tier(f"[[say {UP}]]").tier(f"[[say {DONE}]]").table("[policy]", budget=0.000001)
        shown = await files.run(segue)
        assert (shown.state, shown.needs, shown.budget_usd) == ("needs_you", "budget", 0.000001)
        assert [each[0] for each in turns(shown)] == ["tier-1", "tier-2"]
        assert shown.steps[-1].state == "waiting"
        assert shown.questions[0].budget is not None
        assert shown.questions[0].budget.scope == "flow"
        await segue.flows.answer(shown.flow, "$5")
        await segue.flows.resume(shown.flow)
        shown = await segue.flows.join(shown.flow)
        assert (shown.end, shown.budget_usd) == ("done", 5.0)
        assert [each[0] for each in turns(shown)] == ["tier-1", "tier-2"]
        assert len(await segue.log(f"flow/{shown.flow}/chain")) == 4, "each message once, with its answer"

    within(work)


def test_a_changed_file_does_not_change_a_running_chain(within: Within, files: Files, segue: Program) -> None:
    async def work(library: Segue) -> None:
        files.tier(f"[[say {UP}]]").table("[[tier]]", name="on call", human=True).tier(f"[[say {DONE}]]")
        shown = await files.run(library)
        (segue.cwd / "2.md").write_text("[[say changed]]")
        (segue.cwd / "FLOW.toml").write_text("")
        await library.flows.answer(shown.flow, "go on")
        await library.flows.resume(shown.flow)
        shown = await library.flows.join(shown.flow)
        assert (shown.end, turns(shown)[-1]) == ("done", ("tier-3", 3, "resume"))

    within(work)


@pytest.mark.parametrize(
    ("code", "end", "tier", "reason"),
    [
        ("test -e fixed || { echo web is down; exit 2; }", "done", 2, ""),
        ("echo still down; exit 2", "capped", 2, "still down"),
        ("echo broken; exit 3", "failed", 1, "exit code 3"),
        ("sleep 60", "failed", 1, "took too long"),
    ],
)
def test_the_exit_code_of_a_command_says_whether_to_escalate(
    within: Within, files: Files, code: str, end: str, tier: int, reason: str
) -> None:
    async def work(segue: Segue) -> None:
        files.tier("[[say looked]]").tier("[[shell touch fixed]] [[say repaired]]", permission="full")
        files.table("[policy]", signal="exit_code", command=code, command_timeout=3)
        shown = await files.run(segue)
        assert (shown.end, result(shown)["tier"]) == (end, tier), shown
        assert reason in result(shown)["reason"]
        first = (await segue.log(f"flow/{shown.flow}/chain"))[0]
        assert code in (first.text or ""), "the agent is told what decides"
        if end == "done":
            hand_offs = [each for each in shown.artefacts if each.name == "hand-off-1.json"]
            left = msgspec.json.decode(await segue.flows.artefact(hand_offs[0].hash), type=HandOff)
            assert left.reason == "web is down"

    within(work)


SILENT = """\
import json, sys
prompt = sys.stdin.read()
with open("heard", "a") as heard:
    heard.write(json.dumps({"way": sys.argv[1:], "prompt": prompt}) + "\\n")
up = '{"escalate": %s, "reason": "the disk is full"}' % ("true" if "look around" in prompt else "false")
print(json.dumps({"text": up}))
"""


def test_a_cli_that_tells_no_session_id_hands_over(within: Within, files: Files, segue: Program) -> None:
    """Its session cannot be continued, so the next tier gets the full prompt, the environment and what the
    tier before left."""
    (segue.cwd / "silent.py").write_text(SILENT)
    program = f'"{sys.executable}", "{segue.cwd / "silent.py"}"'
    segue.config(
        f'[agents.silent]\ncommand = [{program}]\nresume_command = [{program}, "{{session_id}}"]\n'
        'stdin = "prompt"\noutput = "jsonl"\n'
        'session_id = { path = "$.session" }\ntext = { path = "$.text" }\n'
    )
    files.tier("unused", "look around", agent="silent").tier("short", "do it in full", agent="silent")

    async def work(library: Segue) -> None:
        shown = await files.run(library)
        assert (shown.end, turns(shown)) == ("done", [("tier-1", 1, "fresh"), ("tier-2", 2, "fresh")])
        assert (await document(library, shown, "hand-off-1.json")).reason == "the disk is full"

    within(work)
    first, second = map(msgspec.json.decode, (segue.cwd / "heard").read_text().splitlines())
    assert (first["way"], second["way"]) == ([], [])
    for words in ("do it in full", "number 77", "the disk is full"):
        assert words in second["prompt"]
