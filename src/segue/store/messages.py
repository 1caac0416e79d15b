"""Messages, with their texts only on request; and the logins they were said under.

A message from before logins were recorded counts as said under the first login of its account.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from segue.core.json_values import decode
from segue.core.model import Attached, Message, MessageKind, NewAttachment, Sender, Voice
from segue.core.usage import Limit, Pays
from segue.core.view import Identity, is_consented, mark_parts, told_apart
from segue.store.database import Queries, Row, Section, storable, to_json

_ATTACHMENTS = Queries("attachments")
_LOGINS = Queries("logins")
_IDENTITIES = Queries("identities")
_SQL = Queries("messages")
_CONVERSATIONS = Queries("conversations")


class Facts(msgspec.Struct, frozen=True, array_like=True):
    """The properties of a message. A conversation has only a few distinct ones, each decoded once."""

    sender: Sender
    agent: str
    role: str = ""
    account: str = ""
    under: tuple[str, ...] = ()
    blank: bool = False
    kind: MessageKind = "said"


class _Seen(dict[str, tuple[Sender, Voice, str, tuple[str, ...], bool, MessageKind]]):
    """Facts by their JSON, each decoded once. ``marks``: completes the marks with their logins."""

    def __init__(self, marks: Callable[[tuple[str, ...]], tuple[str, ...]]) -> None:
        self._marks = marks

    def __missing__(self, text: str) -> tuple[Sender, Voice, str, tuple[str, ...], bool, MessageKind]:
        facts = read_facts(text)
        self[text] = found = (
            facts.sender,
            Voice(facts.agent, facts.role),
            facts.account,
            self._marks(facts.under),
            facts.blank,
            facts.kind,
        )
        return found


class Messages(Section):
    """The messages of a conversation."""

    def messages(self, conversation_id: str) -> list[Message]:
        """The current messages that have their place, in order, without their texts."""
        return self._standing(conversation_id)

    def texts(self, ids: Sequence[str]) -> dict[str, str]:
        """The current texts; unknown messages are left out."""
        return dict(self._db.among(_SQL.texts, ids))

    def identities(self, agent: str, account: str) -> list[Identity]:
        """Who answered under the account, the last one first."""
        return [Identity(*row) for row in self._db.all(_IDENTITIES.of, agent=agent, account=account)]

    def see_identity(
        self, agent: str, account: str, seen: Identity, now_ms: int, earlier: Sequence[str] = ()
    ) -> None:
        """Record who answers now. Of two that would have the same name in marks, the first one keeps it.
        ``earlier``: what its route may be recorded as."""
        fields = {"agent": agent, "account": account, "login": seen.login, "route": seen.route}
        new = {**fields, "mark": seen.mark, "seen_ms": now_ms}
        with self._db.writing():
            if self._db.run(_IDENTITIES.again, **fields, seen_ms=now_ms):
                return
            if not any(self._db.run(_IDENTITIES.take_over, **new, earlier=each) for each in earlier):
                self._db.run(_IDENTITIES.see, **new)

    def address(self, message: Message) -> None:
        """Store the message's voice, account, login and ``blank`` flag."""
        with self._db.writing():
            self._readdress(message)

    def revisions(self, message_id: str) -> list[tuple[int, str, int]]:
        """All revisions of a message: number, text, and since when."""
        return [(n, text, ms) for n, text, ms in self._db.all(_SQL.revisions, message=message_id)]

    def attachments(self, ids: Sequence[str]) -> dict[str, tuple[Attached, ...]]:
        """The attachments of these messages, in order; messages without any are left out."""
        found: dict[str, tuple[Attached, ...]] = {}
        for message, file, name, media_type, size in self._db.among(_ATTACHMENTS.of, ids):
            attached = Attached(id=file, name=name, media_type=media_type, bytes=size)
            found[message] = (*found.get(message, ()), attached)
        return found

    def attachment_in(self, conversation_id: str, file: str) -> Attached | None:
        """An attachment of the conversation by its id, also of a message that was dropped."""
        row = self._db.one(_ATTACHMENTS.in_conversation, conversation=conversation_id, file=file)
        return None if row is None else Attached(id=row[0], name=row[1], media_type=row[2], bytes=row[3])

    def attachment_data(self, file: str) -> bytes | None:
        """The bytes of an attachment; None: they are gone."""
        row = self._db.one(_ATTACHMENTS.data, file=file)
        return None if row is None else bytes(row[0])

    def _attach(self, message_id: str, files: Sequence[NewAttachment]) -> None:
        for n, new in enumerate(files, 1):
            shown = new.shown
            fields = {"file": shown.id, "name": shown.name, "media_type": shown.media_type}
            self._db.run(_ATTACHMENTS.keep, file=shown.id, data=new.data)
            self._db.run(_ATTACHMENTS.add, message=message_id, n=n, size=shown.bytes, **fields)

    def _drop_unused_files(self) -> None:
        """Delete the bytes of attachments that no message has any more."""
        self._db.run(_ATTACHMENTS.drop_unused)

    def _see_logins(self, marks: Iterable[str]) -> None:
        """Record the logins of a message. The first login of an account takes over its older pins."""
        for each in marks:
            if is_consented(each):
                continue
            agent, account, login = mark_parts(each)
            fields = {"agent": agent, "account": account, "login": login}
            if login is not None and self._db.run(_LOGINS.see, **fields):
                self._db.run(_LOGINS.own_pins, **fields)

    def limits(self, agent: str, account: str, login: str) -> list[Limit]:
        """The usage limits of a login, as they were last seen."""
        rows = self._db.all(_LOGINS.limits, agent=agent, account=account, login=login)
        return [Limit(*row) for row in rows]

    def payer(self, agent: str, account: str, login: str) -> Pays:
        """What paid for the last turn of a login."""
        row = self._db.one(_LOGINS.payer, agent=agent, account=account, login=login)
        return "unknown" if row is None else row[0]

    def see_limits(
        self, agent: str, account: str, login: str, limits: Iterable[Limit], pays: Pays, now_ms: int
    ) -> None:
        """Record what a login was told about its usage limits, and what pays."""
        with self._db.writing():
            self._see_limits(agent, account, login, limits, pays, now_ms)

    def _see_limits(
        self, agent: str, account: str, login: str, limits: Iterable[Limit], pays: Pays, now_ms: int
    ) -> None:
        of = {"agent": agent, "account": account, "login": login}
        for each in limits:
            span = {"span": each.window, "used": each.used, "resets_ms": each.resets_at}
            self._db.run(_LOGINS.see_limit, **of, **span, source=each.source, seen_ms=each.seen_ms)
        if pays != "unknown":
            self._db.run(_LOGINS.see_payer, **of, pays=pays, seen_ms=now_ms)

    def _first_login(self, conversation_id: str, agent: str, account: str) -> str | None:
        """The login first seen in the conversation, else anywhere."""
        row = self._db.one(_LOGINS.first, conversation=conversation_id, agent=agent, account=account)
        return None if row is None else str(row[0])

    def _login_marks(self, conversation_id: str, under: tuple[str, ...]) -> tuple[str, ...]:
        """The marks of a message, each with its login if one was seen."""
        return told_apart(under, lambda agent, account: self._first_login(conversation_id, agent, account))

    def _standing(self, conversation_id: str) -> list[Message]:
        return self._light(conversation_id, self._db.all(_SQL.standing, conversation=conversation_id))

    def _light(self, conversation_id: str, rows: Iterable[Row]) -> list[Message]:
        seen = _Seen(lambda under: self._login_marks(conversation_id, under))
        made = []
        for message_id, facts, revision, size in rows:
            sender, voice, account, under, blank, kind = seen[facts]
            made.append(
                Message(
                    id=message_id,
                    sender=sender,
                    voice=voice,
                    revision=revision,
                    account=account,
                    under=under,
                    blank=blank,
                    kind=kind,
                    size=size,
                )
            )
        return made

    def _readdress(self, message: Message) -> None:
        self._see_logins(message.under)
        row = self._db.one(_SQL.address, id=message.id, facts=to_json(_facts_of(message)))
        if row is not None:
            self._db.run(_CONVERSATIONS.rewrite, id=row[0])

    def _insert_messages(
        self, conversation_id: str, said: Iterable[tuple[Message, str, int]], *, first_place: int | None
    ) -> None:
        """Insert messages with their texts and times; placed from ``first_place`` on, or without a place."""
        rows: list[dict[str, Any]] = []
        texts: list[dict[str, Any]] = []
        for offset, (message, given, created_ms) in enumerate(said):
            text = storable(given)
            rows.append(
                {
                    "id": message.id,
                    "conversation": conversation_id,
                    "place": None if first_place is None else first_place + offset,
                    "facts": to_json(_facts_of(message)),
                    "revision": message.revision,
                    "size": len(text.encode()),
                    "created_ms": created_ms,
                }
            )
            texts.append(
                {"message": message.id, "revision": message.revision, "text": text, "created_ms": created_ms}
            )
        self._db.many(_SQL.insert, rows)
        self._db.many(_SQL.revise, texts)

    def _place_message(self, message_id: str) -> None:
        """Place it after all others, if it has no place yet."""
        self._db.run(_SQL.place, id=message_id)

    def _unplace_message(self, message_id: str) -> None:
        """It is not part of the conversation until its run wakes."""
        self._db.run(_SQL.unplace, id=message_id)

    def _rewrite_unplaced(self, message_id: str, given: str) -> None:
        """Another text for a message that no agent has seen yet."""
        text = storable(given)
        self._db.run(_SQL.rewrite_unplaced, id=message_id, size=len(text.encode()))
        self._db.run(_SQL.rewrite_text, message=message_id, text=text)

    def _remove_unplaced(self, message_id: str) -> None:
        """Remove a message that never had a place in the conversation."""
        self._db.run(_SQL.remove_unplaced, id=message_id)


def read_facts(text: str) -> Facts:
    return decode(text, Facts)


def _facts_of(message: Message) -> Facts:
    voice = message.voice
    known = (message.sender, voice.agent, voice.role, message.account, message.under, message.blank)
    return Facts(*known, message.kind)
