"""A conversation, and what an agent's own session embodies of it: frozen values, no behaviour.

Segue's copy of the conversation is the truth; a native session is only a cache of it. ``held`` says how
much of the conversation that cache embodies, and a ``Pin`` points to it with all it was made under.

Which host something is on: an id that stays when the host is renamed, and a name for people.
"""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from segue.core.usage import Context, Totals


class OnHost(Protocol):
    """What lies on a host: a pin, a session, a copy, a process. Rows of older stores know the name alone."""

    @property
    def host(self) -> str: ...
    @property
    def host_id(self) -> str | None: ...


class Host(msgspec.Struct, frozen=True):
    """Whoever shares a store: one home of Segue, with all that lies beside it."""

    name: str
    id: str | None = None
    """None: nobody can tell; then the name has to do."""

    def has(self, thing: OnHost) -> bool:
        """Whether it is here. Two hosts may have one name, and one host another name than before."""
        if self.id is None or thing.host_id is None:
            return self.name == thing.host
        return self.id == thing.host_id


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The process that runs a turn or holds a lease: its number alone may be another's by now.

    Numbers mean something only where machine, boot and PID namespace are the same.
    """

    host: str
    host_id: str | None = None
    pid: int
    start_time: str | None = None
    machine: str | None = None
    boot_id: str | None = None
    pid_ns: str | None = None


Sender = Literal["user", "assistant"]
History = Literal["all", "own"]


class Voice(msgspec.Struct, frozen=True, order=True):
    """Who speaks in a conversation: another (agent, role) is another voice."""

    agent: str
    role: str = ""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message as it stands now, without its text (that is read when it is needed).

    ``voice`` is who said it, or to whom the user said it. ``under`` names the logins whose words it may
    repeat (see ``marks``): its own, and for an answer those of all that the agent had before it.
    """

    id: str
    sender: Sender
    voice: Voice
    revision: int = 1
    account: str = ""
    under: tuple[str, ...] = ()
    blank: bool = False
    """A user message that started its voice over from nothing."""
    size: int = 0
    """Of its text, in bytes."""


class Held(msgspec.Struct, frozen=True):
    """One delivery to a native session: a message as it came in, and the anchor where it ends, if any.

    A ``correction`` told a session that holds the message second-hand what it reads now.
    """

    message: str
    revision: int
    anchor: str | None = None
    second_hand: bool = False
    """It came in as text, because another voice said it."""
    correction: bool = False


class Workdir(msgspec.Struct, frozen=True):
    """A directory by its identity: the resolved path, and the device and inode where they are known."""

    path: str
    device: int | None = None
    inode: int | None = None


class Instructions(msgspec.Struct, frozen=True):
    """The instructions a native session was given: their hash, and how much it held before that."""

    hash: str
    at: int = 0


class Ended(msgspec.Struct, frozen=True):
    """How the last attempt on a session ended, if not well."""

    kind: str
    tools_run: int | None = 0
    """None: nobody knows."""
    message: str = ""


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """The pointer (conversation, role, agent, account, login) → native session, and how it was made."""

    session: str
    """Our own id of the native session."""
    native_id: str
    voice: Voice
    account: str = ""
    workdir: Workdir
    home: str
    """The CLI's home that holds the session."""
    host: str
    host_id: str | None = None
    runtime: str
    """The identity of the program that wrote it."""
    version: str | None = None
    model: str | None = None
    """The model that was asked for; None: the CLI's own choice."""
    model_used: str | None = None
    login: str | None = None
    """A fingerprint of who was logged in, or ``unknown``; None: made before that was noted."""
    epoch: int = 0
    end: str | None = None
    """The anchor at which we left the session's file."""
    totals: Totals = Totals()
    context: Context = Context()
    instructions: Instructions | None = None
    failures: int = 0
    """Failing resumes in a row."""
    poisoned: str | None = None
    """Why the session's end cannot be resumed any more."""
    ended: Ended | None = None
    asked: bool = False
    """The agent asked the user a question in its last turn."""
    offers: tuple[str, ...] | None = None
    """What of the last turn's request shaped the set of tools that the model is shown; None: unknown."""
    questions: bool | None = None
    """Whether the agent may ask the user; None: from before that could be said, so it may."""
    foreign: str | None = None
    """The key of the conversation that the session belongs to, when this one is a fork of it."""
    succeeded_ms: int = 0
    """The end of the last turn that went well."""
    held: tuple[Held, ...] = ()
