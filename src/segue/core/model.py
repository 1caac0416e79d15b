"""A conversation, and what an agent's own session contains of it: frozen values, no behaviour.

Segue's copy of the conversation is the truth; a native session is only a cache of it. ``held`` says how
much of the conversation that cache contains. A ``Pin`` points to the session and records the conditions it
was made under.

A host has an id that stays when the host is renamed, and a name for people.
"""

from typing import Literal, Protocol

import msgspec

from segue.core.usage import Context, Totals

TITLE_LENGTH = 200


class OnHost(Protocol):
    """Anything on a host: a pin, a session, a copy, a process. Rows of older stores have only the name."""

    @property
    def host(self) -> str: ...
    @property
    def host_id(self) -> str | None: ...


class Host(msgspec.Struct, frozen=True):
    """One of those that share a store: a home of Segue, with everything beside it."""

    name: str
    id: str | None = None
    """None: unknown, so hosts are compared by name."""

    def has(self, thing: OnHost) -> bool:
        """Whether it is on this host. Two hosts may share a name, and a host may have been renamed."""
        if self.id is None or thing.host_id is None:
            return self.name == thing.host
        return self.id == thing.host_id


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The process that runs a turn or holds a lease. Its PID alone may have been reused by now.

    PIDs can be compared only if machine, boot and PID namespace are the same.
    """

    host: str
    host_id: str | None = None
    pid: int
    start_time: str | None = None
    machine: str | None = None
    boot_id: str | None = None
    pid_ns: str | None = None


Sender = Literal["user", "assistant"]
MessageKind = Literal["said", "carried"]
History = Literal["all", "own"]


class Voice(msgspec.Struct, frozen=True, order=True):
    """Who speaks in a conversation: an agent in a role."""

    agent: str
    role: str = ""


class Attached(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was sent with a message. ``id``: the SHA-256 of its bytes."""

    name: str
    media_type: str
    """What its bytes are, whatever its name says."""
    bytes: int
    id: str


class NewAttachment(msgspec.Struct, frozen=True):
    """An attachment that is checked and not stored yet."""

    shown: Attached
    data: bytes


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message in its current revision, without its text (which is read when it is needed).

    ``voice`` is who said it, or to whom the user said it. ``under`` names the logins whose words it may
    repeat (see ``core/view.py``): its own, and for an answer those of all the messages the agent was given.
    """

    id: str
    sender: Sender
    voice: Voice
    revision: int = 1
    account: str = ""
    under: tuple[str, ...] = ()
    blank: bool = False
    """A user message that started its voice over, without history."""
    kind: MessageKind = "said"
    """``carried``: what was said under another account, as a block of text that stands for it here."""
    size: int = 0
    """The size of its text in bytes."""


class Held(msgspec.Struct, frozen=True):
    """One delivery to a native session: a message as it was delivered, and the anchor where it ends, if any.

    A ``correction`` gave a session that holds the message second-hand its new text.
    """

    message: str
    revision: int
    anchor: str | None = None
    second_hand: bool = False
    """It was delivered as text, because another voice said it."""
    correction: bool = False


class Workdir(msgspec.Struct, frozen=True):
    """A directory by its identity: the resolved path, and the device and inode if they are known."""

    path: str
    device: int | None = None
    inode: int | None = None


class Instructions(msgspec.Struct, frozen=True):
    """The instructions a native session was given: their hash, and how many deliveries came before."""

    hash: str
    at: int = 0


class Ended(msgspec.Struct, frozen=True):
    """How the last attempt on a session failed."""

    kind: str
    tools_run: int | None = 0
    """None: unknown."""
    message: str = ""


class Pin(msgspec.Struct, frozen=True, kw_only=True):
    """The pointer (conversation, role, agent, account, login) → native session, and its conditions."""

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
    """A fingerprint of who was logged in, or ``unknown``; None: made before logins were recorded."""
    epoch: int = 0
    end: str | None = None
    """The anchor at which we left the session's file."""
    totals: Totals = Totals()
    context: Context = Context()
    instructions: Instructions | None = None
    failures: int = 0
    """Failing resumes in a row."""
    poisoned: str | None = None
    """Why the session can no longer be resumed at its end."""
    ended: Ended | None = None
    asked: bool = False
    """The agent asked the user a question in its last turn."""
    offers: tuple[str, ...] | None = None
    """What in the last turn's request determined the tools that the model is shown; None: unknown."""
    questions: bool | None = None
    """Whether the agent can ask the user; None: made before this was configurable, so it can."""
    foreign: str | None = None
    """The key of the conversation that the session belongs to, if this one is a fork of it."""
    succeeded_ms: int = 0
    """When the last successful turn ended."""
    held: tuple[Held, ...] = ()


def title_of(text: str) -> str:
    """What a conversation that begins like this is called: the first paragraph, on one line."""
    return " ".join(text.strip().partition("\n\n")[0].split())[:TITLE_LENGTH]
