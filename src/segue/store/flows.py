"""Flows and their steps. Whoever runs a flow writes under its lease: nobody else can have taken it over."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from math import fsum
from typing import Any, Literal

import msgspec

from segue.core.budget import tier_name
from segue.core.flow import Needs
from segue.core.model import Owner
from segue.core.outcome import Kind
from segue.core.usage import Usage
from segue.store.budgets import Budgets, RaisedTo
from segue.store.carries import CarryRow, carry_fields
from segue.store.database import Queries, Row, Statement, from_json
from segue.store.flow_actions import FlowActions
from segue.store.flow_records import ArtefactRow, FlowAttempt, FlowRow, FlowRun, StepRow
from segue.store.marks import Marks
from segue.store.records import Claim
from segue.system import clock

_SQL = Queries("flows")
_CARRIES = Queries("carries")
_LEASES = Queries("leases")
_TURNS = Queries("turns")


Asked = Literal["pause", "cancel"]
"""What somebody can ask of a flow."""


class _Failed(msgspec.Struct):
    kind: Kind


class _Told(msgspec.Struct):
    """What is read of a turn's report here."""

    failure: _Failed | None = None


class Overtaken(Exception):  # noqa: N818 - it is an answer, not an error
    """Another process runs the flow now: nothing was written."""


