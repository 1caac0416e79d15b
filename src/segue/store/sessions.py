"""Native sessions, what each of them holds, and the pins that point to them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from segue.core.model import Held, Host, Owner, Pin, Voice
from segue.core.usage import Context, Totals
from segue.store.database import Queries, Row, from_json, to_json
from segue.store.messages import Messages
from segue.store.records import SessionRow

_SQL = Queries("sessions")


class Sessions(Messages):
    """Native sessions and pins, of one conversation or of all."""

    def session(self, agent: str, native_id: str, host: Host) -> SessionRow | None:
        rows = map(_session_of, self._db.all(_SQL.by_native_id, agent=agent, native_id=native_id))
        return next(filter(host.has, rows), None)

    def sessions(self, conversation_id: str | None = None) -> list[SessionRow]:
        """Those of one conversation, or all; the last used first."""
        if conversation_id is None:
            rows = self._db.all(_SQL.every)
        else:
            rows = self._db.all(_SQL.of, conversation=conversation_id)
        return [_session_of(row) for row in rows]

    def pin(
        self, conversation_id: str, voice: Voice, account: str, login: str | None = None, *, held: bool = True
    ) -> Pin | None:
        """The pin of a voice, with what its session holds unless ``held`` is false; None if it is unreadable.

        A pin from before logins were recorded belongs to the login that was seen first.
        """
        who = {"role": voice.role, "agent": voice.agent, "account": account}
        with self._db.reading():
            row = self._db.one(_SQL.pinned, conversation=conversation_id, login=login or "", **who)
            pin = None if row is None else pin_of(row)
            if pin is not None and pin.login is None and login is not None:
                first = self._first_login(conversation_id, voice.agent, account)
                pin = msgspec.structs.replace(pin, login=login) if first in (None, login) else None
            if pin is None or not held:
                return pin
            return msgspec.structs.replace(pin, held=self.held_by(pin.session))

    def pins(self, conversation_id: str) -> list[Pin]:
        """All pins, without what their sessions hold; the newest success first."""
        rows = self._db.all(_SQL.pins, conversation=conversation_id)
        return [pin for row in rows if (pin := pin_of(row)) is not None]

    def note_session(self, session: SessionRow) -> None:
        """Store a session that no turn made and that belongs to no conversation yet."""
        with self._db.writing():
            self._save_session(session)

    def all_pins(self) -> dict[str, str]:
        """Our ids of the pinned sessions, each with the key of its conversation."""
        return dict(self._db.all(_SQL.every_pin))

    def tried(self, host: Host) -> set[tuple[str, str]]:
        """(agent, native id) of every session that a turn of ours began on a host."""
        return {
            (agent, native_id)
            for agent, native_id, owner in self._db.all(_SQL.tried)
            if (maker := from_json(owner, Owner)) is not None and host.has(maker)
        }

    def pinned_by(self, agent: str, native_id: str) -> str | None:
        """The key of a conversation that would continue a session, on any host."""
        row = self._db.one(_SQL.pinned_by, agent=agent, native_id=native_id)
        return None if row is None else str(row[0])

    def pinned_homes(self) -> list[str]:
        """The homes of all pinned sessions, on any host."""
        return [home for (home,) in self._db.all(_SQL.pinned_homes)]

    def under_way(self) -> set[tuple[str, str]]:
        """(agent, native id) of the sessions with running attempts, on any host."""
        rows = self._db.all(_SQL.under_way)
        return {(agent, native) for agent, *ids in rows for native in ids if native is not None}

    def session_by_id(self, session_id: str) -> SessionRow | None:
        row = self._db.one(_SQL.by_id, id=session_id)
        return None if row is None else _session_of(row)

    def _save_session(self, session: SessionRow) -> None:
        fields = msgspec.structs.asdict(session)
        fields |= {
            "intended": int(session.intended),
            "totals": to_json(session.totals),
            "context": to_json(session.context),
        }
        self._db.run(_SQL.save, **fields)

    def _retire_session(self, session_id: str, reason: str, now_ms: int) -> None:
        self._db.run(_SQL.retire, id=session_id, reason=reason, now_ms=now_ms)

    def held_by(self, session_id: str) -> tuple[Held, ...]:
        rows = self._db.all(_SQL.held, session=session_id)
        return tuple([Held(m, r, anchor, second == 1, mends == 1) for m, r, anchor, second, mends in rows])

    def _hold(self, session_id: str, first: int, items: Iterable[Held]) -> None:
        """Replace what the session holds from ``first`` on."""
        self._db.run(_SQL.let_go, session=session_id, seq=first)
        rows = [
            {
                "session": session_id,
                "seq": seq,
                "message": item.message,
                "revision": item.revision,
                "anchor": item.anchor,
                "second_hand": int(item.second_hand),
                "correction": int(item.correction),
            }
            for seq, item in enumerate(items, first)
        ]
        self._db.many(_SQL.hold, rows)

    def _save_pin(self, conversation_id: str, pin: Pin) -> None:
        self._db.run(
            _SQL.pin,
            conversation=conversation_id,
            role=pin.voice.role,
            agent=pin.voice.agent,
            account=pin.account,
            login=pin.login or "",
            session=pin.session,
            succeeded_ms=pin.succeeded_ms,
            made_under=to_json(msgspec.structs.replace(pin, held=())),
        )


def pin_of(row: Row) -> Pin | None:
    login, text = row
    pin = from_json(text, Pin)
    return None if pin is None else msgspec.structs.replace(pin, login=login or None)


def _session_of(row: Row) -> SessionRow:
    fields = dict(zip(SessionRow.__struct_fields__, row, strict=True))
    fields |= {
        "intended": fields["intended"] == 1,
        "totals": from_json(fields["totals"], Totals) or Totals(),
        "context": from_json(fields["context"], Context) or Context(),
    }
    return SessionRow(**fields)
