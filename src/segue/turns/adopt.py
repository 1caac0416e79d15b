"""``--adopt``: continues a native session that was begun outside Segue as a conversation.

Its messages are imported into our history, and it is pinned as if we had left it where it ends now. If a
conversation has already pinned the session and it was continued outside Segue, the new messages are imported.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from segue.agents.base import entries_of
from segue.config.home import home_of, this_host
from segue.config.schema import Config
from segue.core.errors import InUse, Misuse
from segue.core.model import Held, Message, Pin
from segue.core.transcript import Entry
from segue.core.usage import Context, Totals
from segue.sessions.agent_homes import agent_homes
from segue.sessions.catalog import find_session
from segue.sessions.listing import Listed
from segue.sessions.reading import SessionMessage, in_force, own_words, session_dialogue
from segue.store.forks import Adoption
from segue.store.records import SessionRow
from segue.store.store import Store
from segue.system import clock
from segue.turns.marks import marks_of
from segue.turns.prepare import Prepared
from segue.turns.request import NONE, TurnRequest
from segue.turns.situation import workdir_of

TRIES = 3
"""How often a session that is being written is read."""
_OTHERS = "{} has messages that the session does not hold; adopt it under another key"


def find_adoptable(
    ask: TurnRequest, env: Mapping[str, str], store: Store, config: Config
) -> tuple[TurnRequest, Listed]:
    """The session, and the request completed with its agent, account and directory."""
    assert ask.adopt is not None
    home = home_of(env)
    host = this_host(config.store.host, home)
    rows = [row for row in store.sessions() if host.has(row)]
    named = None if ask.account == NONE else ask.account  # a queued run says that it has none
    session = find_session(agent_homes(env, config, home, rows), ask.adopt, named)
    if ask.agent not in (None, session.place.agent):
        raise Misuse(f"the session {session.id} belongs to {session.place.agent}, not to {ask.agent}")
    if session.stored.size > config.continuity.max_session_mb << 20:
        name, limit = session.id[:8], config.continuity.max_session_mb
        raise Misuse(
            f"the session is larger than {limit} MB ([continuity] max_session_mb); to make a smaller copy of"
            f" it: segue sessions repair {name} --trim"
        )
    stored = store.session(session.place.agent, session.id, host)
    owner = store.all_pins().get(stored.id) if stored is not None else None
    if owner not in (None, ask.conversation):
        raise Misuse(f"the session belongs to the conversation {owner}; continue that: segue run {owner}")
    conversation = store.conversation(ask.conversation)
    if (
        conversation is not None
        and store.messages(conversation.id)
        and (stored is None or stored.conversation != conversation.id)
    ):
        raise Misuse(_OTHERS.format(ask.conversation))
    if session.brief.empty:
        raise Misuse(_nothing(session))
    ours = (stored.account or NONE) if stored is not None and stored.conversation is not None else None
    account = ask.account or ours or session.place.account
    return msgspec.structs.replace(
        ask,
        agent=session.place.agent,
        account=account,
        cwd=_directory(ask, session),
        given=tuple(sorted({*ask.given, *_words_in(store, session, stored)})),
        consent="user" if _names_another(ask, stored) else ask.consent,
    ), session


def _words_in(store: Store, session: Listed, stored: SessionRow | None) -> tuple[str, ...]:
    """Whose words the session has, as far as Segue wrote it, or the session that it was copied from."""
    account = stored.account if stored is not None and stored.how != "repair" else None
    found = set(store.marks.of_session(session.place.agent, session.id, account))
    seen = {session.id}
    while stored is not None and stored.parent is not None:
        stored = store.session_by_id(stored.parent)
        if stored is None or stored.native_id in seen:
            break
        seen.add(stored.native_id)
        found.update(store.marks.of_session(stored.agent, stored.native_id, stored.account))
    return tuple(found)


def _names_another(ask: TurnRequest, stored: SessionRow | None) -> bool:
    """Whether the user names another account for a session than it was written under."""
    if ask.account is None or stored is None:
        return False
    return (ask.account if ask.account != NONE else "") != stored.account


def adopted_in_words(prepared: Prepared, adoption: Adoption, session: Listed) -> str:
    count = f"{len(adoption.said)} message" + ("" if len(adoption.said) == 1 else "s")
    return f"adopted {count} of the {prepared.agent.facts.label} session {session.id}"


def adoption_of(prepared: Prepared, store: Store, session: Listed) -> Adoption:
    """What would be imported. Nothing is written."""
    _same_home(prepared, session)
    entries, end = _read(prepared, session)
    pin = store.pin(prepared.conversation.id, prepared.voice, prepared.account_name, prepared.login)
    standing = store.messages(prepared.conversation.id)
    if pin is not None and pin.native_id == session.id:
        taken = _Taken(prepared, store, _since(prepared, entries, pin), pin.held, standing)
    elif standing:
        raise Misuse(_OTHERS.format(prepared.ask.conversation))
    else:
        taken = _Taken(prepared, store, list(session_dialogue(in_force(entries))), (), ())
        if not taken.rows:
            raise Misuse(_nothing(session))
    return _adoption(prepared, session, pin, taken, end, clock.now_ms())


def _read(prepared: Prepared, session: Listed) -> tuple[list[Entry], str | None]:
    """All its entries and the anchor at its end, read while it did not change."""
    place = session.place
    for _ in range(TRIES):
        before = place.find(session.id)
        resumable = place.format.find(place.home, session.id, _cwd(prepared, session))
        if before is None or resumable is None:
            raise Misuse(f"the session {session.id} is gone")
        end = place.format.end(resumable)
        entries = list(entries_of(place.archive, before))
        after = place.find(session.id)
        if after is not None and (after.changed_ns, after.size) == (before.changed_ns, before.size):
            return entries, end
    raise InUse(f"the session {session.id} is being written to just now; try again when its agent is done")


def _since(prepared: Prepared, entries: Iterable[Entry], pin: Pin) -> list[SessionMessage]:
    """The messages after the place where we left it."""
    archive = prepared.agent.archive()
    if archive is None or pin.end is None:
        raise Misuse("Segue cannot tell what is new in the session; adopt it under another key")
    behind = archive.after(pin.end)
    new = [entry for entry in in_force(list(entries)) if behind(entry)]
    if not behind.found:
        raise Misuse(
            "the session no longer contains the point where Segue left it; adopt it under another key"
        )
    return list(session_dialogue(new))


class _Taken:
    """What is added to the conversation, and what the session holds after that."""

    def __init__(
        self,
        prepared: Prepared,
        store: Store,
        said: Sequence[SessionMessage],
        held: Sequence[Held],
        standing: Sequence[Message],
    ) -> None:
        now = clock.now_ms()
        self.held, self.first = list(held), len(held)
        self.rows: list[tuple[Message, str, int]] = []
        known = {row.message for row in held}
        not_held = [each for each in standing if each.id not in known and each.sender == "user"]
        texts = store.texts([each.id for each in not_held])
        for each in said:
            words = own_words(each)
            ours = next((m for m in not_held if _is_ours(each, words, texts[m.id])), None)
            if ours is not None:  # our own prompt that failed and was left in the session
                not_held.remove(ours)
                self.held.append(Held(ours.id, ours.revision))
                continue
            message = _message(each, words, prepared, now)
            self.rows.append((message, words, each.at_ms or now))
            self.held.append(Held(message.id, message.revision))

    def ending(self, end: str | None) -> tuple[list[Held], int]:
        """What is held and from which row on, with the anchor at its end."""
        first = min(self.first, max(len(self.held) - 1, 0))
        held = self.held[first:]
        if held:
            held[-1] = msgspec.structs.replace(held[-1], anchor=end)
        return held, first


def _is_ours(said: SessionMessage, words: str, ours: str) -> bool:
    """Whether it is our whole message: alone, or as the last part of a prompt that we composed.

    Some CLIs trim what they store.
    """
    return said.sender == "user" and ours.strip() in (said.text.strip(), words.strip())


def _nothing(session: Listed) -> str:
    return f"the session {session.id} has no message to adopt"


def _directory(ask: TurnRequest, session: Listed) -> str:
    """The directory that the caller names, else that of the session if it still exists."""
    if ask.cwd is not None:
        return ask.cwd
    recorded = session.brief.cwd
    if recorded is not None and Path(recorded).is_dir():
        return recorded
    gone = (
        f"{recorded}, where it was started, no longer exists"
        if recorded
        else "it does not say where it was started"
    )
    raise Misuse(f"the session {session.id} needs a directory: {gone}; name one with --cwd")


def _same_home(prepared: Prepared, session: Listed) -> None:
    """Raise ``Misuse`` unless the CLI finds it: in the account's home, or in a private one made from it."""
    there = session.place.home
    private = prepared.segue_home.runners / f"{prepared.agent.facts.name}-{prepared.account or 'default'}"
    if there.is_relative_to(private) or os.path.realpath(there) == os.path.realpath(prepared.home):
        return
    raise Misuse(
        f"{prepared.agent.facts.label} would look in {prepared.home}, but the session is in {there};"
        " choose the account that has this home with --account, or declare one in config.toml"
    )


