"""Comparisons: the same review with full prompts and with what is new, at the same time in two worktrees.

Each is a flow of its own. So a comparison is only the id that the keys of the two have in common.
"""

from __future__ import annotations

import os
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec
from anyio.to_thread import run_sync

from segue.app import flows
from segue.app.flow_report import shown
from segue.app.flow_shapes import FlowShown
from segue.app.flow_turns import COMPARISON
from segue.app.reviews import ReviewOrder, passages_of, refuse_absent, start_review
from segue.core.errors import Misuse, NotFound
from segue.core.flow import FlowState
from segue.core.usage import Usage
from segue.system import clock
from segue.system.files import write_new
from segue.system.git import WorkTree

if TYPE_CHECKING:
    from segue.app.segue import Segue
    from segue.app.workspace import Workspace

Prompts = Literal["full", "delta"]
PROMPTS: tuple[Prompts, ...] = ("full", "delta")


class ComparedReview(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two. ``full``: each turn begins a new session with the whole prompt. ``delta``: each role
    continues its session."""

    prompts: Prompts
    flow: str
    state: FlowState
    end: str | None
    approved: bool
    rounds: int
    usage: Usage
    input_tokens: int
    """All that the model was sent, whether it had to be read anew or not."""
    new_tokens: int
    """Of that, what was not read from a cache."""
    cost_usd: float | None
    duration_ms: int
    cwd: str
    """Its worktree: what the coder has done is there."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Both, and what the second saves: 0.6 means 60 % less than the first. Null: it is not known."""

    comparison: str
    reviews: tuple[ComparedReview, ...]
    saved_input: float | None
    saved_new: float | None
    saved_cost: float | None


async def start_comparison(
    segue: Segue,
    order: ReviewOrder,
    *,
    cwd: str | Path | None = None,
    key: str | None = None,
    label: str = "",
    budget: float | None = None,
    elsewhere: bool = False,
) -> Comparison:
    """Start both, and return at once. ``elsewhere``: they are only stored, and the daemon runs them."""
    if order == _fresh(order):
        raise Misuse("with the memory fresh for all roles there is nothing to compare")
    at = segue.workspace
    where = await run_sync(flows.directory_of, at, cwd)
    await run_sync(refuse_absent, order, at, where)
    await run_sync(passages_of, order, at, where)
    id_ = clock.new_id() if key is None else sha256(key.encode()).hexdigest()[:26]
    place = at.home.root / "comparisons" / id_
    for prompts, inside in (await run_sync(_worktrees, at, where, place)).items():
        await start_review(
            segue,
            order if prompts == "delta" else _fresh(order),
            cwd=inside,
            key=_key(id_, prompts),
            label=f"{label} ({prompts} prompts)".lstrip(),
            budget=budget,
            elsewhere=elsewhere,
        )
    return await run_sync(compare, at, id_)


def _worktrees(at: Workspace, where: Path, place: Path) -> dict[Prompts, Path]:
    """The directory in each of the two worktrees. Both are of the same tree, however often it is begun."""
    env, git_home = at.child.env, at.home.git
    user, file = WorkTree(where, git_home, env), place / "tree"
    if not file.exists():
        begun = place / PROMPTS[0]
        tree = WorkTree(begun, git_home, env).checked_out() if begun.exists() else user.write_whole()
        write_new(file, tree.encode())  # of several processes, the first one says which
    tree = file.read_text()
    below = Path(os.path.realpath(where)).relative_to(user.top)
    for prompts in PROMPTS:
        user.add_worktree(tree, place / prompts)
    return {prompts: place / prompts / below for prompts in PROMPTS}


def compare(workspace: Workspace, comparison: str) -> Comparison:
    """How far both are, or how they ended."""
    known = {each: workspace.store.flows.by_key(_key(comparison, each)) for each in PROMPTS}
    reviews = {each: shown(workspace, row) for each, row in known.items() if row is not None}
    if len(reviews) < len(PROMPTS):
        raise NotFound(f"there is no comparison {comparison!r:.60}")
    full, delta = (_compared(each, reviews[each]) for each in PROMPTS)
    return Comparison(
        comparison=comparison,
        reviews=(full, delta),
        saved_input=_saved(full.input_tokens, delta.input_tokens),
        saved_new=_saved(full.new_tokens, delta.new_tokens),
        saved_cost=_saved(full.cost_usd, delta.cost_usd),
    )


def _compared(prompts: Prompts, shown: FlowShown) -> ComparedReview:
    used = shown.usage
    new = (used.input or 0) + (used.cache_write or 0)
    ended = shown.ended if shown.ended is not None else clock.now_ms()
    return ComparedReview(
        prompts=prompts,
        flow=shown.flow,
        state=shown.state,
        end=shown.end,
        approved=shown.end == "approved",
        rounds=shown.rounds,
        usage=used,
        input_tokens=new + (used.cache_read or 0),
        new_tokens=new,
        cost_usd=shown.cost_usd,
        duration_ms=ended - shown.created,
        cwd=shown.cwd,
    )


def _saved(full: float | None, delta: float | None) -> float | None:
    return round(1 - delta / full, 4) if full and delta is not None else None


def _fresh(order: ReviewOrder) -> ReviewOrder:
    """The same, without any memory."""
    fresh = {
        name: msgspec.structs.replace(role, memory="fresh")
        for name in ("coder", "reviewer", "coordinator")
        if (role := getattr(order, name)) is not None
    }
    return msgspec.structs.replace(order, fork_coder=False, **fresh)


def _key(comparison: str, prompts: Prompts) -> str:
    return f"{COMPARISON}{comparison}/{prompts}"
