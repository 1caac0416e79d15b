"""What the review flow is started with, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from segue.core.errors import Misuse
from segue.core.request import Posture
from segue.flows.commands import CheckResult
from segue.flows.review.verdict import Finding

Memory = Literal["resume", "fresh"]
"""``resume``: a role continues its own session. ``fresh``: each of its turns begins a new one."""
ReviewEnd = Literal["approved", "capped", "stalemate", "failed", "cancelled"]
"""``capped``: all rounds are used up. ``stalemate``: several rounds changed nothing."""
Name = Annotated[str, Meta(min_length=1, max_length=200)]


class RoleOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Who takes a role."""

    agent: Name
    model: str | None = None
    account: str | None = None
    memory: Memory = "resume"
    permission: Posture | None = None
    """None: the coder may change files in the working directory, the others may only read."""


class ReviewOrder(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A review."""

    task: str
    task_file: str | None = None
    """Where the task is. It is read again before each round, so that it can be changed meanwhile; but not
    through a link."""
    coder: RoleOrder
    reviewer: RoleOrder
    coordinator: RoleOrder | None = None
    """It gives guidance after two rejections in a row."""
    rounds: Annotated[int, Meta(ge=1, le=100)] = 5
    stalemate: Annotated[int, Meta(ge=1, le=100)] = 2
    """So many rounds that change nothing end the flow."""
    checks: tuple[Annotated[str, Meta(min_length=1)], ...] = ()
    """Commands that Segue runs after each turn of the coder, by ``sh -c``."""
    fork_coder: bool = False
    """The reviewer begins with a fork of the coder's session, so it knows what the coder has read."""
    check_timeout_s: Annotated[float, Meta(gt=0)] = 600.0


class ReviewResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a review came to."""

    reason: str
    """Why it ended, in words."""
    retryable: bool = False
    """It failed by something that may be over later, such as a limit or the network."""
    notes: str = ""
    """The reviewer's last notes."""
    findings: tuple[Finding, ...] = ()
    outside: tuple[Finding, ...] = ()
    """What the reviewer noticed besides the task. Nobody has worked on it."""
    checks: tuple[CheckResult, ...] = ()
    """The checks of the last round."""


def review_order(given: Mapping[str, object]) -> ReviewOrder:
    """The checked order, or ``Misuse``."""
    try:
        order = msgspec.convert(dict(given), ReviewOrder)
    except msgspec.ValidationError as error:
        raise Misuse(f"the review cannot be started with this: {error}") from None
    if not order.task.strip():
        raise Misuse("the task is empty")
    if order.fork_coder and order.coder.agent != order.reviewer.agent:
        raise Misuse("only a reviewer of the same agent can begin with a fork of the coder's session")
    return order
