"""The directory of a run: the plan of its attempt, and what is kept afterwards.

The plan is written before the agent starts. Settling needs only a plan and its outcome, so the next turn can
settle one whose Segue was killed from the plan and the stream. Once a run is settled, its raw stream is kept
as evidence: without secrets, compressed, and for a limited number of runs.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from segue.core.json_values import decode
from segue.core.model import Host, Instructions, Message, Pin, Voice, Workdir
from segue.core.redact import Redactor
from segue.core.request import Grant, Request, Runtime, Terms
from segue.core.turn import Check, LineageKind, Mode, RungShown, Sent, Transport
from segue.core.usage import Limit, Pays, Totals
from segue.core.verdicts import Said, say
from segue.store.leases import native_lease
from segue.system import clock
from segue.system.files import whole_file, write_whole

PLAN_FILE = "plan.json"
STREAMS = ("stdout", "stderr")
PROCESS = "process.json"
SECRETS = "secrets.json"
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
    parent: str | None = None
    """The run that it comes from if it begins a session, as its flow says."""
    came_by: LineageKind = "escalation"
    """How it comes from that run."""
    voice: Voice
    account: str
    transport: Transport = "process"
    model: str | None
    mode: Mode
    checks: tuple[Check, ...]
    runtime: Runtime
    request: Request
    workdir: Workdir
    named: str | None = None
    """The directory, if a command that continues has to name it."""
    home: Path
    run_dir: Path
    host: str
    host_id: str | None = None
    login: str | None = None
    pays: Pays = "unknown"
    """What was expected to pay for it."""
    paid: Pays = "unknown"
    """What paid for the voice's last turn."""
    limits: tuple[Limit, ...] = ()
    """The account's usage limits, as they were known before it."""
    started_ms: int
    time_s: float | None = None
    """The time limit of the attempt."""
    base: Totals = Totals()
    pin: Pin | None = None
    """The pin that it continues or would replace; without what its session holds."""
    kept_rows: int = 0
    """How many deliveries of that session are kept."""
    text: tuple[Message, ...]
    """What is sent as text, ending with the user message. Empty if the session already has all of it."""
    corrections: tuple[Message, ...] = ()
    anchor: str | None = None
    """Where a branch cuts."""
    under: tuple[str, ...] = ()
    instructions: Instructions | None = None
    """Those that the session has after this attempt, if it succeeds."""
    epoch: int = 0
    terms: Terms = Terms()
    grant: Grant | None = None
    """What the voice remembers of the terms."""
    offers: tuple[str, ...] | None = None
    """What in the request determines the tools that the model is shown."""
    sent: Sent = Sent()
    notices: tuple[Said, ...] = msgspec.field(default=(), name="said")
    """In plans of older versions, ``notices`` are texts. They are told before a plan is read again."""
    replay_tokens: int = 0
    """The estimated tokens of the whole view as text."""
    overhead: int = 0
    """The estimated tokens of a new session before its first message."""
    overhead_warm: bool = False
    predicted_usd: float | None = None
    rungs: tuple[RungShown, ...] = ()


def write_plan(plan: Plan) -> None:
    """Write the plan to disk. It need not survive a power cut, because its gist is in the store."""
    write_whole(plan.run_dir / PLAN_FILE, msgspec.json.encode(plan, enc_hook=_encode), durable=False)


def gist(plan: Plan) -> bytes:
    """The plan without what was sent, for the store, in case the run's directory is lost."""
    request = plan.request
    bare = Request(prompt="", cwd=request.cwd, start=request.start, model=request.model, save=request.save)
    short = msgspec.structs.replace(plan, request=bare, notices=())
    return msgspec.json.encode(short, enc_hook=_encode)


def recalled_plan(data: bytes) -> Plan | None:
    """The plan that this is the gist of, without what was sent; None if it is unreadable."""
    try:
        return decode(data, Plan, _decode)
    except msgspec.MsgspecError:
        return None


def read_plan(run_dir: Path) -> Plan | None:
    try:
        return decode((run_dir / PLAN_FILE).read_bytes(), Plan, _decode)
    except (OSError, msgspec.MsgspecError):
        return None


def write_secrets(run_dir: Path, secrets: Sequence[str]) -> None:
    """Note what must not be shown or stored, for this user's eyes alone and until the run is settled: whoever
    adopts the run does not have the environment that it was started with."""
    if secrets:
        write_whole(run_dir / SECRETS, msgspec.json.encode(list(secrets)), durable=False)


def read_secrets(run_dir: Path) -> list[str]:
    """What ``write_secrets`` noted."""
    try:
        return decode((run_dir / SECRETS).read_bytes(), list[str])
    except (OSError, msgspec.MsgspecError):
        return []


def session_lease_name(plan: Plan) -> str | None:
    """The lease of a native session that is resumed: it has one writer across all conversations."""
    start = plan.request.start
    if start.mode != "resume" or start.session is None:
        return None
    return native_lease(plan.voice.agent, Host(plan.host, plan.host_id), start.session)


def archive(run_dir: Path, redactor: Redactor) -> Said | None:
    """After the end: remove secrets from the CLI's output, compress what is large, delete the rest.

    A stream in which a secret was found is not kept, because it may also contain it in fragments. Nor is one
    that is too large to search. Returns None, or a notice of what went wrong.
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
    if trouble is None:
        return None
    why = trouble.strerror or str(trouble)
    return say(f"{run_dir} could not be cleaned up: {why}", "notice.unclean", there=str(run_dir), why=why)


def _settle(path: Path, redactor: Redactor) -> None:
    if path.name not in STREAMS or (path.name == "stdout" and redactor.found) or _too_large(path):
        _remove(path)
        return
    try:
        _clean(path, redactor)
    except OSError:  # better to lose it than to leave a secret in it
        path.unlink()
        raise
    _compress(path)


def _remove(path: Path) -> None:
    if not path.is_dir():
        path.unlink()
        return
    import shutil  # takes long to load, and most runs leave only files

    shutil.rmtree(path)


def _too_large(path: Path) -> bool:
    return path.stat().st_size > KEPT_BYTES


def _clean(path: Path, redactor: Redactor) -> None:
    """Remove secrets line by line, to save memory, unless one has several lines; the file is rewritten only
    if it contains a secret."""
    if redactor.spans_lines:
        whole = path.read_bytes()
        if (clean := redactor.bytes(whole)) != whole:
            write_whole(path, clean)
        return
    with path.open("rb") as source:
        if all(redactor.bytes(line) == line for line in source):
            return
    with path.open("rb") as source, whole_file(path) as target:
        for line in source:
            target.write(redactor.bytes(line))


def _compress(path: Path) -> None:
    if path.stat().st_size < COMPRESS_BYTES:
        return
    import gzip
    import shutil

    with (
        path.open("rb") as source,
        whole_file(path.with_name(path.name + ".gz"), durable=False) as raw,
        gzip.GzipFile(fileobj=raw, compresslevel=1, mode="wb") as packed,
    ):
        shutil.copyfileobj(source, packed, CHUNK)
    path.unlink()


def _bound(runs: Path) -> None:
    """Delete the oldest runs; run ids sort by time. An unsettled one may still run, so it stays longer."""
    names = sorted(entry.name for entry in os.scandir(runs) if entry.is_dir())
    for name in names[:-RUNS_KEPT]:
        import shutil

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
