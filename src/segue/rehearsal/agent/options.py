"""The rehearsal agent's command line."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path

from segue import __version__
from segue.rehearsal.agent.store import SESSION_ID

SUMMARY = "A small coding agent for rehearsals: no account, no network. The prompt comes on stdin."


def options(argv: list[str] | None) -> Namespace:
    parser = ArgumentParser("rehearsal", description=SUMMARY, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"{__version__} (rehearsal)")
    parser.add_argument("--resume", type=_session_id, metavar="ID", help="go on with this session")
    parser.add_argument(
        "--fork", action="store_true", help="with --resume: under a new id, the old one stays"
    )
    parser.add_argument("--at", metavar="MESSAGE", help="with --fork: only up to this answer")
    parser.add_argument("--session-id", type=_session_id, metavar="NEW", help="the id of the new session")
    parser.add_argument("--no-save", action="store_true", help="write no session")
    parser.add_argument("--model")
    parser.add_argument("--permission", choices=("default", "read", "edit", "full"), default="default")
    parser.add_argument("--allow-tool", action="append", default=[], metavar="TOOL")
    parser.add_argument("--deny-tool", action="append", default=[], metavar="TOOL")
    parser.add_argument(
        "--max-turns", type=_count, metavar="N", default=1000, help="at most N model requests"
    )
    parser.add_argument("--system-prompt-file", type=Path, metavar="FILE", help="stays with the session")
    parser.add_argument("--input", choices=("text", "jsonl"), default="text", help="what stdin holds")
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
        raise ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)
