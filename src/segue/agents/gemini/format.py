"""Gemini's session format: find a session, see where it ends, cut it, make it resumable; the login.

An anchor is the id of a message. Gemini keeps ids through resumes and updates, and so do the copies and the
corrected files written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from segue.agents import probe
from segue.agents.base import CutRequest, StoredSession
from segue.agents.decoding import DAMAGE, given_keys, login_fingerprint, set_variables
from segue.agents.gemini import VARIABLES, files
from segue.agents.gemini.forms import encoded, form_of, is_context, is_prompt, new_session, with_project
from segue.agents.gemini.history import History, last_id, read_history
from segue.agents.gemini.schema import Accounts, Settings
from segue.core.environment import Route
from segue.core.json_values import decode
from segue.core.request import Runtime, Start
from segue.core.usage import Pays
from segue.core.view import UNREADABLE
from segue.system.files import write_whole

REPEATS = 1
"""A file that repeats all messages more often than this is rewritten."""
_LATER = ("summary", "memoryScratchpad")
"""Header fields that are about the session's end, and are left out of a cut."""


class GeminiFormat:
    """The session files of Gemini CLI, of all versions."""

    def find(self, home: Path, session: str, cwd: Path | None = None) -> StoredSession | None:
        """With a directory, only in its project's folder: Gemini resumes nothing else there. A session that
        Gemini deleted during a run is restored first."""
        if cwd is not None:
            files.restore_from_second_name(home, session)
        return files.find_stored(home, session, cwd)

    def end(self, stored: StoredSession) -> str | None:
        return last_id(stored.path) if files.owner_of(stored.path) == stored.id else None

    def cut(self, stored: StoredSession, wanted: CutRequest) -> Start | None:
        history, new_id = _of(stored), wanted.new_id
        kept = history.upto(wanted.anchor) if history is not None else None
        # names that end alike are deleted together
        if history is None or kept is None or any(files.find_file(wanted.home, new_id)):
            return None
        form = form_of(wanted.runtime, stored.path)
        copy, marks = new_session(stored.path, new_id, form.suffix)
        old = with_project(history.header, stored.path)
        header = {key: value for key, value in old.items() if key not in _LATER} | marks
        try:
            write_whole(copy, encoded(form.suffix, header, [form.shape(kept)]))
        except (OSError, ValueError, RecursionError):
            return None
        files.add_second_name(copy)
        return Start("resume", session=new_id)

    def continues(self, stored: StoredSession, anchor: str) -> bool:
        history = read_history(stored.path)
        ids = [message["id"] for message in history.messages] if history is not None else []
        if history is None or anchor not in ids:
            return False
        return any(map(is_prompt, history.messages[ids.index(anchor) + 1 :]))

    def make_resumable(self, stored: StoredSession, runtime: Runtime) -> None:
        """Leave one file, in the form that this version reads, with each call and each result once."""
        history = _of(stored)
        if history is None:
            return
        form = form_of(runtime, stored.path)
        path, messages = stored.path.with_suffix(form.suffix), form.shape(history.messages)
        with suppress(OSError, ValueError, RecursionError):
            rough = history.torn or history.repeated > REPEATS
            if path != stored.path or messages != history.messages or rough:
                states = [*history.earlier, messages]
                header = with_project(history.header, stored.path)
                write_whole(path, encoded(form.suffix, header, states))
            _drop_twins(path, stored.id)
            files.add_second_name(path)

    def login(self, home: Path, env: Mapping[str, str]) -> str | None:
        return login(home)


def _of(stored: StoredSession) -> History | None:
    """The history in a file of this session; None if its beginning is missing or nothing else is there."""
    history = read_history(stored.path) if files.owner_of(stored.path) == stored.id else None
    return None if history is None or all(map(is_context, history.messages)) else history


def _drop_twins(path: Path, session: str) -> None:
    """Remove the same session in the other form, and empty twins."""
    for twin in list(files.alike(path.parent, session)):
        other_form = twin.stem == path.stem and files.owner_of(twin) == session
        if twin != path and (other_form or files.is_stub(twin, session)):
            twin.unlink(missing_ok=True)


FORMAT = GeminiFormat()


# --- who is logged in ------------------------------------------------------------------------------
#
# From what Gemini's own files show openly: a fingerprint, never the name. For files with secrets, only
# whether they exist.

