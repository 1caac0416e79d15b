"""What an attempt is about to do, written down before it starts.

Settling needs a plan and what came of it, nothing else: so a turn whose Segue was killed can be settled by
the next one, from the plan and the stream that stand in the run's directory.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from segue.core.decoder import decode
from segue.core.grant import Grant, Terms
from segue.core.model import Instructions, Message, Pin, Standing, Voice, Workdir
from segue.core.request import Request, Runtime
from segue.core.turn import Check, Mode, Sent
from segue.core.usage import Totals

FILE = "plan.json"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of a turn."""

    turn: str
    attempt: str
    seq: int
    conversation: str
    key: str
    message: str
    """The user message it answers."""
    voice: Voice
    account: str
    model: str | None
    mode: Mode
    checks: tuple[Check, ...]
    runtime: Runtime
    request: Request
    workdir: Workdir
    named: str | None = None
    """The directory, where whoever goes on has to name it."""
    home: Path
    run_dir: Path
    host: str
    host_id: str | None = None
    login: str | None = None
    started_ms: int
    time_s: float | None = None
    """The time limit of the attempt."""
    base: Totals = Totals()
    pin: Pin | None = None
    """The pin it goes on from, or would replace; without what it holds."""
    kept_rows: int = 0
    """How many deliveries of that session are kept."""
    text: tuple[Message, ...]
    """What is sent as text; the user message is the last. Empty where the session has all of it already."""
    corrections: tuple[Message, ...] = ()
    anchor: str | None = None
    """Where a branch cuts."""
    under: tuple[str, ...] = ()
    instructions: Instructions | None = None
    """Those the session has once this attempt went well."""
    epoch: int = 0
    standing: Standing | None = None
    """How the conversation stands, the message that is sent included; None where that is not kept."""
    terms: Terms = Terms()
    grant: Grant | None = None
    """What the voice remembers of that."""
    offers: tuple[str, ...] | None = None
    """What of the request shapes the set of tools that the model is shown."""
    sent: Sent = Sent()
    notices: tuple[str, ...] = ()
    replay_tokens: int = 0
    """What sending the whole view would have taken, estimated."""
    overhead: int = 0
    """What a new session takes before anything is said, in tokens, estimated."""
    overhead_warm: bool = False
    predicted_usd: float | None = None


def write(plan: Plan) -> None:
    """Whole or not at all, for this user alone."""
    plan.run_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = plan.run_dir / f"{FILE}.new"
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:
        file.write(msgspec.json.encode(plan, enc_hook=_encode))
    part.replace(plan.run_dir / FILE)


def gist(plan: Plan) -> bytes:
    """The plan without what was sent, for the store: so much is left should the run's directory be lost."""
    request = plan.request
    bare = Request(prompt="", cwd=request.cwd, start=request.start, model=request.model, save=request.save)
    kept = msgspec.structs.replace(plan, request=bare, notices=())
    return msgspec.json.encode(kept, enc_hook=_encode)


def recalled(data: bytes) -> Plan | None:
    """The plan of which this is the gist, as far as it goes."""
    try:
        return decode(data, Plan, _decode)
    except msgspec.MsgspecError:
        return None


def read(run_dir: Path) -> Plan | None:
    try:
        return decode((run_dir / FILE).read_bytes(), Plan, _decode)
    except (OSError, msgspec.MsgspecError):
        return None


def _encode(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value))


def _decode(kind: type, value: Any) -> Any:
    if issubclass(kind, Path):
        return Path(value)
    raise NotImplementedError(kind)
