"""The turns of the roles. Each role has its own session: its first turn gets the whole prompt, later ones
only what is new. Where its session cannot be continued, it gets the whole prompt again."""

from __future__ import annotations

from typing import Literal

from segue.core.laws import Consent
from segue.core.request import Briefing
from segue.core.turn import Turn
from segue.core.usage import count_in_words
from segue.flows.context import Flow
from segue.flows.ports import Given
from segue.flows.review.orders import ReviewOrder, RoleOrder
from segue.flows.review.prompts import objective
from segue.flows.review.verdict import SCHEMA
from segue.turns.request import NONE, Options

RoleName = Literal["coder", "reviewer", "coordinator"]
CONVERSATION = "review"
"""All roles speak in one conversation of the flow."""
TTL_MINUTES = 30
"""A session that was last used longer ago is not continued."""
HOPELESS = ("auth", "not_installed", "untrusted", "budget", "refused", "forbidden")
"""Failures that another try cannot help."""
LONGEST_WORDS = 1_000


class Over(Exception):  # noqa: N818 - it is an end, not an error
    """The review cannot go on."""

    def __init__(self, end: Literal["failed", "cancelled"], reason: str, retryable: bool = False) -> None:
        super().__init__(reason)
        self.end, self.reason, self.retryable = end, reason, retryable


class Crew:
    """Who takes part in a review."""

    def __init__(self, flow: Flow, order: ReviewOrder) -> None:
        self._flow, self._order = flow, order
        self._spoke: set[RoleName] = set()
        self._last: Turn | None = None

    async def first(self, role: RoleName, key: str, task: str, full: str) -> Turn:
        """A turn in a new session, whatever was said before."""
        blank = role in self._spoke
        self._spoke.add(role)
        return await self._turn(role, key, task, full, full, blank=blank)

    async def next(self, role: RoleName, key: str, task: str, delta: str, full: str) -> Turn:
        """A turn in the role's own session; if there is none, or it has no memory, in a new one."""
        if role not in self._spoke or self._of(role).memory == "fresh":
            return await self.first(role, key, task, full)
        return await self._turn(role, key, task, delta, full)

    async def more(self, role: RoleName, key: str, task: str, text: str, full: str) -> Turn:
        """One more message about the same, in the session of the turn before. The answer may be any text: an
        option of the CLI for its form was of no use."""
        return await self._turn(role, key, task, text, full, form=False)

    def _of(self, role: RoleName) -> RoleOrder:
        order = self._order
        known = {"coder": order.coder, "reviewer": order.reviewer}
        return known.get(role) or order.coordinator or order.reviewer

    async def _turn(
        self,
        role: RoleName,
        key: str,
        task: str,
        text: str,
        full: str,
        *,
        blank: bool = False,
        form: bool = True,
    ) -> Turn:
        who = self._of(role)
        options: Options = {
            "agent": who.agent,
            "model": who.model or NONE,
            "role": role,
            "permission": who.permission or ("edit" if role == "coder" else "read"),
            "blank": blank,
        }
        if who.account is not None:
            options["account"] = who.account
        fork_of = "coder" if self._order.fork_coder and role == "reviewer" else ""
        briefing = Briefing(
            full=full,
            objective=objective(task),
            ttl_minutes=TTL_MINUTES,
            fork_of=fork_of,
            schema=SCHEMA if form and role == "reviewer" else "",
            on_model_change="replay",
        )
        self._last = await self._flow.turn(
            key,
            self._flow.key(CONVERSATION),
            text,
            briefing=briefing,
            after=self._last,
            came_by="review",
            given=Given(consent=self._consent(role)),
            **options,
        )
        return self._last

    def _consent(self, role: RoleName) -> Consent:
        """Whose wish it is that the words of the others reach this role: the user's, if accounts are named. A
        role without one has that of its agent's last turn, so it must be the first one that names its own."""
        agent, order = self._of(role).agent, self._order
        roles = filter(None, (order.coder, order.reviewer, order.coordinator))
        first = next(each for each in roles if each.agent == agent)
        return "user" if first.account is not None else "none"


def settled(role: RoleName, turn: Turn) -> bool:
    """Whether the turn ended well. Raises ``Over`` if another try is of no use."""
    failure = turn.failure
    if failure is None:
        return True
    if failure.kind == "cancelled":
        raise Over("cancelled", f"the turn of the {role} was cancelled ({turn.run})")
    if failure.kind in HOPELESS:
        raise Over("failed", f"the {role} cannot work: {failure.message}")
    return False


def note_of(turn: Turn) -> str:
    """What a turn had done that ended by an error, for the session that takes its place."""
    failure = turn.failure
    why = f"{failure.kind}: {failure.message}" if failure is not None else "it was stopped"
    did = (
        "It may have run tools"
        if turn.tools_run is None
        else f"It had made {count_in_words(turn.tools_run, 'tool call')}"
    )
    said = f" It last said: {turn.text.strip()[-LONGEST_WORDS:]}" if turn.text.strip() else ""
    return (
        f"Your last turn ended by an error ({why}), so this is a new session. {did}; what it changed is still"
        f" there. Look before you repeat anything.{said}"
    )
