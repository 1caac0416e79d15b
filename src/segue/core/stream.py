"""Splits a stream of bytes into lines, whatever the size of its pieces.

A line of 20 MB is copied once, not once for every piece. A line beyond the cap is skipped and reported
as ``Oversize``; the lines after it are read correctly.

Folds a turn's events into the turn's state. Memory use stays constant however long the stream is.
"""

from __future__ import annotations

import msgspec

from segue.core import events as ev
from segue.core.tools import DeniedTools, distinct_names
from segue.core.usage import Limit, Pays, Usage

LINE_CAP = 64 * 1024 * 1024
HEAD_BYTES = 2_000


class Oversize(msgspec.Struct, frozen=True):
    """A line that was longer than the cap: its length and its beginning."""

    length: int
    head: bytes = b""


StreamLine = bytes | Oversize


class LineSplitter:
    """``feed`` takes a piece and returns whole lines, without newlines; ``finish`` returns the last one."""

    def __init__(self, cap: int = LINE_CAP) -> None:
        self._cap = cap
        self._open = bytearray()
        self._skipped = 0

    def feed(self, chunk: bytes) -> list[StreamLine]:
        head, newline, rest = chunk.partition(b"\n")
        self._extend(head)
        if not newline:
            return []
        whole = rest.split(b"\n")
        tail = whole.pop()
        lines = [self._close(), *(whole if len(rest) <= self._cap else map(self._checked, whole))]
        self._extend(tail)
        return lines

    def finish(self) -> list[StreamLine]:
        """The last line, if the stream did not end in a newline."""
        return [self._close()] if self._open or self._skipped else []

    def _extend(self, piece: bytes) -> None:
        if self._skipped:
            self._skipped += len(piece)
            return
        self._open += piece
        if len(self._open) > self._cap:
            self._skipped = len(self._open)
            self._open = self._open[:HEAD_BYTES]

    def _close(self) -> StreamLine:
        line = bytes(self._open)
        length, self._skipped, self._open = self._skipped, 0, bytearray()
        return Oversize(length, line) if length else line

    def _checked(self, line: bytes) -> StreamLine:
        return Oversize(len(line), line[:HEAD_BYTES]) if len(line) > self._cap else line


DELTAS_KEPT = 64 * 1024 * 1024
MOST_USD = 1e6
"""No request costs more. A cost above it, or below 0, counts as not known."""
OPEN_REQUESTS = 100


class TurnState:
    """The state after some events. ``add`` is the only way it changes."""

    def __init__(self) -> None:
        self.session_id: str | None = None
        self.model: str | None = None
        self.text = ""
        self.end: ev.End | None = None
        self.last_request: Usage | None = None
        self.requests = 0
        self.retries = 0
        self.last_retry: ev.Retry | None = None
        self.compacted = False
        self.notice = ""
        """The last notice that the CLI printed beside the conversation."""
        self.until: int | None = None
        """When a limit that the CLI reported ends."""
        self.limits: dict[str, Limit] = {}
        """The usage limits that the CLI reported, by window; when they were seen is not known here."""
        self.pays: Pays | None = None
        self.asked = False
        self.unknown = 0
        self.events = 0
        self._settled = Usage()
        self._settled_cost: float | None = None
        self._reports: dict[str, tuple[Usage, float | None]] = {}
        self._open: dict[str, str] = {}
        self._calls = 0
        self._denied = DeniedTools()
        self._deltas: list[str] = []
        self._deltas_size = 0

    def add(self, event: ev.Event) -> None:
        self.events += 1
        match event:
            case ev.Session():
                self.session_id = event.id
                self.model = event.model or self.model
                self.pays = event.pays or self.pays
            case ev.Heard():
                self._begin()
            case ev.Text():
                self.text = event.text
                self._drop_deltas()
            case ev.TextDelta():
                self._add_delta(event.text)
            case ev.ToolCall():
                self._calls += 1
                self._open[event.id] = event.name
                self._keep_spoken()
            case ev.ToolResult():
                self._result(event)
            case ev.UsageReport():
                self._usage(event)
            case ev.Retry():
                self.retries += 1
                self.last_retry = event
            case ev.Compacted():
                self.compacted = True
            case ev.Question():
                self.asked = True
            case ev.Notice():
                self.notice = event.text
                self.until = event.until or self.until
            case ev.LimitReport():
                self.limits[event.window] = Limit(event.window, event.used, event.resets_at)
            case ev.End():
                self.end = event
            case ev.Unknown():
                self.unknown += 1

    @property
    def answer(self) -> str:
        """The final text: the CLI's own result, else the latest fragments, else the last whole piece."""
        if self.end is not None and self.end.text is not None:
            return self.end.text
        return "".join(self._deltas) or self.text

    @property
    def usage(self) -> Usage:
        """The sum of the model requests reported so far."""
        return sum((usage for usage, _ in self._reports.values()), self._settled)

    @property
    def cost_usd(self) -> float | None:
        """The same sum in dollars, if the CLI reports what its requests cost."""
        costs = [cost for _, cost in self._reports.values() if cost is not None]
        return _sum(self._settled_cost, sum(costs) if costs else None)

    @property
    def tools_run(self) -> int:
        """Calls that ran or may have run: one without a result counts."""
        return self._calls - self._denied.count

    @property
    def tools_denied(self) -> DeniedTools:
        return self._denied

    def _usage(self, event: ev.UsageReport) -> None:
        known = self._reports.get(event.request) if event.request is not None else None
        usage = event.usage if known is None else known[0].replaced_by(event.usage)
        cost = event.cost_usd if event.cost_usd is not None and 0 <= event.cost_usd <= MOST_USD else None
        self.requests += known is None
        if event.request is None:
            self._settle(usage, cost)
        else:
            self._reports[event.request] = (usage, cost)
            if len(self._reports) > OPEN_REQUESTS:
                self._settle(*self._reports.pop(next(iter(self._reports))))
        if not event.side:
            self.last_request = usage
            self.model = event.model or self.model

    def _settle(self, usage: Usage, cost_usd: float | None) -> None:
        """Reports of one request come close together, so an old request will not change any more."""
        self._settled = self._settled + usage
        self._settled_cost = _sum(self._settled_cost, cost_usd)

    def _result(self, event: ev.ToolResult) -> None:
        name = self._open.pop(event.id, None)
        self._calls += name is None
        if event.denied:
            self._denied += DeniedTools(1, distinct_names((event.name or name or "",)))

    def _begin(self) -> None:
        """The texts and tools read so far belong to earlier turns."""
        self.text = ""
        self._drop_deltas()
        self._open.clear()
        self._calls, self._denied = 0, DeniedTools()

    def _add_delta(self, text: str) -> None:
        if self._deltas_size < DELTAS_KEPT:
            self._deltas.append(text)
            self._deltas_size += len(text)

    def _keep_spoken(self) -> None:
        if self._deltas:
            self.text = "".join(self._deltas)
            self._drop_deltas()

    def _drop_deltas(self) -> None:
        self._deltas.clear()
        self._deltas_size = 0


def _sum(a: float | None, b: float | None) -> float | None:
    return b if a is None else a if b is None else a + b
