"""The rehearsal agent: a small coding-agent CLI of our own. No account, no network.

    echo "remember the number 456" | python -m segue.rehearsal.agent
    echo "what number?" | python -m segue.rehearsal.agent --resume ID

It has what real ones have: sessions on disk, resume, fork, branch, a chosen id, permissions, tools,
questions, usage and cost, and every way to fail. It prints one JSON record per
line and ends with one of type ``end``. ``REHEARSAL_HOME`` is where its sessions are, ``REHEARSAL_SCENARIO`` a
scenario as the loopback model takes it.
Exit code 0: answered; 1: failed (``end`` says how); 2: called wrongly (stderr says how).
"""

import os
import signal
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import msgspec

from segue.rehearsal.agent.loop import Settings, Stopped, Turn
from segue.rehearsal.agent.options import options
from segue.rehearsal.agent.spend import WINDOW
from segue.rehearsal.agent.store import (
    Header,
    Refused,
    Session,
    Store,
    cut,
    default_home,
    new_id,
    now_ms,
)
from segue.rehearsal.agent.tools import Rules
from segue.rehearsal.script import Script

MODEL = "rehearsal-1"


def main(argv: list[str] | None = None) -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    given = options(argv)
    try:
        return _run(given, _prompt(given), _script())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _prompt(given: Namespace) -> str:
    """The prompt: all of stdin, or its first record (then answers may follow)."""
    try:
        if given.input == "jsonl":
            prompt = msgspec.json.decode(sys.stdin.buffer.readline())["text"]
        else:
            prompt = sys.stdin.buffer.read().decode()
    except (UnicodeDecodeError, msgspec.DecodeError, KeyError, TypeError):
        prompt = None
    if not isinstance(prompt, str) or not prompt.strip():
        sys.exit(_misuse("stdin holds no prompt that can be read"))
    return prompt


def _script() -> Script:
    """What the model does: as the prompt says, or as a scenario does."""
    file = os.environ.get("REHEARSAL_SCENARIO")
    if not file:
        return Script()
    from segue.rehearsal.agent.tally import scripted

    try:
        return scripted(Path(file), default_home(os.environ))
    except ValueError as error:
        sys.exit(_misuse(f"the scenario cannot be used: {error}"))


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
    turn = Turn(session, settings, _emit, _answer if asks else None, script)
    try:
        answer = turn.run(prompt)
    except Stopped as stopped:
        return _fail(stopped.error, turn)
    said = {"text": answer.text, "message_id": answer.id} if answer else {"text": "", "message_id": None}
    _emit({"type": "end", "ok": True, **said, **_spent(turn)})
    return 0


def _announce(session: Session, model: str) -> None:
    about = {"id": session.header.id, "model": model, "cwd": os.getcwd(), "parent": session.header.parent}
    _emit({"type": "session", **about, "saved": session.saved, "held": session.held})


def _open(given: Namespace) -> Session:
    """The session that the options ask for: a new one, an old one, or a new one made from an old one."""
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
        sys.exit(_misuse(f"the system prompt cannot be read: {error}"))


def _answer(call_id: str) -> dict[str, Any] | None:
    """The user's answer to a question; ``None`` when stdin ends first. Other lines are passed over."""
    for line in iter(sys.stdin.buffer.readline, b""):
        try:
            answer = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.MsgspecError:
            continue
        if answer.get("type") == "answer" and answer.get("id") == call_id:
            return answer
    return None


def _fail(error: dict[str, Any], turn: Turn | None) -> int:
    _emit({"type": "end", "ok": False, "error": error, **(_spent(turn) if turn else {})})
    return 1


def _spent(turn: Turn) -> dict[str, Any]:
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
