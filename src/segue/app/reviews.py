"""Reviews: the options of a review, and the flow that they start."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

import msgspec
from anyio.to_thread import run_sync

from segue.app import flows
from segue.app.agents import found_agent
from segue.app.flow_shapes import Above, FlowShown
from segue.app.flow_walls import Part, Passage, carried, mark_of, refuse_forbidden
from segue.app.git_directories import tidy_git
from segue.config.load import load
from segue.config.named_files import read_typed
from segue.core.errors import Misuse
from segue.core.request import Posture
from segue.flows.context import conversation_of
from segue.flows.definition import built_in
from segue.flows.review.orders import Memory, ReviewOrder, ReviewResult, RoleOrder, review_order
from segue.flows.review.roles import CONVERSATION
from segue.system.git import WorkTree
from segue.system.named_files import LARGEST
from segue.turns.request import NONE

if TYPE_CHECKING:
    from segue.app.segue import Segue
    from segue.app.workspace import Workspace
    from segue.store.carries import CarryRow

__all__ = ["LARGEST", "Memory", "ReviewCall", "ReviewOptions", "ReviewOrder", "ReviewResult", "RoleOrder"]
ROLES = ("coder", "reviewer", "coordinator")
OF_ROLE = ("model", "account", "permission")
NAME_BOTH = "name the account of each role (none: no account)"


class ReviewOptions(TypedDict, total=False):
    """The options of a review."""

    coordinator: str | None
    """An agent that gives guidance after two rejections in a row."""
    rounds: int
    stalemate: int
    """So many rounds in a row that change nothing end it."""
    checks: Sequence[str]
    """Commands that Segue runs after each turn of the coder."""
    check_timeout_s: float
    fork_coder: bool
    """The reviewer begins with a fork of the coder's session; both are the same agent."""
    memory: Memory | Mapping[str, Memory]
    """For all roles, or by role: ``{"reviewer": "fresh"}``."""
    task_file: str | Path | None
    """The file that the task is in. It is read again before each round, unless it is a link."""
    coder_model: str | None
    reviewer_model: str | None
    coordinator_model: str | None
    coder_account: str | None
    reviewer_account: str | None
    coordinator_account: str | None
    coder_permission: Posture | None
    reviewer_permission: Posture | None
    coordinator_permission: Posture | None


class ReviewCall(ReviewOrder, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A review to start, and where."""

    cwd: str | None = None
    key: str | None = None
    """Your own name for it: the same key again is the same flow."""
    label: str = ""
    budget: Above | None = None
    """What it may cost, in dollars, before it asks."""


def order_of(task: str, coder: str, reviewer: str, options: ReviewOptions) -> ReviewOrder:
    """The checked order, or ``Misuse``."""
    unknown = set(options) - set(ReviewOptions.__annotations__)
    if unknown:
        raise Misuse(f"unknown option: {', '.join(sorted(unknown))}")
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    agents = {"coder": coder, "reviewer": reviewer, "coordinator": given.pop("coordinator", None)}
    memory = given.pop("memory", "resume")
    roles = {name: _role(name, agent, memory, given) for name, agent in agents.items()}
    if "task_file" in given:
        given["task_file"] = os.fspath(given["task_file"])
    given["checks"] = tuple(given.get("checks", ()))
    return review_order({"task": task, **given, **{name: each for name, each in roles.items() if each}})


def _role(name: str, agent: str | None, memory: Memory | Mapping[str, Memory], given: dict[str, Any]) -> Any:
    """Who takes a role; its options are taken from the others."""
    mine = {each: given.pop(f"{name}_{each}", None) for each in OF_ROLE}
    if agent is None:
        return None
    how = memory if isinstance(memory, str) else memory.get(name, "resume")
    known = {each: value for each, value in mine.items() if value is not None}
    return {"agent": agent, "memory": how, **known}


async def start_review(
    segue: Segue,
    order: ReviewOrder,
    *,
    cwd: str | Path | None = None,
    key: str | None = None,
    label: str = "",
    budget: float | None = None,
    elsewhere: bool = False,
) -> FlowShown:
    """Start a review, and return at once. ``elsewhere``: it is only stored, and the daemon runs it."""
    at = segue.workspace
    where = await run_sync(flows.directory_of, at, cwd)
    await run_sync(refuse_absent, order, at, where)
    order = await run_sync(_with_task_file, order, at)
    passages = await run_sync(passages_of, order, at, where)
    await run_sync(WorkTree(where, at.home.git, at.child.env).prepare)  # refused without git
    await run_sync(tidy_git, at)
    await run_sync(flows.refuse_busy_tree, at, where, key)
    definition = built_in("review")
    given = cast("dict[str, object]", msgspec.to_builtins(_bare(order)))

    def carries(flow: str) -> Sequence[CarryRow]:
        return carried(conversation_of(flow, CONVERSATION), passages)

    add = partial(flows.add, cwd=where, key=key, label=label, tree=True, budget=budget, carries=carries)
    row = await run_sync(add, at, definition, given)
    if not elsewhere:
        await segue.service.flows.start(definition, row)
    return await segue.flows.show(row.id)


def read_task(file: str | Path, env: Mapping[str, str], here: Path) -> tuple[str, str | None]:
    """The task in a file, and where it is read again: not if the file is a link. Raises ``Misuse``."""
    found = read_typed(file, env, here, said=f"cannot read the task {file}", hint="; - reads stdin")
    try:
        return found.data.decode(), None if found.is_link else str(found.path)
    except UnicodeDecodeError:
        raise Misuse(f"the task {file} is not UTF-8") from None


def _with_task_file(order: ReviewOrder, at: Workspace) -> ReviewOrder:
    """The order with the place from which the task may be read again."""
    if order.task_file is None:
        return order
    return msgspec.structs.replace(order, task_file=read_task(order.task_file, at.env, at.cwd)[1])


def refuse_absent(order: ReviewOrder, at: Workspace, where: Path) -> None:
    """Raise if an agent or account of the review is not there, before anybody works."""
    config = load(at.env, where)
    for role in filter(None, (order.coder, order.reviewer, order.coordinator)):
        account = "" if role.account == NONE else role.account
        found_agent(role.agent, account, config, at.env, where)


def passages_of(order: ReviewOrder, at: Workspace, where: Path) -> tuple[Passage, ...]:
    """Whose words reach whom in a review. Raises ``Forbidden`` if a rule is against it, or if two accounts
    differ and the user has not named both."""
    roles = {"coder": order.coder, "reviewer": order.reviewer, "coordinator": order.coordinator}
    parts: list[tuple[Part, bool]] = []
    last: dict[str, str | None] = {}
    for name, role in roles.items():
        if role is None:
            continue
        account = role.account if role.account is not None else last.get(role.agent)
        parts.append((Part(f"the {name}", mark_of(at, role.agent, account, where)), account is not None))
        last[role.agent] = account  # one without an account has that of its agent's last turn
    passages = tuple(
        Passage(source, target, "user" if source_named and target_named else "none")
        for (source, source_named), (target, target_named) in permutations(parts, 2)
    )
    refuse_forbidden(at, where, passages, NAME_BOTH)
    return passages


def _bare(order: ReviewOrder) -> ReviewOrder:
    """The order without where it is started."""
    return ReviewOrder(**{name: getattr(order, name) for name in ReviewOrder.__struct_fields__})