class Flows(FlowActions):
    """Each method is one transaction. Those with a ``claim`` raise ``Overtaken`` if it does not hold."""

    @property
    def marks(self) -> Marks:
        """Whose words turns were given."""
        return Marks(self._db)

    def add(self, flow: FlowRow, carried: Sequence[CarryRow] = ()) -> FlowRow:
        """Store a new flow. If its key belongs to another one, that one is returned. ``carried``: what its
        turns will carry over from account to account, recorded with it."""
        fields = msgspec.structs.asdict(flow)
        names = "id key kind version source label input state cwd tree host rounds created_ms budget".split()
        known = (_SQL.by_id, {"id": flow.id}) if flow.key is None else (_SQL.by_key, {"key": flow.key})
        crossing = [(_CARRIES.add_once, {**carry_fields(row), "flow": flow.id}) for row in carried]
        _, *_, (row,) = self._db.together(
            (_SQL.add, {name: fields[name] for name in names}), *crossing, known
        )
        return _flow_of(row)

    def flow(self, flow_id: str) -> FlowRow | None:
        row = self._db.one(_SQL.by_id, id=flow_id)
        return None if row is None else _flow_of(row)

    def by_key(self, key: str) -> FlowRow | None:
        row = self._db.one(_SQL.by_key, key=key)
        return None if row is None else _flow_of(row)

    def entered(self, flow_id: str) -> tuple[FlowRow, list[StepRow], int] | None:
        """The flow, its steps, and the time of the database's clock."""
        flow, steps, now = self._db.found_by(
            (_SQL.by_id, {"id": flow_id}), (_SQL.steps, {"flow": flow_id}), (_LEASES.now, {})
        )
        return (_flow_of(flow[0]), [*map(_step_of, steps)], int(now[0][0])) if flow else None

    def recorded(self, flow_id: str) -> tuple[list[FlowRun], list[StepRow], list[ArtefactRow]]:
        """Its runs, its steps and what it keeps, as ``runs``, ``steps`` and ``artefacts`` tell them."""
        named = {"flow": flow_id}
        runs, steps, kept = self._db.found_by(
            (_SQL.runs, named), (_SQL.steps, named), (_SQL.artefacts, named)
        )
        return [*map(_run_of, runs)], [*map(_step_of, steps)], [*map(_artefact_of, kept)]

    def newest(self, limit: int) -> list[FlowRow]:
        """The newest first."""
        return [_flow_of(row) for row in self._db.all(_SQL.newest, count=limit)]

    def unfinished(self) -> list[FlowRow]:
        """Those that have not ended, the oldest first."""
        return [_flow_of(row) for row in self._db.all(_SQL.unfinished)]

    def change(self, claim: Claim, flow: FlowRow, *, goes_on: bool = False) -> FlowRow:
        """Write what has changed about a flow, except its rounds; what was asked of it is done, unless it
        ``goes_on``. Returns it as it is then."""
        names = "id version state needs wake_ms ending result artefact failure ended_ms".split()
        fields = {name: getattr(flow, name) for name in names}
        (rows,) = self._under(claim, (_SQL.change, {**fields, "goes_on": int(goes_on)}))
        if not rows:
            raise Overtaken
        return _flow_of(rows[0])

    def count_round(self, claim: Claim, flow_id: str, rounds: int) -> None:
        with self._fenced(claim):
            self._db.run(_SQL.count_round, id=flow_id, rounds=rounds)

    def wait_for_answer(self, claim: Claim, flow_id: str, needs: Needs) -> bool:
        """The flow needs the user. False: all that it asked has been answered meanwhile."""
        with self._fenced(claim):
            return self._db.run(_SQL.wait_for_answer, id=flow_id, needs=needs) == 1

    def answer(self, flow_id: str, key: str, answer: str, now_ms: int) -> bool:
        """Answer what a step asks (JSON); the flow can go on. False: it was answered before."""
        with self._db.writing():
            if not self._db.run(_SQL.answer, flow=flow_id, key=key, result=answer, ended_ms=now_ms):
                return False
            self._db.run(_SQL.answered, id=flow_id)
        return True

    def raise_budget(self, flow_id: str, key: str, to: RaisedTo, run: str) -> bool:
        """Raise the budget that a turn waits for. It is tried again, as this run. False: it was answered
        before."""
        with self._db.writing():
            if not self._db.run(_SQL.budget_raised, flow=flow_id, key=key, run=run):
                return False
            Budgets(self._db).raise_budget(to)
            self._db.run(_SQL.answered, id=flow_id)
        return True

    def look_again(self, claim: Claim, flow_id: str) -> None:
        """Try the turns again that wait for a budget: it may be higher now."""
        with self._fenced(claim):
            for step in self.steps(flow_id):
                if step.kind == "turn" and step.state == "waiting":
                    self._db.run(_SQL.budget_raised, flow=flow_id, key=step.key, run=clock.new_id())

    def keep_budget(self, flow_id: str, key: str) -> bool:
        """The turn that waits for a budget is given up. False: it was answered before."""
        with self._db.writing():
            if not self._db.run(_SQL.budget_kept, flow=flow_id, key=key):
                return False
            self._db.run(_SQL.answered, id=flow_id)
        return True

    def ask_for(self, flow_id: str, what: Asked) -> bool:
        """Ask whoever runs the flow to pause or cancel it. False: it has ended."""
        return self._db.run(_SQL.ask_for, id=flow_id, asked=what) == 1

    def asked_for(self, flow_id: str) -> Asked | None:
        row = self._db.one(_SQL.asked, id=flow_id)
        return None if row is None else row[0]

    def cancel_asked(self, run: str) -> bool:
        """Whether somebody asked for a turn to be cancelled."""
        row = self._db.one(_TURNS.cancel_asked, id=run)
        return row is not None and row[0] is not None

    def steps(self, flow_id: str) -> list[StepRow]:
        """In the order in which they began; what was taken back comes last."""
        return [_step_of(row) for row in self._db.all(_SQL.steps, flow=flow_id)]

    def step(self, flow_id: str, key: str) -> StepRow | None:
        row = self._db.one(_SQL.step, flow=flow_id, key=key)
        return None if row is None else _step_of(row)

    def write_step(self, claim: Claim, *steps: StepRow, data: bytes | None = None) -> None:
        """Write steps as they are now. ``data``: the artefact that is the result of the last one."""
        written = [_written(step) for step in steps]
        if data is None:
            if not all(self._under(claim, *written)):
                raise Overtaken
            return
        with self._fenced(claim):
            self._under(claim, *written)
            last = steps[-1]
            self._keep(last.flow, last.key, data, "application/json", last.ended_ms or last.began_ms)

    def begin_step(self, claim: Claim, step: StepRow) -> Asked | None:
        """Write a new step, unless somebody has asked the flow to stop: then that is returned."""
        (rows,) = self._under(claim, _written(step, heeds=True))
        if rows:
            return None
        asked = self.asked_for(step.flow)
        if asked is None:
            raise Overtaken
        return asked

    def keep(
        self, claim: Claim, flow_id: str, name: str, data: bytes, media_type: str, now_ms: int
    ) -> ArtefactRow:
        """Keep something under a name; another one of that name is replaced."""
        with self._fenced(claim):
            return self._keep(flow_id, name, data, media_type, now_ms)

    def artefacts(self, flow_id: str) -> list[ArtefactRow]:
        return [_artefact_of(row) for row in self._db.all(_SQL.artefacts, flow=flow_id)]

    def artefact(self, hash_: str) -> bytes | None:
        """The content with that hash."""
        row = self._db.one(_SQL.data, hash=hash_)
        return None if row is None else bytes(row[0])

    def runs(self, flow_id: str) -> list[FlowRun]:
        """All its turns, also those of earlier tries, the oldest first."""
        return [_run_of(row) for row in self._db.all(_SQL.runs, flow=flow_id)]

    def failures_since(self, flow_id: str, step: str, since_ms: int) -> dict[str, Kind]:
        """How the runs of a step that began since then have failed, by their ids."""
        found: dict[str, Kind] = {}
        for run, state, told in self._db.all(_SQL.told_since, flow=flow_id, step=step, since_ms=since_ms):
            ended = from_json(told, _Told)
            if ended is not None and ended.failure is not None:
                found[run] = ended.failure.kind
            elif ended is None and state == "withdrawn":  # its process died while it waited
                found[run] = "killed"
        return found

    def last_answer(self, flow_id: str, conversation: str, role: str, before_ms: int) -> int | None:
        """When a role of the flow last answered in a conversation, before then."""
        row = self._db.one(
            _SQL.last_answer, flow=flow_id, conversation=conversation, role=role, before_ms=before_ms
        )
        return None if row is None or row[0] is None else int(row[0])

    def worked(self, flow_id: str, since_ms: int) -> list[tuple[int, int]]:
        """When its agents and its functions worked, from when to when; what ended after ``since_ms``."""
        rows = self._db.all(_SQL.worked, flow=flow_id, since_ms=since_ms)
        return [(int(began), int(ended)) for began, ended in rows]

    def at_work(self) -> list[FlowAttempt]:
        """The attempts of unsettled turns in working trees that flows have for themselves."""
        names = FlowAttempt.__struct_fields__
        rows = (_named(names, row) for row in self._db.all(_SQL.at_work))
        return [
            FlowAttempt(**{**row, "owner": from_json(row["owner"], Owner) or Owner(host="", pid=0)})
            for row in rows
        ]

    def spent(self, flow_id: str) -> float:
        """What its turns cost so far, as far as it is known."""
        row = self._db.one(_SQL.spent, flow=flow_id)
        return 0.0 if row is None or row[0] is None else float(row[0])

    def left_in(self, flow_id: str, tier: int, limit: float) -> float:
        """What is left of a tier's budget, in dollars. ``limit``: before it was raised."""
        budgets = Budgets(self._db)
        raised = budgets.raised_to("tier", tier_name(flow_id, tier), "") or 0.0
        spent = (row.usd for row in budgets.spent_by(flow_id, tier) if row.usd is not None)
        return fsum((max(limit, raised), -fsum(spent)))

    def _keep(self, flow_id: str, name: str, data: bytes, media_type: str, now_ms: int) -> ArtefactRow:
        row = ArtefactRow(
            flow=flow_id,
            name=name,
            hash=hash_of(data),
            media_type=media_type,
            size=len(data),
            made_ms=now_ms,
        )
        self._db.run(_SQL.keep, hash=row.hash, data=data)
        self._db.run(_SQL.name_artefact, **msgspec.structs.asdict(row))
        return row

    def _under(self, claim: Claim, *statements: Statement) -> list[list[Row]]:
        """The rows of statements that do nothing if the lease is not held. They are sent as a whole: renewed,
        the lease cannot be taken before they are done."""
        lease = msgspec.structs.asdict(claim)
        _, *found = self._db.together(
            (_LEASES.renew, lease), *((sql, {**values, **lease}) for sql, values in statements)
        )
        return found

    @contextmanager
    def _fenced(self, claim: Claim) -> Iterator[None]:
        with self._db.writing():
            if not self.renew_lease(claim):
                raise Overtaken
            yield


