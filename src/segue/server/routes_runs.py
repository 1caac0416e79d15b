"""The routes for runs: queue one, follow it, answer it, end it; and the stream of all changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from segue.app.run_shapes import AttachmentOrder, FeedEvent, RunOrder, RunShown, ToolAnswer
from segue.app.runs import MOST
from segue.core.errors import Misuse, NotFound
from segue.core.turn import State
from segue.server.endpoint import MESSAGE_BYTES, Call, Endpoint, Header
from segue.server.events import HEARTBEAT_S, MEDIA, STREAM, stream_of
from segue.server.problems import Refused

RUN = "/api/v1/runs/{run}"
ORDER_BYTES = 48 << 20
"""The largest body with a message and attachments, which have 4 bytes for each 3."""
KEY_LENGTH = 200
KEY = Header(
    "Idempotency-Key",
    "A name for the request. The same name again in this conversation is the same run, for 30 days.",
    KEY_LENGTH,
)
LAST_ID = Header(
    "Last-Event-ID",
    "The id of the last event that was received. What came after it is sent first. Browsers send it.",
)


class Queued(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which queue: that of a conversation, or all."""

    conversation: str | None = None


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs: in these states, or all that are not over; of a conversation, or of all."""

    state: tuple[State, ...] = ()
    conversation: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = MOST


class NewText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another message for a run that waits."""

    text: str


class NewPlace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another place in the line; 1 is next."""

    place: Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]


class Since(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where to read on. The header ``Last-Event-ID`` says the same, and comes first."""

    after: str | None = None


def refuse_paths(call: Call, attachments: Sequence[AttachmentOrder]) -> None:
    """A path is read by the daemon, so it is accepted from this user's own processes only."""
    if not call.local and any(each.path is not None for each in attachments):
        raise Refused("forbidden", "a path is accepted over the Unix socket only; send the file as data")


def named(call: Call) -> str | None:
    """The name of the request, by which it is known if it comes again."""
    key = call.headers.get("idempotency-key")
    if key is not None and not (0 < len(key) <= KEY_LENGTH and key.isprintable()):
        raise Misuse(f"{KEY.name} takes a name on one line (at most {KEY_LENGTH} characters)")
    return key


async def _submit(call: Call) -> RunShown:
    order: RunOrder = call.body
    refuse_paths(call, order.attachments)
    return await call.segue.runs.submit(call.path["key"], order, run_key=named(call))


async def _show(call: Call) -> RunShown:
    return await call.segue.runs.show(call.path["run"])


async def _event(call: Call) -> FeedEvent:
    number = call.path["n"]
    if not (number.isascii() and number.isdecimal() and len(number) <= 9):
        raise NotFound(f"an event has a number, not {number!r:.40}")
    return await call.segue.runs.event(call.path["run"], int(number))


async def _ls(call: Call) -> list[RunShown]:
    asked: Listed = call.query
    return await call.segue.runs.ls(states=asked.state, key=asked.conversation, limit=asked.limit)


async def _queue(call: Call) -> list[RunShown]:
    return await call.segue.runs.queue(call.query.conversation)


async def _edit(call: Call) -> RunShown:
    return await call.segue.runs.edit(call.path["run"], call.body.text)


async def _move(call: Call) -> list[RunShown]:
    return await call.segue.runs.move(call.path["run"], call.body.place)


async def _remove(call: Call) -> RunShown:
    return await call.segue.runs.remove(call.path["run"])


async def _cancel(call: Call) -> RunShown:
    return await call.segue.runs.cancel(call.path["run"])


async def _now(call: Call) -> RunShown:
    return await call.segue.runs.now(call.path["run"])


async def _answer(call: Call) -> RunShown:
    return await call.segue.runs.answer(call.path["run"], call.body)


async def _events(call: Call) -> Any:
    after = call.headers.get("last-event-id") or call.query.after
    return stream_of(call.segue.service.subscriptions.subscribe(after, idle_s=HEARTBEAT_S))


async def _run_events(call: Call) -> Any:
    run, after = call.path["run"], call.headers.get("last-event-id") or call.query.after
    await call.segue.runs.show(run)  # an unknown one is an error, not an empty stream
    return stream_of(call.segue.service.subscriptions.subscribe(after, run, HEARTBEAT_S))


TURNS = ("Segue.run", "Segue.stream", "Segue.retry")
"""They wait for the end of a run. Over HTTP the run is queued, and its events are followed."""
ENDPOINTS = (
    Endpoint(
        "POST",
        "/api/v1/conversations/{key}/runs",
        ("Segue.runs.submit", *TURNS),
        _submit,
        "Queue a run: a new message, or a retry. Returns at once.",
        returns=RunShown,
        body=RunOrder,
        status=202,
        max_body=ORDER_BYTES,
        headers=(KEY,),
    ),
    Endpoint(
        "GET",
        "/api/v1/runs",
        ("Segue.runs.ls",),
        _ls,
        "The runs that wait, run, or have an open question; or those in given states. Newest first.",
        returns=list[RunShown],
        query=Listed,
        large=True,
    ),
    Endpoint("GET", RUN, ("Segue.runs.show",), _show, "A run as it is now.", returns=RunShown),
    Endpoint(
        "GET",
        f"{RUN}/events",
        ("Segue.runs.watch",),
        _run_events,
        "The events of a run, as they come, until it is settled.",
        query=Since,
        returns=str,
        media=MEDIA,
        headers=(LAST_ID,),
        stream=STREAM,
    ),
    Endpoint(
        "GET",
        f"{RUN}/events/{{n}}",
        ("Segue.runs.event",),
        _event,
        "One event of a run, whole.",
        returns=FeedEvent,
    ),
    Endpoint(
        "GET",
        "/api/v1/events",
        ("Segue.runs.watch",),
        _events,
        "Everything that changes, as it changes.",
        query=Since,
        returns=str,
        media=MEDIA,
        headers=(LAST_ID,),
        stream=STREAM,
    ),
    Endpoint("POST", f"{RUN}/cancel", ("Segue.runs.cancel",), _cancel, "End a run.", returns=RunShown),
    Endpoint(
        "POST",
        f"{RUN}/now",
        ("Segue.runs.now",),
        _now,
        "Start a parked run now, or let a line go on that a failed run holds up.",
        returns=RunShown,
    ),
    Endpoint(
        "POST",
        f"{RUN}/tool-result",
        ("Segue.runs.answer",),
        _answer,
        "Answer the open question of a run.",
        returns=RunShown,
        body=ToolAnswer,
    ),
    Endpoint(
        "GET",
        "/api/v1/queue",
        ("Segue.runs.queue",),
        _queue,
        "The runs that wait, in their order.",
        returns=list[RunShown],
        query=Queued,
    ),
    Endpoint(
        "PATCH",
        "/api/v1/queue/{run}",
        ("Segue.runs.edit",),
        _edit,
        "Change the message of a run that waits.",
        returns=RunShown,
        body=NewText,
        max_body=MESSAGE_BYTES,
    ),
    Endpoint(
        "POST",
        "/api/v1/queue/{run}/move",
        ("Segue.runs.move",),
        _move,
        "Give a run that waits another place.",
        returns=list[RunShown],
        body=NewPlace,
    ),
    Endpoint(
        "DELETE",
        "/api/v1/queue/{run}",
        ("Segue.runs.remove",),
        _remove,
        "Take a run out of the queue.",
        returns=RunShown,
    ),
)
