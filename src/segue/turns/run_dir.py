"""The directory of a run: the plan of its attempt, and what stays of it afterwards.

The plan is written before the agent starts. Settling needs a plan and what came of it, nothing else: so the
next turn can settle one whose Segue was killed, from the plan and the stream. Once a run is settled its raw
stream stays as evidence: without secrets, compressed, and bounded in number.
"""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path
from typing import Any

import msgspec

from segue.core.json_values import decode
from segue.core.model import Host, Instructions, Message, Pin, Voice, Workdir
from segue.core.redact import Redactor
from segue.core.request import Grant, Request, Runtime, Terms
from segue.core.turn import Check, Mode, Sent
from segue.core.usage import Totals
from segue.store.leases import native_lease
from segue.system import clock
from segue.system.files import whole_file, write_whole

PLAN_FILE = "plan.json"
STREAMS = ("stdout", "stderr")
PROCESS = "process.json"
FORGOTTEN_S = 7 * 24 * 3600
KEPT_BYTES = 64 * 1024 * 1024
COMPRESS_BYTES = 64 * 1024
RUNS_KEPT = 200
CHUNK = 8 * 1024 * 1024


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


def write_plan(plan: Plan) -> None:
    """A power cut may take it: its gist stands in the store."""
    write_whole(plan.run_dir / PLAN_FILE, msgspec.json.encode(plan, enc_hook=_encode), durable=False)


def gist(plan: Plan) -> bytes:
    """The plan without what was sent, for the store: so much is left should the run's directory be lost."""
    request = plan.request
    bare = Request(prompt="", cwd=request.cwd, start=request.start, model=request.model, save=request.save)
    short = msgspec.structs.replace(plan, request=bare, notices=())
    return msgspec.json.encode(short, enc_hook=_encode)


def recalled_plan(data: bytes) -> Plan | None:
    """The plan of which this is the gist, as far as it goes."""
    try:
        return decode(data, Plan, _decode)
    except msgspec.MsgspecError:
        return None


def read_plan(run_dir: Path) -> Plan | None:
    try:
        return decode((run_dir / PLAN_FILE).read_bytes(), Plan, _decode)
    except (OSError, msgspec.MsgspecError):
        return None


def session_lease_name(plan: Plan) -> str | None:
    """A native session that is resumed has one writer too, whatever conversation it is in."""
    start = plan.request.start
    if start.mode != "resume" or start.session is None:
        return None
    return native_lease(plan.voice.agent, Host(plan.host, plan.host_id), start.session)


def archive(run_dir: Path, redactor: Redactor) -> str | None:
    """After the end: take secrets out of what the CLI printed, compress what is large, drop the rest.

    A stream in which a secret was met is not kept at all: it may stand there in fragments as well. Nor is
    one that is too large to look through. None, or what went wrong: that fails nothing.
    """
    trouble: OSError | None = None
    try:
        if not run_dir.exists():  # nothing was started
            return None
        paths = sorted(run_dir.iterdir())
        _bound(run_dir.parent)
    except OSError as error:
        trouble, paths = error, []
    for path in paths:
        try:
            _settle(path, redactor)
        except OSError as error:
            trouble = error
    return f"{run_dir} could not be cleared up: {trouble.strerror or trouble}" if trouble else None


def _settle(path: Path, redactor: Redactor) -> None:
    if path.name not in STREAMS or (path.name == "stdout" and redactor.found) or _too_large(path):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        return
    try:
        _clean(path, redactor)
    except OSError:  # rather lose it than leave a secret in it
        path.unlink()
        raise
    _compress(path)


def _too_large(path: Path) -> bool:
    return path.stat().st_size > KEPT_BYTES


def _clean(path: Path, redactor: Redactor) -> None:
    """Line by line, so that memory stays flat; the file is written anew only if a secret stands in it."""
    with path.open("rb") as source:
        if all(redactor.bytes(line) == line for line in source):
            return
    with path.open("rb") as source, whole_file(path) as target:
        for line in source:
            target.write(redactor.bytes(line))


def _compress(path: Path) -> None:
    if path.stat().st_size < COMPRESS_BYTES:
        return
    with (
        path.open("rb") as source,
        whole_file(path.with_name(path.name + ".gz"), durable=False) as raw,
        gzip.GzipFile(fileobj=raw, compresslevel=1, mode="wb") as packed,
    ):
        shutil.copyfileobj(source, packed, CHUNK)
    path.unlink()


def _bound(runs: Path) -> None:
    """Run ids sort by time: the first names are the oldest. One that was not settled may still run."""
    names = sorted(entry.name for entry in os.scandir(runs) if entry.is_dir())
    for name in names[:-RUNS_KEPT]:
        if not (runs / name / PROCESS).exists() or _age_s(runs / name) > FORGOTTEN_S:
            shutil.rmtree(runs / name, ignore_errors=True)


def _age_s(path: Path) -> float:
    return clock.now_s() - path.stat().st_mtime


def _encode(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(type(value))


def _decode(kind: type, value: Any) -> Any:
    if issubclass(kind, Path):
        return Path(value)
    raise NotImplementedError(kind)