def hash_of(data: bytes) -> str:
    """The name of a content."""
    return sha256(data).hexdigest()


def _named(names: Sequence[str], row: Row) -> dict[str, Any]:
    return dict(zip(names, row, strict=True))


def _written(step: StepRow, *, heeds: bool = False) -> Statement:
    """``heeds``: not if somebody has asked the flow to stop."""
    return _SQL.write_step, {**msgspec.structs.asdict(step), "heeds": int(heeds)}


def _flow_of(row: Row) -> FlowRow:
    return msgspec.convert(_named(FlowRow.__struct_fields__, row), FlowRow)


def _step_of(row: Row) -> StepRow:
    return msgspec.convert(_named(StepRow.__struct_fields__, row), StepRow)


def _artefact_of(row: Row) -> ArtefactRow:
    return ArtefactRow(**_named(ArtefactRow.__struct_fields__, row))


def _run_of(row: Row) -> FlowRun:
    run, step, conversation, agent, role, tier, model, mode, state, *used, cost_usd, started_ms, ended_ms = (
        row
    )
    return FlowRun(
        run=run,
        step=step,
        conversation=conversation,
        agent=agent,
        role=role,
        tier=tier,
        model=model,
        mode=mode,
        state=state,
        usage=Usage(*used),
        cost_usd=cost_usd,
        started_ms=started_ms,
        ended_ms=ended_ms,
    )
