"""What a turn needs from Claude's sessions: where one is and where it ends, how it is cut, who is logged in.

A session is ``<home>/projects/<the directory's name>/<id>.jsonl``. An anchor is the ``uuid`` of the last
message of a turn. Claude keeps these ids when it forks a session, so they stay valid in every branch. A
prompt that failed stays in the file, with a notice after it: then the end is not where we left it.

If a turn ended with an answer, the CLI itself cuts the session (``--resume-session-at`` with
``--fork-session``). After the answer the CLI may have written a snapshot of what it sent; only a cut after
the snapshot sends the same bytes again. In these cases the file is copied up to the cut, under the new id:

- the CLI has compacted the history: it no longer finds what is before the summary, and its forks lose that;
- the turn was interrupted: the flag does not accept every record (2.1.50 refuses an open call), and a resume
  of the copy is treated like one of the original;
- the session is in another directory's folder, or the program has no ``--fork-session``.

The CLI's own branches continue the cost from the original's total; a copy starts at zero.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from segue.agents.base import CutRequest, StoredSession
from segue.agents.claude.schema import Message, Record, Settings, UserSettings, fields_of, raw
from segue.agents.decoding import DAMAGE, is_on, login_fingerprint, moment_ms, set_variables, settings_in
from segue.agents.jsonl import backwards
from segue.core.environment import Route
from segue.core.errors import Misuse
from segue.core.ids import checked_uuid
from segue.core.json_values import decode
from segue.core.request import Runtime, Start
from segue.system.files import whole_file

LONGEST_NAME = 200
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class ClaudeFormat:
    """The format of Claude's sessions."""

    def find(self, home: Path, session: str, cwd: Path | None = None) -> StoredSession | None:
        """With a directory, its own file comes first; otherwise the newest file with the id."""
        path = find_file(home, session, cwd)
        try:
            status = path.stat() if path is not None else None
        except OSError:
            return None
        if path is None or status is None:
            return None
        return StoredSession(
            id=path.stem, home=home, file=str(path), size=status.st_size, changed_ns=status.st_mtime_ns
        )

    def end(self, stored: StoredSession) -> str | None:
        try:
            return next((record.uuid for record in _newest_first(stored.path) if record.is_message), None)
        except OSError:
            return None

    def cut(self, stored: StoredSession, wanted: CutRequest) -> Start | None:
        try:
            place = _find_cut(stored.path, wanted.anchor)
            if place is None:
                return None
            own = project_folder(wanted.home, wanted.request.cwd)
            native = wanted.runtime.capabilities.fork and place.is_answer and not place.compacted
            if native and stored.path.parent == own and _is_uuid(place.at):
                return Start("branch", stored.id, place.at, wanted.new_id)
            _copy_up_to(stored.path, place, wanted.new_id, own / f"{wanted.new_id}.jsonl")
        except OSError:
            return None
        return Start("resume", wanted.new_id)

    def continues(self, stored: StoredSession, anchor: str) -> bool:
        """By the file's order and by the chain. True also if the session still ends at the anchor."""
        later: list[Record] = []
        try:
            for record in _newest_first(stored.path):
                if record.uuid == anchor:
                    return _follows(record, later[::-1])
                later.append(record)
        except OSError:
            pass
        return False

    def make_resumable(self, stored: StoredSession, runtime: Runtime) -> None:
        """Claude resumes its sessions as they are."""

    def login(self, home: Path, env: Mapping[str, str]) -> str | None:
        return login_fingerprint(settings_file(home, env), Settings, _account)


FORMAT = ClaudeFormat()


def find_file(home: Path, session: str, cwd: Path | None) -> Path | None:
    """The file of a session: the directory's own, else the newest of other directories."""
    try:
        name = f"{checked_uuid(session)}.jsonl"
    except Misuse:
        return None
    own = project_folder(home, cwd) / name if cwd is not None else None
    if own is not None and own.is_file():
        return own
    others = [path for path in home.glob(f"projects/*/{name}") if path.is_file()]
    return max(others, key=_changed, default=None)


