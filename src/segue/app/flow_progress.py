"""What is known of a flow's turn while it runs: what the agent was sent, and the tokens used so far."""

from __future__ import annotations

from pathlib import Path

import msgspec

from segue.app.workspace import Workspace
from segue.core.events import UsageReport
from segue.core.stream import TurnState
from segue.core.turn import Sent
from segue.core.usage import Usage
from segue.store.flow_records import FlowRun
from segue.store.records import BEGUN
from segue.turns.run_dir import PLAN_FILE

_REPORT = msgspec.json.Decoder(UsageReport)


class Progress(msgspec.Struct, frozen=True):
    """``sent_bytes`` None: that is known on the host only where it runs."""

    sent_bytes: int | None
    usage: Usage


class _Planned(msgspec.Struct):
    """What is read of an attempt's plan here."""

    sent: Sent = Sent()


_PLANNED = msgspec.json.Decoder(_Planned)


def progress_of(workspace: Workspace, runs: list[FlowRun]) -> dict[str, Progress]:
    """Of those that run now, by their ids."""
    return {each.run: _progress(workspace, each) for each in runs if each.state in BEGUN}


def _progress(workspace: Workspace, run: FlowRun) -> Progress:
    seen = TurnState()
    for event in workspace.store.flows.usage_events(run.run):
        seen.add(_REPORT.decode(event))
    sent = None
    for attempt in workspace.store.attempts(run.run)[-1:]:
        try:
            sent = _PLANNED.decode((Path(attempt.run_dir) / PLAN_FILE).read_bytes()).sent.bytes
        except (OSError, msgspec.MsgspecError):
            continue
    return Progress(sent, run.usage if run.usage != Usage() else seen.usage)
