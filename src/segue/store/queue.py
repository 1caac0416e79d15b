"""The queue: runs that wait for their turn, for a time, or for an answer of the user.

A run that is queued is driven by a daemon. It outlives the process that accepted it: what was asked for is
stored with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from segue.core.model import Message, NewAttachment, Owner
from segue.store.database import Queries, to_json
from segue.store.questions import QuestionRow, Questions
from segue.store.records import QUEUED, Conversation, QueuedRow, Receipt, Settlement, TurnRow
from segue.store.turns import turn_of

_SQL = Queries("queue")


class Queue(Questions):
    """Every change of state is made only if the state is still what the caller knows."""

    def enqueue(
        self,
        conversation: Conversation,
        message: Message,
        text: str,
        turn: TurnRow,
        request: str,
        *,
        receipt: Receipt | None = None,
        not_before_ms: int | None = None,
        files: Sequence[NewAttachment] = (),
        answers: QuestionRow | None = None,
    ) -> Conversation:
        """Store a message and its run, at the end of the conversation's line. As ``receive``.

        ``answers``: the question that the message answers, with the answer. ``Conflict``: it has one.
        """
        with self._db.writing():
            if answers is not None:
                self._carry(answers, turn.id)
            stored = self.receive(conversation, message, text, turn, receipt, files)
            self._enqueue(turn.id, request, not_before_ms)
        return stored

    def enqueue_retry(
        self, turn: TurnRow, request: str, *, receipt: Receipt | None = None, not_before_ms: int | None = None
    ) -> None:
        """The same for a message that is stored already. As ``add_retry``."""
        with self._db.writing():
            self.add_retry(turn, receipt)
            self._enqueue(turn.id, request, not_before_ms)

    def queued(self, run: str) -> QueuedRow | None:
        """What the queue knows of a run, whatever its state."""
        row = self._db.one(_SQL.of, id=run)
        return None if row is None else QueuedRow(*row)

    def line(self, conversation: str | None = None) -> list[QueuedRow]:
        """The runs that wait, in order; of one conversation, or of all."""
        rows = (
            self._db.all(_SQL.lines)
            if conversation is None
            else self._db.all(_SQL.line, conversation=conversation)
        )
        return [QueuedRow(*row) for row in rows]

    def ahead(self, run: str) -> list[TurnRow]:
        """The runs that can start before this one, queued or waited for. Behind a parked or held one, only
        those can that somebody waits for."""
        rows, stopped = [], False
        for *row, held_by in self._db.all(_SQL.ahead, run=run):
            each = turn_of(tuple(row))
            stopped = stopped or each.state == "parked" or held_by is not None
            if each.state == "queued" and not (stopped and each.via == QUEUED):
                rows.append(each)
        return rows

    def limited(self, run: str) -> list[TurnRow]:
        """The other unsettled runs that met a limit of the same agent and account, the oldest first."""
        return [turn_of(row) for row in self._db.all(_SQL.limited, id=run)]

    def let_go(self, conversation: str) -> bool:
        """What a failed run holds up goes on. False: nothing was held up."""
        return self._db.run(_SQL.let_go, conversation=conversation) > 0

    def begun(self) -> list[QueuedRow]:
        """The runs of all conversations that have begun and are not settled."""
        return [QueuedRow(*row) for row in self._db.all(_SQL.begun)]

    def count_unfinished(self) -> dict[str, int]:
        """How many runs there are in each state that is not an end, in all conversations."""
        return {str(state): int(count) for state, count in self._db.all(_SQL.counts)}

    def reorder(self, runs: Sequence[str]) -> None:
        """These runs of one line exchange their places, so that they stand in this order."""
        with self._db.writing():
            now = {run: row for run in runs if (row := self.queued(run)) is not None}
            places = sorted(row.place or 0 for row in now.values())
            moved = [{"id": run, "place": n} for run, n in zip(now, places, strict=True)]
            moved.sort(key=lambda row: str(row["id"]))  # two that do this at once lock the rows in one order
            self._db.many(_SQL.give_place, moved)

    def change_queued(self, row: QueuedRow, text: str, request: str) -> bool:
        """Another text for a run that waits. False: it has begun."""
        with self._db.writing():
            if not self._db.run(_SQL.change, id=row.id, request=request):
                return False
            self._rewrite_unplaced(row.message, text)
        return True

    def drive(self, run: str, owner: Owner) -> bool:
        """From now on this process drives it. False: it waits no longer."""
        return self._db.run(_SQL.own, id=run, owner=to_json(owner)) == 1

    def wake(self, row: QueuedRow, via: str | None = None) -> bool:
        """Put a parked run back in line. False: it is not parked any more, or until another time.

        ``via``: a process waits for it, and runs it. Unless that is ``QUEUED``, it leaves the queue."""
        if row.not_before_ms is None:
            return self._stop_waiting(row.id)
        return self._db.run(_SQL.wake, id=row.id, not_before_ms=row.not_before_ms, via=via) == 1

    def back_in_line(self, run: str, *, leaves: bool) -> bool:
        """A run whose process died before an attempt was planned waits again. False: an attempt was.

        ``leaves``: its message leaves the conversation until it begins."""
        with self._db.writing():
            if not self._db.run(_SQL.back, id=run):
                return False
            if leaves:
                self._unplace_message(self._must(run).message)
        return True

    def wait_for_user(self, row: QueuedRow, name: str, question: str) -> bool:
        """The first run of a line cannot start before the user has done something. ``question``: JSON."""
        with self._db.writing():
            if not self._db.run(_SQL.wait_for_user, id=row.id):
                return False
            self._ask(row.id, name, question)
        return True

    def ask_parked(self, conversation: str, name: str, question: str) -> bool:
        """Whether runs of the conversation were parked by a limit. They wait for the user from now on, who
        has said something else. ``question``: JSON."""
        with self._db.writing():
            found = [run for (run,) in self._db.all(_SQL.parked_before, conversation=conversation)]
            for run in found:
                self._db.run(_SQL.park_for_answer, id=run)
                self._ask(run, name, question)
        return bool(found)

    def go_on_parked(self, run: str, name: str, until_ms: int | None) -> bool:
        """The user wants such a run to go on. ``until_ms``: it stays parked until then. False: it was
        answered before."""
        state: Literal["queued", "parked"] = "queued" if until_ms is None else "parked"
        with self._db.writing():
            if not self._change_question(run, name, "open", "over"):
                return False
            return self._db.run(_SQL.go_on_parked, id=run, state=state, until_ms=until_ms) == 1

    def _stop_waiting(self, run: str) -> bool:
        """Try again to start a run that needed something."""
        with self._db.writing():
            if not self._db.run(_SQL.stop_waiting, id=run):
                return False
            self._close_questions(run)
        return True

    def _settle_line(self, settlement: Settlement) -> None:
        """Park the run, or tell the runs behind it how it ended."""
        turn, parking = settlement.turn, settlement.parking
        if parking is not None:
            until_ms = parking.until_ms
            self._db.run(_SQL.park, id=turn.id, request=parking.request, not_before_ms=until_ms)
            self._db.run(_SQL.put_off, id=turn.id, until_ms=until_ms)
            if parking.leaves:
                self._unplace_message(turn.message)
        elif settlement.hold and turn.state != "done":
            self._db.run(_SQL.hold, conversation=turn.conversation, run=turn.id)
        elif turn.state == "done" and turn.retry_of is not None:
            self._db.run(_SQL.put_right, conversation=turn.conversation, run=turn.retry_of)

    def _enqueue(self, run: str, request: str, not_before_ms: int | None) -> None:
        state: Literal["queued", "parked"] = "queued" if not_before_ms is None else "parked"
        self._db.run(
            _SQL.enqueue,
            id=run,
            request=request,
            not_before_ms=not_before_ms,
            state=state,
        )
