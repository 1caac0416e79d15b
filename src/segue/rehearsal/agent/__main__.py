"""The rehearsal agent: a small built-in coding-agent CLI. No account, no network.

    echo "remember the number 456" | python -m segue.rehearsal.agent
    echo "what number?" | python -m segue.rehearsal.agent --resume ID

It has what real ones have: sessions on disk, resume, fork, branch, a chosen id, permissions, tools,
questions, usage and cost, and every way to fail. It prints one JSON record per line; the last one has the
type ``end``. Its sessions are in ``REHEARSAL_HOME``. ``REHEARSAL_SCENARIO`` is a scenario, in the loopback
model's format. ``REHEARSAL_PAYS`` is what it says that it is paid by.
Exit code 0: answered; 1: failed (``end`` says how); 2: misuse (stderr says how).
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import Any

import msgspec

from segue import __version__
from segue.rehearsal.agent.loop import AgentTurn, Settings, Stopped
from segue.rehearsal.agent.store import (
    SESSION_ID,
    Header,
    Refused,
    Session,
    Store,
    cut,
    default_home,
    new_id,
    now_ms,
)
from segue.rehearsal.agent.tools import WINDOW, Rules
from segue.rehearsal.script import Script

SUMMARY = "A small coding agent for rehearsals: no account, no network. The prompt comes on stdin."


def parse_options(argv: list[str] | None) -> Namespace:
    parser = ArgumentParser("rehearsal", description=SUMMARY, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"{__version__} (rehearsal)")
    parser.add_argument("--resume", type=_session_id, metavar="ID", help="continue this session")
    parser.add_argument(
        "--fork", action="store_true", help="with --resume: continue under a new id, keep the old session"
    )
    parser.add_argument("--at", metavar="MESSAGE", help="with --fork: copy only up to this answer")
    parser.add_argument("--session-id", type=_session_id, metavar="NEW", help="the id of the new session")
    parser.add_argument("--no-save", action="store_true", help="write no session")
    parser.add_argument("--model")
    parser.add_argument("--permission", choices=("default", "read", "edit", "full"), default="default")
    parser.add_argument("--allow-tool", action="append", default=[], metavar="TOOL")
    parser.add_argument("--deny-tool", action="append", default=[], metavar="TOOL")
    parser.add_argument(
        "--max-turns", type=_count, metavar="N", default=1000, help="make at most N model requests"
    )
    parser.add_argument(
        "--system-prompt-file", type=Path, metavar="FILE", help="a system prompt, kept with the session"
    )
    parser.add_argument("--input", choices=("text", "jsonl"), default="text", help="the format of stdin")
    parser.add_argument(
        "--no-questions", action="store_true", help="do not offer the tool that asks the user"
    )
    given = parser.parse_args(argv)
    if given.fork and not given.resume:
        parser.error("--fork needs --resume")
    if given.at and not given.fork:
        parser.error("--at needs --fork")
    if given.session_id and given.resume and not given.fork:
        parser.error("--session-id with --resume needs --fork")
    return given


def _session_id(text: str) -> str:
    if not SESSION_ID.fullmatch(text):
        raise ArgumentTypeError(f"{text!r} is not a session id")
    return text


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


MODEL = "rehearsal-1"


def main(argv: list[str] | None = None) -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    given = parse_options(argv)
    try:
        return _run(given, _prompt(given), _script())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _prompt(given: Namespace) -> str:
    """The prompt: all of stdin, or its first record (answers may follow it)."""
    try:
        if given.input == "jsonl":
            record = msgspec.json.decode(sys.stdin.buffer.readline())
            prompt = record["text"] + "".join(map(_attached, record.get("files", ())))
        else:
            prompt = sys.stdin.buffer.read().decode()
    except (UnicodeDecodeError, msgspec.DecodeError, KeyError, TypeError, AttributeError, OSError):
        prompt = None
    if not isinstance(prompt, str) or not prompt.strip():
        sys.exit(_misuse("stdin has no readable prompt"))
    return prompt


def _attached(file: dict[str, str]) -> str:
    """What the session keeps of a file that came with the prompt."""
    data = Path(file["path"]).read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    return f"\n[file {file['name']}: {file['media_type']}, {len(data)} bytes, {digest}]"


def _script() -> Script:
    """The script of the model, with the scenario if one is set."""
    file = os.environ.get("REHEARSAL_SCENARIO")
    if not file:
        return Script()
    from segue.rehearsal.agent.loop import load_script

    try:
        return load_script(Path(file), default_home(os.environ))
    except ValueError as error:
        sys.exit(_misuse(f"cannot use the scenario: {error}"))


def _run(given: Namespace, prompt: str, script: Script) -> int:
    try:
        session = _open(given)
    except Refused as refused:
        return _fail({"kind": refused.kind, "reason": refused.reason, "message": str(refused)}, None)
    model = given.model or session.header.model
    _announce(session, model)
    rules = Rules(given.permission, frozenset(given.allow_tool), frozenset(given.deny_tool))
    settings = Settings(rules, Path.cwd(), model, given.max_turns)
    asks = given.input == "jsonl" and not given.no_questions
    turn = AgentTurn(session, settings, _emit, _answer if asks else None, script)
    try:
        answer = turn.run(prompt)
    except Stopped as stopped:
        return _fail(stopped.error, turn)
    said = {"text": answer.text, "message_id": answer.id} if answer else {"text": "", "message_id": None}
    _emit({"type": "end", "ok": True, **said, **_spent(turn)})
    return 0


def _announce(session: Session, model: str) -> None:
    about = {"id": session.header.id, "model": model, "cwd": os.getcwd(), "parent": session.header.parent}
    pays = {"pays": os.environ["REHEARSAL_PAYS"]} if os.environ.get("REHEARSAL_PAYS") else {}
    _emit({"type": "session", **about, "saved": session.saved, "held": session.held, **pays})


def _open(given: Namespace) -> Session:
    """The session that the options ask for: a new one, an old one, or a copy of an old one."""
    store = Store(default_home(os.environ))
    save = not given.no_save
    if given.resume and not given.fork:
        return store.resume(given.resume, save=save)
    header = Header(
        id=given.session_id or new_id(),
        cwd=os.getcwd(),
        model=given.model or MODEL,
        created_ms=now_ms(),
        system=_system(given.system_prompt_file),
    )
    if not given.resume:
        return store.create(header, [], save=save)
    source, messages = store.read(given.resume)
    messages = cut(messages, given.at) if given.at else messages
    header = msgspec.structs.replace(
        header,
        model=given.model or source.model,
        system=header.system or source.system,
        parent=source.id,
        at=given.at,
    )
    return store.create(header, messages, save=save)


def _system(file: Path | None) -> str:
    try:
        return file.read_text(encoding="utf-8") if file else ""
    except (OSError, UnicodeDecodeError) as error:
        sys.exit(_misuse(f"cannot read the system prompt: {error}"))


_EARLY: dict[str, dict[str, Any]] = {}
"""Answers that came before they were needed."""


def _answer(call_id: str) -> dict[str, Any] | None:
    """The user's answer to a question; ``None`` if stdin ends first. Other lines are ignored."""
    if call_id in _EARLY:
        return _EARLY.pop(call_id)
    for line in iter(sys.stdin.buffer.readline, b""):
        try:
            answer = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.MsgspecError:
            continue
        if answer.get("type") == "answer" and answer.get("id") == call_id:
            return answer
        if answer.get("type") == "answer":
            _EARLY[str(answer.get("id"))] = answer
    return None


def _fail(error: dict[str, Any], turn: AgentTurn | None) -> int:
    _emit({"type": "end", "ok": False, "error": error, **(_spent(turn) if turn else {})})
    return 1


def _spent(turn: AgentTurn) -> dict[str, Any]:
    meter = turn.meter
    return {
        "usage": msgspec.to_builtins(meter.total),
        "cost_usd": meter.cost_usd,
        "context": {"used": meter.last_prompt or None, "window": WINDOW},
        "requests": meter.requests,
    }


def _misuse(message: str) -> int:
    sys.stderr.write(f"rehearsal: {message}\n")
    return 2


def _emit(record: dict[str, Any]) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(record) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
