"""Live changes: subscribers get what changed in the store, in order, and what agents say as they say it.

What is settled has a number, ``feed:seq``, and is read from the store. So a subscriber that was away reads on
where it was, and changes that other processes make are seen, too. Fragments of texts have no number: they
come directly from the run, and the settled event repeats them whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress

import msgspec
from anyio.to_thread import run_sync

from segue.app.run_shapes import Changed, Delta, FeedEvent, Hello
from segue.app.runs import show_run
from segue.app.store_changes import StoreChanges
from segue.app.workspace import Workspace
from segue.core import events as ev
from segue.core.errors import SegueError
from segue.core.turn import Turn, status_of
from segue.store.records import FeedRow
from segue.turns.follow import follow
from segue.turns.observer import Observer

PAUSE_S, AWAY_PAUSE_S = 0.02, 1.0
"""The shortest time between two readings of the feed, and the pause before the next try while the store is
away."""
ROOM = 2_000
"""How many items wait for a slow subscriber before it is told that it missed some."""
PAGE = 500


class FeedItem(msgspec.Struct, frozen=True):
    """One event of a subscription. ``id``: only of what is settled."""

    kind: str
    data: Hello | Changed | FeedEvent | Delta | None
    """None: nothing has happened for a while (``idle``)."""
    id: str | None = None
    run: str | None = None


IDLE = FeedItem("idle", None)


class LiveText:
    """What a running turn has said so far: which piece it is writing, and that piece."""

    def __init__(self) -> None:
        self.block, self.text = 0, ""

    def add(self, run: str, event: ev.Event) -> Delta | None:
        if isinstance(event, ev.TextDelta):
            delta = Delta(run, self.block, len(self.text), event.text)
            self.text += event.text
            return delta
        if isinstance(event, ev.Text):
            self.block, self.text = self.block + 1, ""
        return None


class Subscriptions:
    """All subscribers of one process."""

    def __init__(self, workspace: Workspace, is_ours: Callable[[str], bool], changes: StoreChanges) -> None:
        self._workspace, self._is_ours, self._changes = workspace, is_ours, changes
        self._queues: dict[asyncio.Queue[FeedItem | None], str | None] = {}
        self._texts: dict[str, LiveText] = {}
        self._followed: dict[str, asyncio.Task[None]] = {}
        self._seq = 0
        self._feed = ""
        self._poller: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()

    @property
    def count(self) -> int:
        """How many subscribers there are."""
        return len(self._queues)

    def watch(self, run: str, event: ev.Event | None) -> None:
        """An event of a run, as it comes; None: it has ended. Called in the event loop."""
        if event is None:
            self._texts.pop(run, None)
            return
        delta = self._texts.setdefault(run, LiveText()).add(run, event)
        if delta is not None:
            self._publish(FeedItem("delta", delta, run=run))

    async def subscribe(
        self, after: str | None = None, run: str | None = None, idle_s: float | None = None
    ) -> AsyncGenerator[FeedItem]:
        """What changes from now on, or since the event with the id ``after``. ``run``: only that run's
        events, until it is settled, and without ``after`` from its beginning. ``idle_s``: how long nothing
        happens before that is told."""
        queue: asyncio.Queue[FeedItem | None] = asyncio.Queue(ROOM)
        _, came = await run_sync(self._workspace.store.feed_bounds)
        try:
            start = await self._open(queue, run)
            since = await run_sync(self._since, after)
            yield FeedItem("hello", self._hello(since is None, start, self._so_far(run)))
            if run is not None:
                first = came if since is None else 0 if after is None else since
                async for item in self._of_run(run, first, start):
                    yield item
                    if _is_over(item):
                        return
            else:
                async for item in self._replay(came if since is None or after is None else since, start):
                    yield item
            async for item in self._live(queue, run, idle_s):
                yield item
        finally:
            self._queues.pop(queue, None)
            if not self._queues:
                self._rest()

    async def _of_run(self, run: str, since: int, upto: int) -> AsyncGenerator[FeedItem]:
        """What the store has of a run after that number; if it is over, everything, and that it is over last.
        What is older than the feed comes first, without ids."""
        over = await run_sync(self._settled, run)
        if over is not None:  # everything of it is in the store by now
            _, upto = await run_sync(self._workspace.store.feed_bounds)
        if since == 0:
            for item in await run_sync(self._older, run):
                yield item
        async for item in self._replay(since, upto, run):
            yield item
            if _is_over(item):
                return
        if over is not None:
            yield over

    def _older(self, run: str) -> list[FeedItem]:
        """The events of a run that the feed has forgotten."""
        return [
            FeedItem("event", FeedEvent(run=run, n=n, ms=ms, event=msgspec.Raw(event.encode())), run=run)
            for n, ms, event in self._workspace.store.events_before_feed(run)
        ]

    async def _live(
        self, queue: asyncio.Queue[FeedItem | None], run: str | None, idle_s: float | None
    ) -> AsyncGenerator[FeedItem]:
        while True:
            try:
                async with asyncio.timeout(idle_s if queue.empty() else None):
                    item = await queue.get()
            except TimeoutError:
                yield IDLE
                continue
            if item is None:  # it was too slow
                while not queue.empty():
                    queue.get_nowait()
                yield FeedItem("hello", self._hello(True, self._seq, self._so_far(run)))
                if run is not None and (over := await run_sync(self._settled, run)) is not None:
                    yield over
                    return
            elif run is None or item.run == run:
                yield item
                if run is not None and _is_over(item):
                    return

    def _hello(self, missed: bool, seq: int, running: tuple[Delta, ...] = ()) -> Hello:
        return Hello(status="gap" if missed else "ok", feed=self._feed, seq=seq, running=running)

    async def _replay(self, since: int, upto: int, run: str | None = None) -> AsyncGenerator[FeedItem]:
        while since < upto:
            rows = await run_sync(self._workspace.store.feed_after, since, PAGE, run)
            rows = [row for row in rows if row.seq <= upto]
            if not rows:
                return
            for item in await run_sync(self._items, rows):
                yield item
            since = rows[-1].seq

    def _settled(self, run: str) -> FeedItem | None:
        shown = show_run(self._workspace, run)
        if status_of(shown.state) is None:
            return None
        return FeedItem("run", Changed(kind="run", conversation=shown.conversation, run=shown), run=run)

    def _since(self, after: str | None) -> int | None:
        """The number to read on from; None: something after it cannot be read any more."""
        oldest, newest = self._workspace.store.feed_bounds()
        if after is None:
            return newest
        feed, _, number = after.rpartition(":")
        if (
            feed != self._feed
            or not number.isdecimal()
            or len(number) > 18
            or not oldest - 1 <= int(number) <= newest
        ):
            return None
        return int(number)

    def _so_far(self, run: str | None) -> tuple[Delta, ...]:
        return tuple(
            Delta(each, text.block, 0, text.text)
            for each, text in self._texts.items()
            if run is None or each == run
        )

    async def _open(self, queue: asyncio.Queue[FeedItem | None], run: str | None) -> int:
        """Begin to collect for this subscriber; the first one starts the polling. Returns the number after
        which everything is collected: what comes before it has to be replayed."""
        async with self._opening:
            if self._poller is None or self._poller.done():
                store = self._workspace.store
                self._feed = self._feed or await run_sync(store.feed_name)
                _, self._seq = await run_sync(store.feed_bounds)
                self._poller = asyncio.create_task(self._poll(), name="feed")
        self._queues[queue] = run
        start = self._seq  # nothing may happen between these two lines
        for row in await run_sync(self._workspace.store.begun):
            self._follow(row.id)
        return start

    def _rest(self) -> None:
        for task in (self._poller, *self._followed.values()):
            if task is not None:
                task.cancel()
        for run in self._followed:
            self._texts.pop(run, None)
        self._poller, self._followed = None, {}
        self._changes.hurry(False)

    def close(self) -> None:
        self._rest()

    async def _poll(self) -> None:
        """Read the feed whenever the store has changed, while there are subscribers."""
        changed = self._changes.open()
        try:
            while True:
                changed.clear()
                try:
                    await self._read_on()
                except SegueError:  # the store may be away
                    changed.set()
                    await asyncio.sleep(AWAY_PAUSE_S)
                await asyncio.sleep(PAUSE_S)
                await changed.wait()
        finally:
            self._changes.close(changed)

    async def _read_on(self) -> None:
        while rows := await run_sync(self._workspace.store.feed_after, self._seq, PAGE):
            for item in await run_sync(self._items, rows):
                self._publish(item)
                self._note(item)
            self._seq = rows[-1].seq

    def _note(self, item: FeedItem) -> None:
        """Follow a run that began elsewhere; forget the text of one that is over."""
        if isinstance(item.data, Changed) and item.data.run is not None:
            shown = item.data.run
            if status_of(shown.state) is not None:
                self._texts.pop(shown.run, None)
            elif shown.state in ("running", "needs_you"):
                self._follow(shown.run)

    def _follow(self, run: str) -> None:
        if self._is_ours(run) or run in self._followed:
            return
        task = self._followed[run] = asyncio.create_task(self._follow_run(run), name=f"follow {run}")
        self._changes.hurry(True)

        def forget(_: object) -> None:
            self._followed.pop(run, None)
            self._changes.hurry(bool(self._followed))
            if not self._is_ours(run):
                self._texts.pop(run, None)

        task.add_done_callback(forget)

    async def _follow_run(self, run: str) -> None:
        """The texts of a run that another process runs, from its stream file."""
        workspace = self._workspace
        with suppress(SegueError):
            here = await run_sync(lambda: Observer.here("", workspace.env, workspace.config))
            self._texts[run] = LiveText()
            async with aclosing(follow(workspace.store, run, here)) as events:
                async for event in events:
                    if not isinstance(event, Turn) and not self._is_ours(run):
                        self.watch(run, event)

    def _publish(self, item: FeedItem) -> None:
        for queue, run in self._queues.items():
            if run is not None and run != item.run:
                continue
            try:
                queue.put_nowait(item)
            except asyncio.QueueFull:
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(None)

    def _items(self, rows: list[FeedRow]) -> list[FeedItem]:
        """The rows as items. What changed several times is shown once, as it is now, in its last place."""
        last = {(row.kind, row.conversation, row.run, row.item): row.seq for row in rows}
        keys: dict[str, str | None] = {}
        found = []
        for row in rows:
            if last[row.kind, row.conversation, row.run, row.item] != row.seq:
                continue
            data = self._data(row, keys)
            if data is not None:
                kind = "event" if isinstance(data, FeedEvent) else row.kind
                found.append(FeedItem(kind, data, f"{self._feed}:{row.seq}", row.run))
        return found

    def _data(self, row: FeedRow, keys: dict[str, str | None]) -> Changed | FeedEvent | None:
        if row.kind == "event":
            if row.event is None or row.run is None:
                return None
            return FeedEvent(
                run=row.run, n=int(row.item or 0), ms=row.ms, event=msgspec.Raw(row.event.encode())
            )
        if row.kind == "removed":
            return Changed(kind="removed", conversation=row.item)
        if row.kind == "flow":
            return Changed(kind="flow", conversation=None, flow=row.item)
        conversation = row.conversation or ""
        if conversation not in keys:
            known = self._workspace.store.conversation_by_id(conversation)
            keys[conversation] = known.key if known is not None else None
        key = keys[conversation]
        if key is None:  # it was removed since: that comes later
            return None
        if row.kind == "run" and row.run is not None:
            return self._run(row.run, row.seq, key)
        return Changed(kind=row.kind, conversation=key, message=row.item)

    def _run(self, run: str, seq: int, key: str) -> Changed | None:
        """A run as it is now. That it is settled is told by the last change only: its events come before."""
        store = self._workspace.store
        with suppress(SegueError):
            shown = show_run(self._workspace, run)
            if status_of(shown.state) is None or store.last_change(run) <= seq:
                return Changed(kind="run", conversation=key, run=shown)
        return None


def _is_over(item: FeedItem) -> bool:
    shown = item.data.run if isinstance(item.data, Changed) else None
    return shown is not None and status_of(shown.state) is not None
