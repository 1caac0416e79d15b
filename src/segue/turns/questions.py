"""What an agent asks while it works: stored with the run, and answered exactly once.

The caller's own callback is asked, and everybody who sees the run: another process answers through the store.
The first answer counts. Loaded when something is asked.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import anyio
import msgspec
from anyio.to_thread import run_sync

from segue.agents.base import Answer
from segue.core.errors import SegueError
from segue.core.events import Permission, Question
from segue.core.question import OpenQuestion, open_question
from segue.core.tools import changing
from segue.runner.attempt import NOBODY, REFUSED, Answerer
from segue.system import clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from segue.store.questions import QuestionRow
    from segue.turns.live_turn import StoredTurn

LOOK_S = 0.2
"""How often the store is asked whether somebody has answered."""
T = TypeVar("T")


async def elsewhere(event: Question | Permission) -> Answer:
    """The callback of a run whose questions are answered through the store only."""
    await anyio.sleep_forever()
    return NOBODY


async def ask(
    live: StoredTurn,
    event: Question | Permission,
    answerer: Answerer | None,
    shown: OpenQuestion | None = None,
    stored: Callable[[], None] | None = None,
) -> Answer:
    """The answer of whoever is first. ``answerer`` None: nobody is expected to answer. ``shown``: what is
    stored, if it is not the agent that asks; ``stored``: is called once it is."""
    if isinstance(event, Permission):
        if _is_beyond_reading(live, event):
            return REFUSED
        if await _stored(lambda: _allowed(live, event), False):
            return Answer(True)
    if answerer is None:
        return NOBODY if isinstance(event, Question) else REFUSED
    shown = shown or open_question(live.redactor.event(event), clock.now_ms())
    text = msgspec.json.encode(shown).decode()
    await _stored(lambda: live.store.ask(live.row.id, event.id, text), False)
    if stored is not None:
        await _stored(stored, None)
    asking = _Asking(live, event)
    with anyio.move_on_after(live.patience_s):
        return await asking.first(answerer)
    return await asking.given(None) or _too_late(event, live.patience_s)


async def sent(live: StoredTurn, event: Question | Permission) -> None:
    """The agent has been sent the answer."""
    await _stored(lambda: live.store.told(live.row.id, event.id), None)


def never_began(row: QuestionRow) -> bool:
    """Whether it belongs to a run that ended before it began: others need not wait for the answer."""
    return row.state == "lapsed" and msgspec.json.decode(row.question, type=OpenQuestion).kind == "budget"


class _Asking:
    """One question until it has its answer."""

    def __init__(self, live: StoredTurn, event: Question | Permission) -> None:
        self._live, self._event = live, event
        self._answer: Answer | None = None
        self._failure: Exception | None = None

    async def first(self, answerer: Answerer) -> Answer:
        """The first answer. What the callback raises is raised, and nobody else can answer then."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._here, answerer, tasks.cancel_scope)
            tasks.start_soon(self._there, tasks.cancel_scope)
        if self._answer is None:
            await self.given(None)
            raise self._failure or RuntimeError("nobody answered")
        if isinstance(self._event, Permission) and self._answer.allow and self._answer.always:
            live, tool = self._live, self._event.tool
            await _stored(lambda: live.store.allow_tool(live.row.conversation, live.row.voice, tool), None)
        return self._answer

    async def given(self, mine: Answer | None) -> Answer | None:
        """Give an answer (None: nobody will). Returns the one that counts: another may have been first."""
        store, run, name = self._live.store, self._live.row.id, self._event.id
        text = None if mine is None else msgspec.json.encode(mine).decode()
        with anyio.CancelScope(shield=True):
            ours = await _stored(lambda: store.answer(run, name, text), True)
            other = None if ours else await _stored(self._read, None)
        return other or mine

    async def _here(self, answerer: Answerer, scope: anyio.CancelScope) -> None:
        try:
            mine = await answerer(self._event)
            if not isinstance(mine, Answer):
                raise TypeError(f"it returned {mine!r:.60}, not an Answer")
            self._answer = await self.given(mine)
        except Exception as failure:
            self._failure = failure
        scope.cancel()

    async def _there(self, scope: anyio.CancelScope) -> None:
        while self._answer is None:
            await anyio.sleep(LOOK_S)
            self._answer = self._answer or await _stored(self._read, None)
        scope.cancel()

    def _read(self) -> Answer | None:
        """The answer in the store, if somebody has given one."""
        rows = self._live.store.questions(self._live.row.id)
        row = next((each for each in rows if each.id == self._event.id), None)
        return None if row is None else _answer_of(row)


def _is_beyond_reading(live: StoredTurn, event: Permission) -> bool:
    """Whether a turn that may only read asks for a tool that may write or run something: nobody can allow it
    then. What a rule allows, the agent does not ask for."""
    prepared = live.prepared
    if prepared.request.permission != "read":
        return False
    return bool(changing(prepared.runtime.capabilities.tools, (event.tool,)))


def _allowed(live: StoredTurn, event: Permission) -> bool:
    """Whether the user has allowed it before: for good, or by the answer that this turn was sent with."""
    if event.tool in live.store.always_allowed(live.row.conversation, live.row.voice):
        return True
    shown = open_question(live.redactor.event(event), 0)
    for row in live.store.carried(live.row.id):
        asked, answer = msgspec.json.decode(row.question, type=OpenQuestion), _answer_of(row)
        same = (asked.tool, asked.input) == (shown.tool, msgspec.to_builtins(shown.input))
        if asked.kind == "permission" and same and answer is not None and answer.allow:
            return True
    return False


def _answer_of(row: QuestionRow) -> Answer | None:
    return None if row.answer is None else msgspec.json.decode(row.answer, type=Answer)


def _too_late(event: Question | Permission, limit_s: float) -> Answer:
    minutes = max(1, round(limit_s / 60))
    nobody = f"nobody answered within {minutes} minute{'s' if minutes != 1 else ''}."
    if isinstance(event, Question):
        return Answer(False, f"{nobody} Decide for yourself, and say what you assumed.")
    return Answer(False, f"{nobody} Go on without the tool, and say what is missing.")


async def _stored(work: Callable[[], T], otherwise: T) -> T:
    """What the store says; ``otherwise`` while it is away: the question is answered all the same."""
    with suppress(SegueError):
        return await run_sync(work)
    return otherwise
