"""``--adopt``: a native session that was begun elsewhere becomes a conversation, and is gone on with.

Its messages are imported into our history, and it is pinned as if we had left it where it ends now. A session
that a conversation has pinned already, and that somebody went on with by hand, gives it what is new.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from segue.config.homes import home_of
from segue.config.hosts import host_name
from segue.config.load import load
from segue.core.errors import Misuse
from segue.core.history import account_mark
from segue.core.keys import new_id
from segue.core.model import Held, Message, Pin
from segue.core.transcript import Entry
from segue.core.usage import Context, Totals
from segue.sessions.finding import find
from segue.sessions.listing import Listed
from segue.sessions.places import places
from segue.sessions.tally import is_message
from segue.store.adopting import Adoption
from segue.store.records import SessionRow
from segue.store.store import Store
from segue.turns.asking import Ask
from segue.turns.prepared import Prepared
from segue.turns.survey import workdir_of

_OTHERS = "{} has messages of its own, which the session does not hold; adopt it under another key"


class Said(msgspec.Struct):
    """One message as the session tells it; an answer that came in pieces is one message."""

    sender: str
    text: str
    at_ms: int | None


class Adopted(msgspec.Struct, frozen=True):
    """A session that shall be taken in, and all that was said in it."""

    session: Listed
    said: list[Said]


def told(entries: Iterable[Entry]) -> Iterator[Said]:
    """The dialogue: what the user said, and what the agent said until the user's next word."""
    answer: Said | None = None
    for entry in entries:
        if not is_message(entry):
            continue
        if entry.kind == "assistant" and answer is not None:
            answer.text += "\n\n" + entry.text
            continue
        if answer is not None:
            yield answer
            answer = None
        said = Said(entry.kind, entry.text, entry.at_ms)
        if entry.kind == "assistant":
            answer = said
        else:
            yield said
    if answer is not None:
        yield answer


def found(ask: Ask, env: Mapping[str, str], store: Store, here: Path) -> tuple[Ask, Adopted]:
    """The session that is meant, and the wish with what it brings along: agent, account, directory."""
    assert ask.adopt is not None
    config = load(env, here)
    session = find(places(env, config, home_of(env), store.sessions()), ask.adopt)
    if ask.agent not in (None, session.place.agent):
        raise Misuse(f"the session {session.id} is of {session.place.agent}, not of {ask.agent}")
    known = store.conversation(ask.key)
    mine = store.session(session.place.agent, session.id, host_name(config.store.host))
    owner = store.all_pins().get(mine.id) if mine is not None else None
    if owner not in (None, ask.key):
        raise Misuse(f"the session belongs to the conversation {owner}; go on with it: segue run {owner}")
    if known is not None and store.messages(known.id) and (mine is None or mine.conversation != known.id):
        raise Misuse(_OTHERS.format(ask.key))
    said = list(told(_entries(session)))
    if not said:
        raise Misuse(f"the session {session.id} holds no message that could be taken in")
    account = ask.account or (mine.account if mine is not None else None) or session.place.account
    ask = msgspec.structs.replace(
        ask, agent=session.place.agent, account=account, cwd=_directory(ask, session)
    )
    return ask, Adopted(session, said)


def adopt(prepared: Prepared, store: Store, adopted: Adopted) -> str:
    """Take the session in, under the conversation's lease. What was done, in words."""
    now, session, said = time.time_ns() // 1_000_000, adopted.session, adopted.said
    _same_home(prepared, session)
    pin = store.pin(prepared.conversation.id, prepared.voice, prepared.account_name)
    standing = store.messages(prepared.conversation.id)
    before: Sequence[Held] = ()
    if pin is not None and pin.native_id == session.id:
        said, before = _new(said, store, standing, pin), pin.held
    elif standing:
        raise Misuse(_OTHERS.format(prepared.ask.key))
    rows = [(_message(each, prepared, now), each.text, each.at_ms or now) for each in said]
    adoption = _adoption(prepared, session, pin if before else None, before, rows, now)
    store.adopt(prepared.conversation.id, adoption, now)
    count = f"{len(rows)} message" + ("" if len(rows) == 1 else "s")
    return f"took in {count} of the {prepared.agent.label} session {session.id}"


def _entries(session: Listed) -> Iterator[Entry]:
    for record in session.place.reader.read(session.stored):
        yield from record.entries