def _message(said: SessionMessage, words: str, prepared: Prepared, now: int) -> Message:
    return Message(
        id=clock.new_id(said.at_ms or now),
        sender="user" if said.sender == "user" else "assistant",
        voice=prepared.voice,
        account=prepared.account_name,
        under=marks_of(prepared),
        size=len(words.encode("utf-8", "surrogatepass")),
    )


def _adoption(
    prepared: Prepared, session: Listed, pin: Pin | None, taken: _Taken, end: str | None, now: int
) -> Adoption:
    same = pin if pin is not None and pin.native_id == session.id else None
    held, first = taken.ending(end)
    row = _session_row(prepared, session, same.session if same is not None else clock.new_id(now), now)
    return Adoption(
        said=taken.rows,
        session=row,
        pin=_pin(prepared, session, row, same, end),
        held=held,
        held_from=first,
    )


def _session_row(prepared: Prepared, session: Listed, ours: str, now: int) -> SessionRow:
    brief = session.brief
    return SessionRow(
        id=ours,
        agent=prepared.agent.facts.name,
        account=prepared.account_name,
        native_id=session.id,
        host=prepared.host.name,
        host_id=prepared.host.id,
        home=str(session.place.home),
        cwd=str(_cwd(prepared, session)),
        path=session.stored.file,
        conversation=prepared.conversation.id,
        created_ms=brief.created_ms or now,
        last_used_ms=now,
        how="adopt",
        totals=Totals(cost_usd=brief.cost_usd),
        context=Context(brief.context, brief.window),
    )


def _pin(prepared: Prepared, session: Listed, row: SessionRow, same: Pin | None, end: str | None) -> Pin:
    """``same``: the existing pin of the session, if there is one."""
    return Pin(
        session=row.id,
        native_id=session.id,
        voice=prepared.voice,
        account=prepared.account_name,
        workdir=workdir_of(_cwd(prepared, session)),
        home=row.home,
        host=row.host,
        host_id=row.host_id,
        runtime=prepared.runtime.identity,
        version=session.brief.version or prepared.runtime.version,
        model=prepared.request.model,
        model_used=session.brief.model,
        login=prepared.login,
        end=end,
        totals=row.totals,
        context=row.context,
        instructions=same.instructions if same is not None else None,
        questions=same.questions if same is not None else prepared.request.questions,
        succeeded_ms=session.last_used_ms,
    )


def _cwd(prepared: Prepared, session: Listed) -> Path:
    """The session's directory: as recorded, unless that is gone and the CLI can resume it elsewhere."""
    recorded = session.brief.cwd
    anywhere = prepared.runtime.capabilities.cwd_scope == "any"
    if recorded is None or (anywhere and not Path(recorded).is_dir()):
        return prepared.request.cwd
    return Path(recorded)
