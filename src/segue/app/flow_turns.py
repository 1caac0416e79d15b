"""Runs the turns of flows, by the engine of this process: so everybody sees them who watches it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

import anyio
import msgspec
from anyio.to_thread import run_sync

from segue.app.engine import Engine
from segue.app.flow_walls import mark_of
from segue.app.ready_turn import Cancel, Options, ReadyTurn, ready_turn
from segue.app.workspace import Workspace
from segue.core.budget import ReachedBudget
from segue.core.errors import Forbidden, Misuse
from segue.core.laws import Consent, Door
from segue.core.model import Attached, Message
from segue.core.turn import Turn
from segue.flows.aftermath import judge
from segue.flows.ports import TurnOrder
from segue.turns import changes
from segue.turns.gate import may_send

DOORS = {"review": Door.REVIEW, "escalate": Door.ESCALATE}
"""By the kind of the flow; the turns of other flows have one door."""
AGAIN = ("/again", "/verdict")
"""How the steps end in which an agent is asked once more."""
COMPARISON = "compare/"
"""How the keys of the reviews of a comparison begin."""
LISTEN_S = 0.1
"""How long to wait for a turn that is to be cancelled, and that is not stored yet."""


class _Heard:
    """Wakes whoever listens for a wish to cancel."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def cancel(self) -> None:
        self.event.set()


class FlowTurns:
    """The turns of one flow. ``cwd``: its directory."""

    def __init__(self, workspace: Workspace, engine: Engine, cwd: Path) -> None:
        self._engine = engine
        self._of_flow: Door | None = None
        self._workspace = Workspace(workspace.env, cwd, workspace.store, transport=workspace.transport)

    @property
    def env(self) -> Mapping[str, str]:
        """What an agent without an account would get."""
        return self._workspace.child.env

    @property
    def git_home(self) -> Path:
        """Where our own git directories are."""
        return self._workspace.home.git

    def reached(self, run: str) -> ReachedBudget | None:
        """The budget that did not cover the run."""
        question = self._workspace.store.budgets.reached(run)
        return question.budget if question is not None else None

    async def run(self, order: TurnOrder, cancel: Cancel) -> Turn:
        """Run the turn to its end. It goes on if nobody waits for it any more."""
        ready = await run_sync(self._ready, order)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen, order.run, cancel)
            try:
                turn: Turn | Exception = await self._engine.run(ready)
            except Forbidden as error:  # the run says so, too: that is how the turn ended
                row = await run_sync(self._workspace.store.turn, order.run)
                turn = row.told if row is not None and row.told is not None else error
            except Exception as error:
                turn = error  # raised below: the task group would wrap it
            tasks.cancel_scope.cancel()
        if isinstance(turn, Exception):
            raise turn
        return turn

    async def _listen(self, run: str, cancel: Cancel) -> None:
        """Pass on that it is cancelled; a second time kills it."""
        told, heard = 0, _Heard()
        cancel.follow(heard)
        while told < 2:
            heard.event.clear()
            if cancel.asked == told:
                await heard.event.wait()
            row = await run_sync(self._workspace.store.turn, run)
            if row is not None:
                told += 1
                await self._engine.cancel(row)
            else:  # it is about to be stored
                await anyio.sleep(LISTEN_S)

    def _ready(self, order: TurnOrder) -> ReadyTurn:
        """The turn under the id that the flow has recorded for it. If there is a run of that id, it is that
        run, whatever was said in the meantime."""
        options = cast("Options", {"cwd": str(self._workspace.cwd), **order.options})
        options["run_key"] = order.run_key
        if order.briefing is not None and self._is_restart(order):
            options["fresh_session"] = True
        retried = self._retried(order)
        if retried is None:
            return self._named(self._prepared(order, order.text, options), order)
        options.pop("attachments", None)  # the message has them
        options.pop("blank", None)  # the message began anew already: what was done for it is continued
        text = self._workspace.store.texts([retried.id])[retried.id]
        attached = self._workspace.store.attachments([retried.id]).get(retried.id, ())
        ready = self._prepared(order, text, options)
        return self._named(ready, order, retried.id, attached)

    def _prepared(self, order: TurnOrder, text: str, options: Options) -> ReadyTurn:
        place, briefing = order.place, order.briefing
        return ready_turn(self._workspace, order.conversation, text, options, flow=place, briefing=briefing)

    def forbidden(self, options: Options, marks: Sequence[str], consent: Consent) -> str | None:
        """Why words with these marks may not reach the agent and account of a turn; None: they may."""
        at = self._workspace
        refused = may_send(
            at.config, marks, mark_of(at, options.get("agent"), options.get("account")), consent
        )
        return str(refused) if refused is not None else None

    def _named(
        self,
        ready: ReadyTurn,
        order: TurnOrder,
        retried: str | None = None,
        attached: tuple[Attached, ...] | None = None,
    ) -> ReadyTurn:
        at = ready.prepared
        ask = msgspec.structs.replace(
            at.ask, door=self._door(order), given=self._given(order), consent=order.given.consent
        )
        if attached is not None:
            ask = msgspec.structs.replace(ask, attachments=attached)
        notices = (*at.notices, *order.given.notices)
        prepared = msgspec.structs.replace(at, run=order.run, ask=ask, notices=notices)
        return ReadyTurn(self._workspace, prepared, ready.options, retried, may_be_begun=order.may_be_begun)

    def _given(self, order: TurnOrder) -> tuple[str, ...]:
        """Whose words the prompt repeats. What a flow says can come from any turn of it that has begun."""
        marks, runs = self._workspace.store.marks, order.given.runs
        found = marks.of_flow(order.place.flow, order.run) if runs is None else marks.of_runs(runs)
        return tuple(sorted({*found, *order.given.marks}))

    def _door(self, order: TurnOrder) -> Door:
        """How the turn came to be."""
        if self._is_restart(order):
            return Door.RETRY_STEP
        if order.place.step.endswith(AGAIN):
            return Door.AGAIN
        if self._of_flow is None:  # it stays the same
            self._of_flow = self._door_of(order.place.flow)
        return self._of_flow

    def _door_of(self, flow_id: str) -> Door:
        """The door of a flow's turns."""
        flow = self._workspace.store.flows.flow(flow_id)
        if flow is None:
            return Door.FLOW
        if flow.key is not None and flow.key.startswith(COMPARISON):
            return Door.COMPARE
        return DOORS.get(flow.kind, Door.FLOW)

    def _is_restart(self, order: TurnOrder) -> bool:
        """Whether somebody wants a turn again that had ended by itself: it then begins with the whole prompt,
        in a new session."""
        store = self._workspace.store
        row = store.turn(order.retry_of) if order.retry_of is not None else None
        while row is not None and row.state == "withdrawn" and row.retry_of is not None:
            row = store.turn(row.retry_of)
        if row is None or row.told is None or row.state not in ("done", "failed"):
            return False
        is_budget = row.told.failure is not None and row.told.failure.kind == "budget"
        return not is_budget and judge(row.told, 1, row.started_ms).what == "done"

    def _retried(self, order: TurnOrder) -> Message | None:
        """The message of an earlier try, to be run again; None: it is not there any more, or something was
        said since."""
        store = self._workspace.store
        if order.retry_of is None or store.turn(order.retry_of) is None:
            return None
        try:
            conversation = self._workspace.conversation(order.conversation)
            message = changes.find_message(store, conversation, order.retry_of, "user")
            changes.check_retry(store, conversation.id, message.id, False)
        except Misuse:
            return None
        return message
