"""``escalate``: tiers that may do more and more, one after the other, until one of them is done.

All tiers are one role of one conversation, so a tier continues the session of the one before it, with its own
model and permissions. If that cannot be, it starts with the full prompt and the hand-off.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from segue.core.budget import TINY
from segue.core.events import ToolCall, ToolResult
from segue.core.laws import Consent
from segue.core.request import Briefing
from segue.core.turn import Turn
from segue.core.verdicts import say
from segue.flows.answer_block import Unreadable, without_form
from segue.flows.commands import CheckResult, run_check
from segue.flows.context import Flow, FlowEnd
from segue.flows.cooldowns import CooldownState, Done, ToolUse, count_actions, denied, states
from segue.flows.definition import flow
from segue.flows.escalation_plan import EscalationPlan, Tier
from segue.flows.escalation_prompts import TierPrompts, hand_off_name, question_text
from segue.flows.escalation_signal import SCHEMA, Signal, read_signal, signal_by_code
from segue.flows.hand_off import HandOff, ToolRun, encoded, hand_off
from segue.flows.ports import Given
from segue.system import files
from segue.system.loop import run_sync
from segue.turns.request import NONE, Options

ROLE = "escalation"
CONVERSATION = "chain"
"""All tiers speak in one conversation of the flow."""
DIRECTORY = ".segue"
"""Where the files for the agents are, in the flow's directory: an agent can read what is there."""
TOOLS_TOLD = 100
MOST_RAISES = 100
_EVENT = msgspec.json.Decoder(ToolCall | ToolResult)


class Before(msgspec.Struct, frozen=True, kw_only=True):
    """What is known when a tier starts."""

    cooldowns: tuple[CooldownState, ...] = ()
    denied: tuple[str, ...] = ()
    """The tools that it does without because of them."""
    file: str | None = None
    given: tuple[str, ...] = ()
    """Whose words the cooldowns repeat: what was done in other flows."""
    withheld: str = ""
    """Why nothing of the tiers before it reaches this one."""


class After(msgspec.Struct, frozen=True, kw_only=True):
    """What a tier did."""

    tools: tuple[ToolRun, ...] = ()
    counted: tuple[tuple[str, str, int], ...] = ()
    """What the cooldowns count: kind, key, how often."""


class TierEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a tier ended, and what it leaves to the next one."""

    turn: Turn
    signal: Signal | None
    hand_off: HandOff
    why: str = ""
    """Why it is not known whether it escalates."""


@flow(version=1)
async def escalate(flow: Flow, plan: dict[str, Any]) -> FlowEnd:
    """``plan``: an ``EscalationPlan``, with the texts of its prompts."""
    return await Chain(flow, msgspec.convert(plan, EscalationPlan)).run()


class Chain:
    """One run through the tiers."""

    def __init__(self, flow: Flow, plan: EscalationPlan) -> None:
        self._flow, self._plan = flow, plan
        self._last: TierEnd | None = None
        self._said = ""

    async def run(self) -> FlowEnd:
        for n in range(1, self._plan.highest + 1):
            await self._flow.round(n)
            human = self._plan.tiers[n - 1].human
            end = await self._ask(n) if human else await self._tier(n)
            if end is not None:
                await self._tidy()
                return end
        raise AssertionError("the last tier always ends the flow")

    async def _ask(self, n: int) -> FlowEnd | None:
        """A person; None: the next tier goes on."""
        left = self._last.hand_off if self._last is not None else None
        text = question_text(self._plan, n, self._flow.label, left)
        answer = (await self._flow.ask(f"tier-{n}", text, needs="human", tier=n)).strip()
        if answer.lower() == "stop":
            return self._end("failed", n, answer, failed=True)
        if answer.lower() == "resolved" or n >= self._plan.highest:
            return self._end("done", n, answer)
        self._said = answer
        return None

    async def _tier(self, n: int) -> FlowEnd | None:
        """An agent; None: the next tier goes on."""
        ended = await self._worked(n)
        self._last, self._said = ended, ""
        failure, signal = ended.turn.failure, ended.signal
        if failure is not None and failure.kind == "cancelled":
            return self._end("cancelled", n, failure.message, failed=True)
        own = self._plan.policy.escalate_on if without_form(ended.turn) is None else ()
        if failure is not None and failure.kind not in own:
            return self._end("failed", n, failure.message, failed=True)
        if failure is None and signal is None:
            return self._end("failed", n, ended.why, failed=True)
        if signal is not None and not signal.escalate:
            return self._end("done", n, signal.reason)
        await self._flow.artefact(hand_off_name(n), encoded(ended.hand_off), "application/json")
        if n >= self._plan.highest:
            return self._end("capped", n, ended.hand_off.reason or ended.hand_off.failure or "")
        return None

    async def _worked(self, n: int) -> TierEnd:
        """Run the tier's turn, and read what it says."""
        before = await self._flow.step(f"tier-{n}/before", self._before, n, returns=Before)
        prompts = TierPrompts(self._plan, self._plan.tiers[n - 1], before.cooldowns, before.file, self._said)
        left = self._last.hand_off if self._last is not None else None
        full = prompts.full(None if before.withheld else left, withheld=bool(before.withheld))
        failed = self._last is not None and self._last.turn.failure is not None
        text = full if self._last is None else prompts.short()
        turn = await self._turn(n, "", before, text, full, failed)
        for more in range(1, MOST_RAISES):
            if not await self._stopped_short(n, more, turn):
                break
            turn = await self._turn(n, f"/more-{more}", before, prompts.more(), full, False, after=turn)
        signal, why = await self._signal(n, turn, before)
        asked = self._plan.policy.signal == "json"
        if asked and signal is None and (turn.failure is None or without_form(turn)):
            text, whole = prompts.again(why), f"{full}\n\n{prompts.again(why)}"
            turn = await self._turn(n, "/again", before, text, whole, False, after=turn, form=False)
            signal, why = await self._signal(n, turn, before)
        after = await self._flow.step(f"tier-{n}/after", self._after, n, signal, returns=After)
        leaves = hand_off(
            n,
            self._plan.tiers[n - 1].name,
            signal=signal,
            answer=turn.text,
            tools=after.tools,
            failure=turn.failure.message if turn.failure is not None else None,
            earlier=left,
            most=self._plan.policy.hand_off_bytes,
        )
        return TierEnd(turn=turn, signal=signal, hand_off=leaves, why=why)

    async def _turn(
        self,
        n: int,
        part: str,
        before: Before,
        text: str,
        full: str,
        blank: bool,
        after: Turn | None = None,
        form: bool = True,
    ) -> Turn:
        """``blank``: the session of the tier before is not continued, because its turn failed. ``form``: the
        signal is asked for by the CLI's option for that, if it has one."""
        tier = self._plan.tiers[n - 1]
        given = self._given(tier, before, after)
        if after is None and self._last is not None:
            after = self._last.turn
        form = form and self._plan.policy.signal == "json"
        options = self._options(tier, before)
        options["blank"] = blank
        if tier.budget is not None:
            left = await run_sync(self._flow.store.left_in, self._flow.id, n, tier.budget)
            options["budget"] = left if left > TINY else tier.budget
        return await self._flow.turn(
            f"tier-{n}{part}",
            self._flow.key(CONVERSATION),
            text,
            tier=n,
            tier_budget=tier.budget,
            briefing=Briefing(full=full, schema=SCHEMA if form else ""),
            after=after,
            variables=self._variables(n, before),
            given=given,
            **options,
        )

    def _given(self, tier: Tier, before: Before, after: Turn | None) -> Given:
        """Whose words a turn of the tier is given. ``after``: the turn of the same tier before it."""
        consent = _consent(tier)
        if not before.withheld:
            return Given(marks=before.given, consent=consent)
        text = f"nothing of the tiers before is carried over: {before.withheld}"
        notices = (say(text, "notice.tiers_withheld", why=before.withheld),) if after is None else ()
        runs = () if after is None else (after.run,)
        return Given(runs=runs, marks=before.given, consent=consent, notices=notices)

    def _withheld(self, tier: Tier) -> str:
        """Why nothing of the tiers before reaches this one. If its file asks for that, the gate decides."""
        if tier.carry:
            return ""
        marks = self._flow.store.marks.of_flow(self._flow.id)
        return self._flow.forbidden(_account_of(tier), marks) or ""

    async def _signal(self, n: int, turn: Turn, before: Before) -> tuple[Signal | None, str]:
        """Whether the tier escalates. None: that is not known, with the reason. A turn that failed says
        nothing: what it had written by then is no judgement."""
        policy = self._plan.policy
        if turn.failure is not None:
            return None, turn.failure.message
        if policy.signal == "exit_code":
            env = {**self._flow.env, **self._variables(n, before)}
            args = (policy.command, self._flow.cwd, env, policy.command_timeout)
            check = await self._flow.step(f"tier-{n}/command", run_check, *args, returns=CheckResult)
            found = signal_by_code(check)
        else:
            found = read_signal(turn.text, policy)
        return (None, found.reason) if isinstance(found, Unreadable) else (found, "")

    async def _stopped_short(self, n: int, more: int, turn: Turn) -> bool:
        """Whether the agent's CLI stopped it because its budget was spent: then another turn asks."""
        limit = self._plan.tiers[n - 1].budget
        if limit is None or turn.failure is None or turn.failure.kind != "timeout":
            return False
        store = self._flow.store
        left = await self._flow.step(
            f"tier-{n}/left-{more}", store.left_in, self._flow.id, n, limit, returns=float
        )
        return left <= TINY

    def _options(self, tier: Tier, before: Before) -> Options:
        """The tier's own, and nothing of what the tiers before it had."""
        allow = self._plan.allowed(tier)
        options: Options = {
            **_account_of(tier),
            "role": ROLE,
            "model": tier.model or NONE,
            "permission": self._plan.permission(tier),
            "allow_tools": tuple(tool for tool in allow if tool not in before.denied) or (NONE,),
            "deny_tools": (*tier.deny, *before.denied) or (NONE,),
            "budget": NONE,
            "timeout": tier.timeout,
            "max_turns": tier.max_turns,
        }
        return options

    def _variables(self, n: int, before: Before) -> dict[str, str]:
        known = {
            "FLOW_ID": self._flow.id,
            "FLOW_LABEL": self._flow.label,
            "FLOW_TIER": str(n),
            "FLOW_MAX_TIER": str(self._plan.highest),
            "FLOW_DRY_RUN": "1" if self._plan.dry_run else "0",
        }
        return known if before.file is None else {**known, "FLOW_COOLDOWNS": before.file}

    def _before(self, n: int) -> Before:
        """What the cooldowns say now; also in a file that the agent can read. What was done for words of
        another account counts, but is not shown."""
        cooldowns, store, tier = self._plan.cooldowns, self._flow.store, self._plan.tiers[n - 1]
        withheld = self._withheld(tier) if self._last is not None else ""
        if not cooldowns:
            return Before(withheld=withheld)
        now_ms = store.clock_ms()
        since_ms = now_ms - max(each.ms for each in cooldowns)
        past = [Done(*row) for row in store.actions_since(self._plan.name, since_ms)]
        found = tuple(states(cooldowns, past, now_ms))
        passing = self._passing(tier, since_ms)
        known = {(each.kind, each.key): passing(each) for each in past if passing(each) is not None}
        shown = tuple(each for each in found if (each.kind, each.key) in known)
        told = {"schema": 1, "at": now_ms, "cooldowns": cooldowns, "done": shown}
        given = {mark for each in shown for mark in known[each.kind, each.key] or ()}
        return Before(
            cooldowns=shown,
            denied=denied(cooldowns, found),
            file=self._write_down(told),
            given=tuple(sorted(given)),
            withheld=withheld,
        )

    def _write_down(self, told: Mapping[str, object]) -> str | None:
        """Write a file that the agent can read. Returns its name; None if it would not be written here,
        because the directory for it is a link of somebody's."""
        if self._directory.parent.is_symlink():
            return None
        self._directory.mkdir(parents=True, exist_ok=True)
        ignored = self._directory.parent / ".gitignore"
        if not ignored.exists():
            files.write_whole(ignored, b"*\n")
        path = self._directory / "cooldowns.json"
        files.write_whole(path, msgspec.json.format(msgspec.json.encode(told), indent=2))
        return os.path.relpath(path, self._flow.cwd)

    def _passing(self, tier: Tier, since_ms: int) -> Callable[[Done], tuple[str, ...] | None]:
        """Tells of an action whose words it repeats; None: they may not reach this tier."""
        marks = self._flow.store.marks.of_actions(self._plan.name, since_ms)
        options, consent = _account_of(tier), _consent(tier)
        barred = {each for each in {*marks.values()} if self._flow.forbidden(options, each, consent)}

        def passing(done: Done) -> tuple[str, ...] | None:
            found = marks.get((done.flow, done.step), ())
            return None if found in barred else found

        return passing

    def _after(self, n: int, signal: Signal | None) -> After:
        """Note what the tier did. In a dry run, only what its tools show."""
        store, plan = self._flow.store, self._plan
        events = store.tool_events_of(self._flow.id, f"tier-{n}")
        ran = _runs_of(events)
        reported = signal.actions if signal is not None and not plan.dry_run else ()
        uses = [ToolUse(each.name, each.input) for each, result in ran if not (result and result.denied)]
        counted = count_actions(plan.cooldowns, reported, uses)
        store.note_actions(self._flow.id, f"tier-{n}", plan.name, counted, store.clock_ms())
        shown = tuple(_tool_run(*each) for each in ran[-TOOLS_TOLD:])
        return After(tools=shown, counted=tuple((*key, count) for key, count in sorted(counted.items())))

    async def _tidy(self) -> None:
        if self._plan.cooldowns:
            await self._flow.step("tidy", self._remove)

    def _remove(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    @property
    def _directory(self) -> Path:
        return self._flow.cwd / DIRECTORY / self._flow.id

    def _end(self, end: str, n: int, reason: str, *, failed: bool = False) -> FlowEnd:
        last = self._last
        result = {
            "tier": n,
            "name": self._plan.tiers[n - 1].name,
            "reason": reason,
            "failed_checks": list(last.hand_off.failed_checks) if last is not None else [],
            "text": last.turn.text if last is not None else "",
        }
        return self._flow.end(end, result, failed=failed)


def _account_of(tier: Tier) -> Options:
    return {"agent": tier.agent, "account": tier.account or NONE}


def _consent(tier: Tier) -> Consent:
    return "trusted file" if tier.carry else "none"


def _runs_of(events: Sequence[str]) -> list[tuple[ToolCall, ToolResult | None]]:
    """Each tool call with its result."""
    calls: dict[str, ToolCall] = {}
    results: dict[str, ToolResult] = {}
    for text in events:
        event = _EVENT.decode(text)
        if isinstance(event, ToolCall):
            calls[event.id] = event
        else:
            results[event.id] = event
    return [(call, results.get(name)) for name, call in calls.items()]


def _tool_run(call: ToolCall, result: ToolResult | None) -> ToolRun:
    said = msgspec.json.encode(call.input).decode() if call.input is not None else ""
    if result is None:
        return ToolRun(call.name, said[:2000])
    output = f"refused: {result.output}" if result.denied else result.output
    return ToolRun(call.name, said[:2000], result.ok, output[:2000])
