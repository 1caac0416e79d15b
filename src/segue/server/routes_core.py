"""Routes for conversations: list, read, change, carry elsewhere. And for agents and the set-up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any, Literal, cast

import msgspec
from starlette.responses import Response, StreamingResponse

from segue import AgentShown, ConversationShown, LogMessage, Options, SetupFinding, Turn, Undone, Why
from segue.core.request import Posture, Questions
from segue.server.endpoint import MESSAGE_BYTES, Call, Endpoint

CONVERSATIONS = "/api/v1/conversations"
ONE = f"{CONVERSATIONS}/{{key}}"
CHUNK = 1 << 16
POLL_S = 0.25
LARGEST_IMPORT = 64 << 20
EXPORTS = {"json": "application/json", "markdown": "text/markdown; charset=utf-8"}
Text = Annotated[str, msgspec.Meta(min_length=1)]


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``before``: ``LAST_USED:KEY`` of the last one of a page, for the page after it. No limit: all."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=1000)] | None = None
    before: Text | None = None


class PlanQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The turn to plan. What is left out is taken as ``run`` would take it. ``retry_of``: a retry of that
    message, instead of ``text``."""

    text: str = ""
    agent: str | None = None
    account: str | None = None
    model: str | None = None
    role: str | None = None
    cwd: str | None = None
    fresh_session: bool = False
    blank: bool = False
    permission: Posture | None = None
    allow_tools: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()
    max_turns: int | None = None
    budget: float | Literal["none"] | None = None
    questions: Questions | None = None
    fork: bool = False
    adopt: str | None = None
    retry_of: str | None = None
    cut: bool = False

    @property
    def options(self) -> Options:
        """As ``run`` takes them."""
        given = {
            name: value for name, value in msgspec.structs.asdict(self).items() if value not in (None, ())
        }
        for name in ("text", "retry_of"):
            given.pop(name, None)
        return cast("Options", given)


class LastQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``wait``: if a turn is running, answer when it has ended, at most this many seconds later."""

    wait: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.0


class ExportQuery(msgspec.Struct, frozen=True, kw_only=True):
    """JSON can be imported; Markdown is for reading."""

    form: Literal["json", "markdown"] = "json"


class EditBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The new text of a message. ``cut``: drop what follows it."""

    text: Text
    cut: bool = False


class ForkBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``key``: the new conversation's, otherwise a free one. ``upto``: the last message to copy."""

    key: Text | None = None
    upto: Text | None = None


class ImportBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An export, as the object that it is. ``key``: another key than its own."""

    export: dict[str, Any]
    key: Text | None = None


class LastShown(msgspec.Struct, frozen=True, kw_only=True):
    """The last answer of a conversation."""

    text: str | None
    """None: there is none yet."""
    turn: Turn | None
    """The turn that gave it."""
    message: LogMessage | None
    """Its message, if it was imported: no turn of ours gave it."""
    failed: Turn | None
    """The newest turn, if it failed after that answer."""
    agent: str | None
    """The agent of the newest turn."""
    running: bool
    """The newest turn has not ended."""


class Dropped(msgspec.Struct, frozen=True, kw_only=True):
    """How many messages were dropped."""

    dropped: int


class KeyShown(msgspec.Struct, frozen=True, kw_only=True):
    """The key of a new conversation."""

    key: str


async def ls(call: Call) -> list[ConversationShown]:
    return await call.segue.ls(limit=call.query.limit, before=call.query.before)


async def log(call: Call) -> list[LogMessage]:
    return await call.segue.log(call.path["key"])


async def plan(call: Call) -> Why:
    asked: PlanQuery = call.query
    return await call.segue.runs.plan(call.path["key"], asked.text, retry_of=asked.retry_of, **asked.options)


async def last(call: Call) -> LastShown:
    until = time.monotonic() + call.query.wait
    found = await call.segue.last(call.path["key"])
    while found.running and time.monotonic() < until:  # without a thread that waits: there are few of them
        await asyncio.sleep(POLL_S)
        found = await call.segue.last(call.path["key"])
    return LastShown(
        text=found.text,
        turn=found.told if isinstance(found.told, Turn) else None,
        message=found.told if isinstance(found.told, LogMessage) else None,
        failed=found.failed,
        agent=found.agent,
        running=found.running,
    )


async def edit(call: Call) -> Dropped:
    new: EditBody = call.body
    return Dropped(
        dropped=await call.segue.edit(call.path["key"], call.path["message"], new.text, cut=new.cut)
    )


async def truncate(call: Call) -> Dropped:
    return Dropped(dropped=await call.segue.truncate(call.path["key"], call.path["message"]))


async def undo(call: Call) -> Undone:
    return await call.segue.undo(call.path["key"])


async def fork(call: Call) -> KeyShown:
    return KeyShown(key=await call.segue.fork(call.path["key"], call.body.key, upto=call.body.upto))


async def export(call: Call) -> Response:
    form: Literal["json", "markdown"] = call.query.form
    text = await call.segue.export(call.path["key"], form)
    return StreamingResponse(_chunks(text), media_type=EXPORTS[form])


async def _chunks(text: str) -> AsyncIterator[bytes]:
    for at in range(0, len(text), CHUNK):
        yield text[at : at + CHUNK].encode()


async def import_(call: Call) -> KeyShown:
    export = msgspec.json.encode(call.body.export)
    return KeyShown(key=await call.segue.import_(export, call.body.key))


async def rm(call: Call) -> None:
    await call.segue.rm(call.path["key"])


async def agents(call: Call) -> list[AgentShown]:
    return await call.segue.agents()


async def doctor(call: Call) -> list[SetupFinding]:
    return await call.segue.doctor()


ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        "GET",
        CONVERSATIONS,
        ("Segue.ls",),
        ls,
        "Conversations, most recently used first",
        returns=list[ConversationShown],
        query=ListQuery,
        large=True,
    ),
    Endpoint(
        "POST",
        f"{CONVERSATIONS}/import",
        ("Segue.import_",),
        import_,
        "Create a conversation from an export",
        returns=KeyShown,
        body=ImportBody,
        status=201,
        max_body=LARGEST_IMPORT,
    ),
    Endpoint("DELETE", ONE, ("Segue.rm",), rm, "Forget a conversation; the agents' own sessions stay"),
    Endpoint(
        "GET",
        f"{ONE}/log",
        ("Segue.log",),
        log,
        "Every message, with the turn that answered it",
        returns=list[LogMessage],
        large=True,
    ),
    Endpoint(
        "GET",
        f"{ONE}/plan",
        ("Segue.runs.plan", "Segue.why"),
        plan,
        "What the next turn, or a retry, would do, why, and at what cost",
        returns=Why,
        query=PlanQuery,
    ),
    Endpoint(
        "GET", f"{ONE}/last", ("Segue.last",), last, "The last answer", returns=LastShown, query=LastQuery
    ),
    Endpoint(
        "GET",
        f"{ONE}/export",
        ("Segue.export",),
        export,
        "The conversation as JSON or Markdown",
        returns=Any,
        query=ExportQuery,
        media="application/json, text/markdown",
    ),
    Endpoint(
        "PATCH",
        f"{ONE}/messages/{{message}}",
        ("Segue.edit",),
        edit,
        "Change a message, by its id or #n",
        returns=Dropped,
        body=EditBody,
        max_body=MESSAGE_BYTES,
    ),
    Endpoint(
        "DELETE",
        f"{ONE}/messages/{{message}}",
        ("Segue.truncate",),
        truncate,
        "Drop a message and everything after it",
        returns=Dropped,
    ),
    Endpoint(
        "POST",
        f"{ONE}/undo",
        ("Segue.undo",),
        undo,
        "Undo the last edit, truncation or retry",
        returns=Undone,
    ),
    Endpoint(
        "POST",
        f"{ONE}/fork",
        ("Segue.fork",),
        fork,
        "Continue from here, or from an earlier message, elsewhere",
        returns=KeyShown,
        body=ForkBody,
        status=201,
    ),
    Endpoint(
        "GET",
        "/api/v1/agents",
        ("Segue.agents",),
        agents,
        "The agents, what they can do, their accounts, and the models used lately",
        returns=list[AgentShown],
    ),
    Endpoint(
        "GET",
        "/api/v1/doctor",
        ("Segue.doctor",),
        doctor,
        "What is right and wrong with the set-up",
        returns=list[SetupFinding],
    ),
)
