"""A running turn: what its steps share from the lease to the reply."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from segue.agents.base import Answer
from segue.core.events import Permission, Question
from segue.core.redact import Redactor
from segue.core.verdicts import Said
from segue.runner.attempt import Answerer, Cancel, Guarded, Listener, Replies
from segue.store.leases import Lease
from segue.store.records import TurnRow
from segue.store.store import Store
from segue.turns.prepare import Prepared
from segue.turns.recorder import Recorder
from segue.turns.store_outage import StoreOutage

if TYPE_CHECKING:
    from segue.turns.gate import Admission


class Callbacks(msgspec.Struct, frozen=True):
    """The caller's side of a turn: gets the events and notices, answers questions, can cancel."""

    listener: Listener | None
    answerer: Replies
    cancel: Cancel
    notice: Guarded[str]


class Before(msgspec.Struct, frozen=True):
    """How many attempts and events a run had before it was parked."""

    attempts: int = 0
    events: int = 0


NOTHING = Before()


def before_parking(store: Store, row: TurnRow) -> Before:
    events = max((seq for seq, _, _ in store.events(row.id)), default=0)
    return Before(len(store.attempts(row.id)), events)


class StoredTurn:
    """A turn that is stored, under the conversation's lease; it may not have begun."""

    def __init__(
        self,
        prepared: Prepared,
        store: Store,
        row: TurnRow,
        lease: Lease,
        callbacks: Callbacks,
        began_ns: int,
    ) -> None:
        self.prepared, self.store, self.row, self.lease = prepared, store, row, lease
        self.callbacks, self._began_ns = callbacks, began_ns
        self.secrets = prepared.child.secrets
        """What no output may show."""
        self.redactor = Redactor(self.secrets)
        self.audience = Guarded("on_event", callbacks.listener)

    @property
    def patience_s(self) -> float:
        """How long a question waits for its answer."""
        return self.prepared.config.defaults.question_timeout

    @property
    def cancelled(self) -> bool:
        return self.callbacks.cancel.asked > 0

    @property
    def duration_ms(self) -> int:
        return (time.monotonic_ns() - self._began_ns) // 1_000_000


class LiveTurn(StoredTurn):
    """The state of a running turn, which the gate has admitted."""

    def __init__(
        self,
        admission: Admission,
        store: Store,
        lease: Lease,
        callbacks: Callbacks,
        began_ns: int,
        before: Before = NOTHING,
    ) -> None:
        super().__init__(admission.prepared, store, admission.row, lease, callbacks, began_ns)
        self.admission = admission
        self.attempts = before.attempts
        self.recorder = Recorder(store, admission.row.id, self.audience, before.events)
        self.outage = StoreOutage(callbacks.notice, callbacks.cancel)
        """Runs writes to the store, and waits while the store is away."""
        self.notices: list[Said] = [*admission.prepared.mentions]

    async def ask(self, event: Question | Permission, answerer: Answerer | None) -> Answer:
        """Ask the caller, and everybody else who sees the run."""
        from segue.turns.questions import ask  # most turns ask nothing

        return await ask(self, event, answerer)

    async def sent(self, event: Question | Permission) -> None:
        """The agent has been sent the answer."""
        from segue.turns.questions import sent

        await sent(self, event)

    def keep_secret(self, values: tuple[str, ...]) -> None:
        """Also these values must not be shown."""
        if not set(values) <= set(self.secrets):
            self.secrets = tuple(dict.fromkeys((*self.secrets, *values)))
            self.redactor = Redactor(self.secrets)

    def say(self, notice: Said) -> None:
        """Tell the caller now, and in the reply."""
        self.notices.append(notice)
        self.callbacks.notice(notice.text)