def last_answer(path: Path, since_ms: int) -> str:
    """The answer of a turn that began then, if the session ends with it. Old versions do not tell."""
    try:
        last = next((record for record in _newest_first(path) if record.is_message), Record())
        said = decode(last.message, Message) if last.is_said and last.blocks == {"text"} else Message()
    except (OSError, *DAMAGE):
        return ""
    over = said.stop_reason == "end_turn" and (moment_ms(last.timestamp) or 0) >= since_ms
    return said.text if over else ""


def project_folder(home: Path, cwd: Path) -> Path:
    """The folder that Claude uses for a directory."""
    path = os.path.realpath(cwd)
    units = list(path.encode()) if path.isascii() else _utf16(path)
    name = re.sub(r"[^A-Za-z0-9]", "-", "".join(map(chr, units)))
    if len(name) > LONGEST_NAME:
        name = f"{name[:LONGEST_NAME]}-{_hash(units)}"
    return home / "projects" / name


def _utf16(text: str) -> list[int]:
    encoded = text.encode("utf-16-le", "surrogatepass")
    return [int.from_bytes(encoded[n : n + 2], "little") for n in range(0, len(encoded), 2)]


def settings_file(home: Path, env: Mapping[str, str]) -> Path:
    """As Claude looks for it: beside its home, not in it, unless CLAUDE_CONFIG_DIR names the home. A file
    with the old name comes first if it is not empty."""
    old = home / ".config.json"
    try:
        if old.stat().st_size > 0:
            return old
    except OSError:
        pass
    named = env.get("CLAUDE_CONFIG_DIR")
    return (home if named else home.parent) / ".claude.json"


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _hash(units: list[int]) -> str:
    """A hash that distinguishes shortened names: 32 bits over the path, in base 36."""
    value = 0
    for unit in units:
        value = (value * 31 + unit) & 0xFFFFFFFF
    value = abs(value - (1 << 32) if value >= 1 << 31 else value)
    digits = ""
    while value or not digits:
        value, digit = divmod(value, 36)
        digits = _DIGITS[digit] + digits
    return digits


ADDRESSES = ("ANTHROPIC_BASE_URL",)
KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
TOKENS = ("CLAUDE_CODE_OAUTH_TOKEN",)
"""What a subscription's user can be given instead of a login."""
CLOUDS = {
    "CLAUDE_CODE_USE_BEDROCK": ("ANTHROPIC_BEDROCK_BASE_URL", "AWS_PROFILE"),
    "CLAUDE_CODE_USE_VERTEX": ("ANTHROPIC_VERTEX_BASE_URL", "ANTHROPIC_VERTEX_PROJECT_ID"),
    "CLAUDE_CODE_USE_FOUNDRY": ("ANTHROPIC_FOUNDRY_BASE_URL", "ANTHROPIC_FOUNDRY_RESOURCE"),
}
"""The switches to other clouds, and what says there who pays."""


def route(home: Path, env: Mapping[str, str]) -> Route | None:
    """The variables that count are those of the environment and those of the user's settings."""
    settings = settings_in(home / "settings.json", UserSettings)
    if settings is None:
        return None
    both = {**env, **_set_in(settings)}
    found = set_variables(both, ADDRESSES, KEYS)
    clouds = [switch for switch in CLOUDS if is_on(both.get(switch))]
    for switch in clouds:
        found |= {switch: "", **set_variables(both, CLOUDS[switch], ())}
    if settings.api_key_helper:
        found["apiKeyHelper"] = ""
    if clouds:
        return Route("cloud", found)
    written = _keys_in(settings)
    keys = {name: name not in written for name in (*KEYS, *TOKENS) if both.get(name)}
    return Route("key" if keys or settings.api_key_helper else "login", found, keys)


def _set_in(settings: UserSettings) -> dict[str, str]:
    """The variables that the settings set; of keys, only that they are there."""
    given, found = settings.env or {}, {}
    for name in (*ADDRESSES, *CLOUDS, *(name for names in CLOUDS.values() for name in names)):
        with suppress(KeyError, *DAMAGE):
            found[name] = decode(given[name], str)
    return found | dict.fromkeys(_keys_in(settings), "set")