def _directory(ask: Ask, session: Listed) -> Path:
    """Where the session was, if that is still there; else where the caller says."""
    if ask.cwd is not None:
        return ask.cwd
    recorded = session.brief.cwd
    if recorded is not None and Path(recorded).is_dir():
        return Path(recorded)
    gone = f"{recorded}, where it was begun, is gone" if recorded else "it does not say where it was begun"
    raise Misuse(f"the session {session.id} needs a directory: {gone}; name one with --cwd")


def _same_home(prepared: Prepared, session: Listed) -> None:
    """The CLI must find it where it looks."""
    there = session.place.home
    private = there.is_relative_to(prepared.segue_home.runners)
    if not private and os.path.realpath(there) != os.path.realpath(prepared.home):
        raise Misuse(
            f"the session lies in {there}, and {prepared.agent.label} would look in {prepared.home};"
            " declare an account with that home in config.toml, and name it with --account"
        )


def _new(said: list[Said], store: Store, standing: Sequence[Message], pin: Pin) -> list[Said]:
    """What came after the last answer that we have of this session."""
    held = {row.message for row in pin.held}
    ours = [each.id for each in standing if each.id in held and each.sender == "assistant"]
    last = store.texts(ours[-1:]).get(ours[-1], "").strip() if ours else ""
    for at in range(len(said) - 1, -1, -1):
        if said[at].sender == "assistant" and last and said[at].text.strip().endswith(last):
            return said[at + 1 :]
    raise Misuse("it cannot be told what is new in the session; adopt it under another key")


def _message(said: Said, prepared: Prepared, now: int) -> Message:
    voice, account = prepared.voice, prepared.account_name
    return Message(
        id=new_id(said.at_ms or now, os.urandom(10)),
        sender="user" if said.sender == "user" else "assistant",
        voice=voice,
        account=account,
        under=(account_mark(voice.agent, account),),
        size=len(said.text.encode("utf-8", "surrogatepass")),
    )


def _adoption(
    prepared: Prepared,
    session: Listed,
    pin: Pin | None,
    before: Sequence[Held],
    rows: Sequence[tuple[Message, str, int]],
    now: int,
) -> Adoption:
    sessions, brief = prepared.agent.sessions, session.brief
    cwd = _cwd(prepared, session)
    found = sessions.look(session.place.home, session.id, cwd) if sessions is not None else None
    end = found.end if found is not None else None
    held = [Held(message.id, message.revision) for message, _, _ in rows]
    if held:
        held[-1] = msgspec.structs.replace(held[-1], anchor=end)
    elif before:  # nothing was said, but the end moved: a title, or a prompt that failed
        held = [msgspec.structs.replace(before[-1], anchor=end)]
    first = len(before) if rows else max(len(before) - 1, 0)
    ours = pin.session if pin is not None else new_id(now, os.urandom(10))
    row = SessionRow(
        id=ours,
        agent=prepared.agent.name,
        account=prepared.account_name,
        native_id=session.id,
        host=prepared.host,
        home=str(session.place.home),
        cwd=str(cwd),
        path=str(session.stored.path),
        conversation=prepared.conversation.id,
        created_ms=brief.created_ms or now,
        last_used_ms=now,
        how="adopt",
        totals=Totals(cost_usd=brief.cost_usd),
        context=Context(brief.context, brief.window),
    )
    made = Pin(
        session=ours,
        native_id=session.id,
        voice=prepared.voice,
        account=prepared.account_name,
        workdir=workdir_of(cwd),
        home=str(session.place.home),
        host=prepared.host,
        runtime=prepared.runtime.identity,
        version=brief.version or prepared.runtime.version,
        model=prepared.request.model,
        model_used=brief.model,
        login=prepared.login,
        end=end,
        totals=row.totals,
        context=row.context,
        succeeded_ms=session.last_used_ms,
    )
    return Adoption(said=rows, session=row, pin=made, held=held, held_from=first)


def _cwd(prepared: Prepared, session: Listed) -> Path:
    """Where the session counts as made: where it was, unless that is gone and the CLI does not mind."""
    recorded = session.brief.cwd
    anywhere = prepared.runtime.capabilities.cwd_scope == "any"
    if recorded is None or (anywhere and not Path(recorded).is_dir()):
        return prepared.request.cwd
    return Path(recorded)
