"""The routes for flows: start one, watch it, answer it, and stop or continue it.

Only flows that come with Segue can be started, and continued, over HTTP: the daemon loads no other code.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any

import msgspec
from starlette.responses import Response, StreamingResponse

from segue.app.comparisons import Comparison, start_comparison
from segue.app.flow_shapes import EscalationOrder, FlowAnswer, FlowOrder, FlowReport, FlowShown
from segue.app.flows import MOST
from segue.app.reviews import ReviewCall, start_review
from segue.server.endpoint import Call, Endpoint
from segue.server.events import HEADERS, HEARTBEAT, HEARTBEAT_S, MEDIA, Heartbeat

FLOWS = "/api/v1/flows"
ONE = f"{FLOWS}/{{flow}}"
BINARY = "application/octet-stream"


class FlowsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """``every``: also the flows that are over. ``brief``: without results, artefacts, and the steps that are
    over."""

    every: bool = False
    brief: bool = False
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST)] = 100


class ResumeBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``from_step``: take back this step and all after it, and use the newest version of the flow's code."""

    from_step: str | None = None


class StepBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The step to run again."""

    step: str


async def _start(call: Call) -> FlowShown:
    order: FlowOrder = call.body
    return await call.segue.flows.start(
        order.kind,
        order.input,
        key=order.key,
        label=order.label,
        cwd=order.cwd,
        tree=order.tree,
        budget=order.budget,
    )


async def _escalate(call: Call) -> FlowShown:
    order: EscalationOrder = call.body
    return await call.segue.flows.start_escalation(
        order.file,
        dry_run=order.dry_run,
        max_tier=order.max_tier,
        key=order.key,
        label=order.label,
        cwd=order.cwd,
        budget=order.budget,
    )


async def _review(call: Call) -> FlowShown:
    order: ReviewCall = call.body
    return await start_review(
        call.segue, order, cwd=order.cwd, key=order.key, label=order.label, budget=order.budget
    )


async def _compare(call: Call) -> Comparison:
    order: ReviewCall = call.body
    return await start_comparison(
        call.segue, order, cwd=order.cwd, key=order.key, label=order.label, budget=order.budget
    )


async def _comparison(call: Call) -> Comparison:
    return await call.segue.flows.comparison(call.path["comparison"])


async def _ls(call: Call) -> list[FlowShown]:
    asked: FlowsQuery = call.query
    return await call.segue.flows.ls(every=asked.every, limit=asked.limit, brief=asked.brief)


async def _show(call: Call) -> FlowShown:
    return await call.segue.flows.show(call.path["flow"])


async def _report(call: Call) -> FlowReport:
    return await call.segue.flows.report(call.path["flow"])


async def _events(call: Call) -> Response:
    await call.segue.flows.show(call.path["flow"])  # an unknown one is an error, not an empty stream
    items = call.segue.service.watch_flow(call.path["flow"], HEARTBEAT_S)
    return StreamingResponse(_lines(items), headers=HEADERS, media_type=MEDIA)


async def _lines(items: AsyncGenerator[FlowShown | None]) -> AsyncIterator[bytes]:
    async with aclosing(items):
        async for item in items:
            yield HEARTBEAT if item is None else b"event: flow\ndata: %b\n\n" % msgspec.json.encode(item)


async def _pause(call: Call) -> FlowShown:
    return await call.segue.flows.pause(call.path["flow"])


async def _cancel(call: Call) -> FlowShown:
    return await call.segue.flows.cancel(call.path["flow"])


async def _resume(call: Call) -> FlowShown:
    return await call.segue.flows.resume(call.path["flow"], from_step=call.body.from_step)


async def _retry(call: Call) -> FlowShown:
    return await call.segue.flows.retry_step(call.path["flow"], call.body.step)


async def _answer(call: Call) -> FlowShown:
    given: FlowAnswer = call.body
    return await call.segue.flows.answer(call.path["flow"], given.answer, step=given.step)


async def _artefact(call: Call) -> Any:
    data = await call.segue.flows.artefact(call.path["hash"])
    headers = {"content-disposition": "attachment", "x-content-type-options": "nosniff"}
    return Response(data, media_type=BINARY, headers=headers)


WAITED = ("Segue.flows.run", "Segue.flows.join")
"""They wait for the flow. Over HTTP its changes are followed."""
ENDPOINTS = (
    Endpoint(
        "POST",
        FLOWS,
        ("Segue.flows.start", *WAITED),
        _start,
        "Start a flow that comes with Segue. Returns at once.",
        returns=FlowShown,
        body=FlowOrder,
        status=202,
    ),
    Endpoint(
        "POST",
        "/api/v1/escalations",
        ("Segue.flows.start_escalation", "Segue.flows.escalate"),
        _escalate,
        "Start the escalation that a file describes. Returns at once.",
        returns=FlowShown,
        body=EscalationOrder,
        status=202,
    ),
    Endpoint(
        "POST",
        "/api/v1/reviews",
        ("Segue.flows.start_review", "Segue.flows.review"),
        _review,
        "Start a review: a coder works until a reviewer approves. Returns at once.",
        returns=FlowShown,
        body=ReviewCall,
        status=202,
    ),
    Endpoint(
        "POST",
        "/api/v1/comparisons",
        ("Segue.flows.start_comparison", "Segue.flows.compare"),
        _compare,
        "Start the same review with full prompts and with what is new, in two worktrees. Returns at once.",
        returns=Comparison,
        body=ReviewCall,
        status=202,
    ),
    Endpoint(
        "GET",
        "/api/v1/comparisons/{comparison}",
        ("Segue.flows.comparison",),
        _comparison,
        "What both reviews of a comparison have cost so far, and how they ended.",
        returns=Comparison,
    ),
    Endpoint(
        "GET",
        FLOWS,
        ("Segue.flows.ls",),
        _ls,
        "The flows that are not over, or all of them. Newest first.",
        returns=list[FlowShown],
        query=FlowsQuery,
        large=True,
    ),
    Endpoint(
        "GET", ONE, ("Segue.flows.show",), _show, "A flow as it is now, with its steps.", returns=FlowShown
    ),
    Endpoint(
        "GET",
        f"{ONE}/report",
        ("Segue.flows.report",),
        _report,
        "The report of a flow: its end, its cost, and its steps.",
        returns=FlowReport,
    ),
    Endpoint(
        "GET",
        f"{ONE}/events",
        ("Segue.flows.watch",),
        _events,
        "A flow as it is now, and whenever something about it has changed, until it is over.",
        returns=str,
        media=MEDIA,
        stream=(("flow", FlowShown), ("heartbeat", Heartbeat)),
    ),
    Endpoint(
        "POST",
        f"{ONE}/pause",
        ("Segue.flows.pause",),
        _pause,
        "Stop a flow at its next step.",
        returns=FlowShown,
    ),
    Endpoint(
        "POST",
        f"{ONE}/resume",
        ("Segue.flows.resume",),
        _resume,
        "Continue a flow that comes with Segue.",
        returns=FlowShown,
        body=ResumeBody,
    ),
    Endpoint("POST", f"{ONE}/cancel", ("Segue.flows.cancel",), _cancel, "End a flow.", returns=FlowShown),
    Endpoint(
        "POST",
        f"{ONE}/retry-step",
        ("Segue.flows.retry_step",),
        _retry,
        "Run a step of a flow again, and what came after it.",
        returns=FlowShown,
        body=StepBody,
    ),
    Endpoint(
        "POST",
        f"{ONE}/answer",
        ("Segue.flows.answer",),
        _answer,
        "Answer what a flow asks. The first answer counts.",
        returns=FlowShown,
        body=FlowAnswer,
    ),
    Endpoint(
        "GET",
        "/api/v1/artefacts/{hash}",
        ("Segue.flows.artefact",),
        _artefact,
        "Something that a flow keeps, by its hash.",
        returns=bytes,
        media=BINARY,
    ),
)