def _keys_in(settings: UserSettings) -> list[str]:
    given = settings.env or {}
    return [name for name in (*KEYS, *TOKENS) if bytes(given.get(name, b"")) not in (b"", b'""', b"null")]


def _account(settings: Settings) -> str | None:
    account = settings.oauth_account
    if account is None or not account.account_uuid:
        return None
    return f"{account.account_uuid}\n{account.organization_uuid or ''}"


def _read(line: bytes) -> Record | None:
    """A line as a record; None if it is damaged or not a record."""
    try:
        return decode(line, Record)
    except DAMAGE:
        return None


def _newest_first(path: Path) -> Iterator[Record]:
    """The records from the end of a file backwards, read lazily."""
    with path.open("rb") as file:
        for line in backwards(file):
            record = _read(line.text) if line.text is not None else None
            if record is not None:
                yield record


def _oldest_first(path: Path) -> Iterator[tuple[Record, int]]:
    """Every record, and the byte after it."""
    end = 0
    with path.open("rb") as file:
        for line in file:
            end += len(line)
            record = _read(line)
            if record is not None:
                yield record, end


class _Cut(msgspec.Struct, frozen=True):
    """An anchor's place in a file."""

    anchor: Record
    at: str
    """The last record that belongs to the turn: the anchor, or the snapshot the CLI wrote after it."""
    end: int
    """The byte after that record."""
    compacted: bool
    """A part of the history was replaced by a summary somewhere in the file."""

    @property
    def is_answer(self) -> bool:
        """The turn ended here normally: with text of the assistant and no open call."""
        return self.anchor.type == "assistant" and self.anchor.is_said and self.anchor.blocks == {"text"}


def _find_cut(path: Path, anchor: str) -> _Cut | None:
    """Where the anchor is; None if it is not in the file."""
    place: tuple[Record, str, int] | None = None
    compacted = passed = False
    for record, end in _oldest_first(path):
        compacted = compacted or record.is_boundary
        if place is None:
            place = (record, anchor, end) if record.uuid == anchor and record.is_message else None
        elif not passed and record.is_snapshot and record.parent_uuid == place[1]:
            place = (place[0], record.uuid or anchor, end)
        else:
            passed = passed or record.is_message
    return None if place is None else _Cut(*place, compacted)


def _copy_up_to(source: Path, cut: _Cut, new_id: str, target: Path) -> None:
    """Copy without the running totals, so that every copy counts from zero."""
    with source.open("rb") as old, whole_file(target) as new:
        left = cut.end
        for line in old:
            if left <= 0:
                break
            left -= len(line)
            new.write(_renamed(line, new_id))


def _renamed(line: bytes, new_id: str) -> bytes:
    """The line with the new session's id, otherwise unchanged; empty if it is not copied."""
    fields = fields_of(line)
    if fields is None or fields.get("type") == raw("cost-state"):
        return b""
    if "sessionId" in fields:
        fields["sessionId"] = raw(new_id)
        return msgspec.json.encode(fields) + b"\n"
    return line.rstrip(b"\r\n") + b"\n"


def _follows(anchor: Record, later: list[Record]) -> bool:
    """Whether the newest prompt is the first message after the anchor, and follows it in the chain."""
    said = [record for record in later if record.is_said]
    if not said:
        return True
    prompts = [record for record in later if record.is_prompt]
    prompts = [record for record in prompts if record.permission_mode] or prompts
    if not prompts or prompts[-1] is not said[0]:
        return False
    parent, chain = said[0].parent_uuid, {record.uuid: record.parent_uuid for record in later}
    while parent in chain:
        parent = chain.pop(parent)
    dropped = "tool_use" in anchor.blocks  # older versions leave out a call without a result
    return parent == anchor.uuid or (dropped and parent is not None)


def _is_uuid(text: str) -> bool:
    try:
        return bool(checked_uuid(text))
    except Misuse:
        return False