BY_VARIABLE = {
    "GOOGLE_GENAI_USE_GCA": "oauth-personal",
    "GOOGLE_GENAI_USE_VERTEXAI": "vertex-ai",
    "GOOGLE_GEMINI_BASE_URL": "gateway",
    "GEMINI_API_KEY": "gemini-api-key",
    "CLOUD_SHELL": "compute-default-credentials",
    "GEMINI_CLI_USE_COMPUTE_ADC": "compute-default-credentials",
}
"""The way to log in that a variable selects if the settings do not, in the order in which Gemini looks."""
ADDRESSES = ("GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "CODE_ASSIST_ENDPOINT")
METHODS: Mapping[str, Literal["login", "key", "cloud"]] = {
    "oauth-personal": "login",
    "gemini-api-key": "key",
    "gateway": "key",
    "vertex-ai": "cloud",
    "compute-default-credentials": "cloud",
}
STORED = ("oauth_creds.json", "gemini-credentials.json")


def login(home: Path) -> str | None:
    """None: nobody, or unknown."""
    accounts = home / ".gemini" / "google_accounts.json"
    return login_fingerprint(accounts, Accounts, lambda known: known.active)


def route(home: Path, env: Mapping[str, str]) -> Route | None:
    """The method counts as well: a Google login stays in its file after a key was chosen."""
    selected = _selected(home)
    if selected == UNREADABLE and _is_torn(home):
        return None
    chosen = selected or next((way for name, way in BY_VARIABLE.items() if env.get(name)), None)
    found = set_variables(env, ADDRESSES, VARIABLES.keys)
    if chosen == "vertex-ai":
        found |= set_variables(env, ("GOOGLE_CLOUD_PROJECT",), ())
    if chosen not in (None, "oauth-personal", UNREADABLE):
        found["selectedType"] = chosen
    keys = {} if chosen == "oauth-personal" else given_keys(env, VARIABLES.keys)
    return Route(METHODS.get(chosen or "", "unknown"), found, keys)


def _is_torn(home: Path) -> bool:
    """Whether the settings are being written. Settings with comments are complete, but not JSON."""
    with suppress(OSError):
        return not (home / ".gemini" / "settings.json").read_bytes().rstrip().endswith(b"}")
    return False


def logged_in(home: Path, env: Mapping[str, str]) -> bool | None:
    """None: unknown, because a ``.env``, a keyring or the machine may contain what is missing."""
    way = _selected(home) or next((way for name, way in BY_VARIABLE.items() if env.get(name)), None)
    stored = any((home / ".gemini" / name).exists() for name in STORED)
    known = {
        None: False,
        "oauth-personal": stored or bool(env.get("GOOGLE_CLOUD_ACCESS_TOKEN")),
        "gemini-api-key": stored or bool(env.get("GEMINI_API_KEY")),
        "vertex-ai": _vertex(env),
        "gateway": True,
    }.get(way)
    if known is not False:
        return known
    elsewhere = any(file.exists() for file in (home / ".gemini" / ".env", home / ".env"))
    return None if elsewhere or (way is not None and probe.keyring_is_reachable(env)) else False


def pays(home: Path, env: Mapping[str, str]) -> Pays:
    """By the way to log in that is selected."""
    way = _selected(home) or next((way for name, way in BY_VARIABLE.items() if env.get(name)), "")
    known: dict[str, Pays] = {
        "oauth-personal": "subscription",
        "gemini-api-key": "api_key",
        "vertex-ai": "cloud",
        "cloud-shell": "cloud",
        "compute-default-credentials": "cloud",
    }
    return known.get(way, "unknown")


def _selected(home: Path) -> str | None:
    """What its settings select. They can contain comments, so unreadable ones may select anything."""
    try:
        settings = decode((home / ".gemini" / "settings.json").read_bytes(), Settings)
    except OSError:
        return None
    except DAMAGE:
        return UNREADABLE
    return settings.security.auth.selected or settings.older


def _vertex(env: Mapping[str, str]) -> bool:
    whole = env.get("GOOGLE_CLOUD_PROJECT") and env.get("GOOGLE_CLOUD_LOCATION")
    return bool(whole or env.get("GOOGLE_API_KEY"))
