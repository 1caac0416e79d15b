"""Little talks with a store: values with sensible defaults, and a conversation that goes on turn by turn."""

from __future__ import annotations

import itertools
import os
from typing import Any

from segue.core.model import Held, Message, Owner, Pin, Voice, Workdir
from segue.core.turn import Mode, Saved, Sent, State, Turn, status_of
from segue.core.usage import Context, Usage
from segue.store.records import Conversation, Remembered, SessionRow, Settlement, TurnRow
from segue.store.store import Store

CLAUDE, CODEX = Voice("claude"), Voice("codex", "reviewer")
OWNER = Owner(host="here", pid=7, start_time="42", boot_id="b")
_numbers = itertools.count(os.getpid() * 100_000)  # other processes, and fixtures, have other numbers


def new_id(prefix: str = "x") -> str:
    """Sorts by when it was made."""
    return f"{prefix}{next(_numbers):012}"


def message(voice: Voice = CLAUDE, *, sender: Any = "user", **more: Any) -> Message:
    return Message(id=new_id("m"), sender=sender, voice=voice, account="work", under=("claude/work",), **more)


def turn_row(conversation: str, of: Message, at_ms: int = 1000, **more: Any) -> TurnRow:
    return TurnRow(
        id=new_id("t"),
        conversation=conversation,
        message=of.id,
        voice=of.voice,
        account=of.account,
        model="large",
        cwd="/w",
        host="here",
        owner=OWNER,
        started_ms=at_ms,
        **more,
    )


def told(row: TurnRow, text: str, *, mode: Mode = "fresh", state: State = "done") -> Turn:
    return Turn(
        run=row.id,
        conversation="talk",
        agent=row.voice.agent,
        account=row.account,
        model="large",
        mode=mode,
        resumed=mode == "resume",
        session_id="n1",
        sent=Sent(bytes=12),
        text=text,
        message=row.message,
        state=state,
        status=status_of(state) or "failed",
        failure=None,
        usage=Usage(100, 50, 20, 10),
        cost_usd=0.25,
        cost_estimated=False,
        saved=Saved(tokens=5, usd=0.5, against="replay"),
        context=Context(170, 1000),
        model_turns=1,
        tools_run=0,
        attempts=(),
        duration_ms=5,
    )


def session_row(conversation: str | None, **more: Any) -> SessionRow:
    fields: dict[str, Any] = {
        "id": new_id("s"),
        "agent": "claude",
        "account": "work",
        "native_id": new_id("native"),
        "host": "here",
        "home": "/h",
        "cwd": "/w",
        "path": "/h/f.jsonl",
        "conversation": conversation,
        "created_ms": 1000,
        "last_used_ms": 1000,
        "how": "fresh",
    }
    return SessionRow(**fields | more)


def pin_to(session: SessionRow, voice: Voice = CLAUDE, **more: Any) -> Pin:
    return Pin(
        session=session.id,
        native_id=session.native_id,
        voice=voice,
        account="work",
        workdir=Workdir("/w", 1, 2),
        home="/h",
        host="here",
        runtime="claude resume",
        **more,
    )


class Talk:
    """A conversation; each ``say`` is a whole turn unless it is told to stop on the way."""

    def __init__(self, store: Store, key: str = "talk") -> None:
        self.store = store
        self.now_ms = 1000
        self.made = Conversation(
            id=new_id("c"), key=key, agent="claude", cwd="/w", created_ms=1000, updated_ms=1000
        )
        self.id = self.made.id

    def receive(self, text: str, voice: Voice = CLAUDE, **more: Any) -> tuple[Message, TurnRow]:
        self.now_ms += 10
        said = message(voice, **more)
        row = turn_row(self.id, said, self.now_ms)
        self.id = self.store.receive(self.made, said, text, row).id
        return said, row

    def say(self, text: str, answer: str | None = "ok", voice: Voice = CLAUDE, **parts: Any) -> Settlement:
        """A turn from the message to its settlement; without an answer it has failed."""
        _, row = self.receive(text, voice)
        self.store.place(row.id)
        self.store.started(row.id, "fresh", 0.125)
        return self.settle(row, answer, **parts)

    def settle(self, row: TurnRow, answer: str | None = "ok", **parts: Any) -> Settlement:
        self.now_ms += 10
        state: State = "failed" if answer is None else "done"
        reply = None if answer is None else (message(row.voice, sender="assistant"), answer)
        final = TurnRow(
            id=row.id,
            conversation=self.id,
            message=row.message,
            answer=reply[0].id if reply else None,
            voice=row.voice,
            account=row.account,
            model=row.model,
            cwd=row.cwd,
            host=row.host,
            mode="fresh",
            state=state,
            told=told(row, answer or "", state=state),
            owner=row.owner,
            started_ms=row.started_ms,
            ended_ms=self.now_ms,
            predicted_usd=0.125,
        )
        settlement = Settlement(turn=final, answer=reply, **parts)
        assert self.store.settle(settlement)
        return settlement

    def pinned(self, text: str, answer: str, voice: Voice = CLAUDE) -> SessionRow:
        """A turn that leaves a session holding all that was said so far."""
        said, row = self.receive(text, voice)
        self.store.place(row.id)
        session = session_row(self.id, agent=voice.agent)
        before = tuple(Held(m.id, m.revision, f"anchor-{m.id}") for m in self.store.messages(self.id))
        assert before[-1].message == said.id
        self.settle(
            row,
            answer,
            session=session,
            held=before,
            pin=pin_to(session, voice, succeeded_ms=self.now_ms),
            remember=Remembered(agent=voice.agent, account="work", model="large", role=voice.role, cwd="/w"),
        )
        return session

    @property
    def texts(self) -> list[str]:
        """What stands, in order."""
        found = self.store.messages(self.id)
        texts = self.store.texts([m.id for m in found])
        return [texts[m.id] for m in found]

    @property
    def ids(self) -> list[str]:
        return [m.id for m in self.store.messages(self.id)]
