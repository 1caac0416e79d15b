"""The environment an agent runs in.

It is the caller's, because the agent's tools live on it, without three things: API keys that would
override the agent's own login, our own variables, and the marks of an agent session that *we* may be
running in (Claude refuses to start inside another; others would take themselves for its child). An
account puts variables in (``env``, taken literally) or lets some of the caller's through (``pass_env``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

KEYS = (
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_CLOUD_API_KEY",
    "MISTRAL_API_KEY",
)
"""Withheld from every agent; an agent may add its own."""
REHEARSAL_KEY = "REHEARSAL_API_KEY"
"""Set in a rehearsal: the key of its model."""

OURS = "SEGUE_"

MARKS = frozenset(
    {
        "AI_AGENT",
        "CLAUDECODE",
        "CLAUDE_AGENT_SDK_VERSION",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_CLOUD_SESSION_ID",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_EXECPATH",
        "CLAUDE_CODE_HOST_SESSION_ID",
        "CLAUDE_CODE_INVOKED_SKILLS",
        "CLAUDE_CODE_REMOTE",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_CODE_TOOL_USE_ID",
        "CLAUDE_EFFORT",
        "CLAUDE_JOB_DIR",
        "CLAUDE_PID",
        "CLAUDE_PLUGIN_DATA",
        "CLAUDE_PLUGIN_ROOT",
        "CLAUDE_PROJECT_DIR",
        "CLAUDE_SESSION_ID",
        "CLAUDE_SKILL_DIR",
        "CODEX_CI",
        "CODEX_INTERNAL_ORIGINATOR_OVERRIDE",
        "CODEX_PERMISSION_PROFILE",
        "CODEX_SANDBOX",
        "CODEX_SANDBOX_NETWORK_DISABLED",
        "CODEX_SESSION_ID",
        "CODEX_THREAD_ID",
        "CODEX_TOOL_CALL_ID",
        "GEMINI_CLI",
        "GEMINI_CLI_NO_RELAUNCH",
    }
)
"""What the CLIs set for the processes they start, read from their programs. Vibe sets nothing."""

MARK_PREFIXES = (
    "CLAUDE_BG_",
    "CLAUDE_BRIDGE_",
    "CLAUDE_CODE_BRIDGE_",
    "CLAUDE_CODE_REMOTE_SESSION_",
    "CLAUDE_CODE_SESSION_",
    "CLAUDE_RUNNER_",
    "CODEX_MANAGED_BY_",
    "CODEX_NETWORK_PROXY_",
    "GEMINI_CLI_IDE_",
)
MARK_SUFFIX = ("CLAUDE_CODE_", "_FILE_DESCRIPTOR")
"""Numbers of open files, which a new process does not have."""

SECRET_WORD = re.compile(
    r"(^|_)(AUTH|CREDENTIALS?|PASS|PASSPHRASE|PASSWD|PAT|\w*(KEY|PASSWORD|SECRET|TOKEN))(?=_|$)"
)
SECRET_LENGTH = 8
INHERITED_SECRET_LENGTH = 16
"""For what merely stands in the caller's environment: a password such as ``postgres`` is also a word."""


class ChildEnvironment(msgspec.Struct, frozen=True):
    """What the agent gets, the keys it does not get, and the values that no output may show."""

    env: dict[str, str]
    withheld: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()


def child_environment(
    parent: Mapping[str, str],
    *,
    keys_withheld: Iterable[str] = (),
    account_env: Mapping[str, str] | None = None,
    pass_env: Iterable[str] = (),
) -> ChildEnvironment:
    """The caller's environment as an agent may see it.

    In a rehearsal the model's key stands in place of every other: it is what the agent is logged in with, and
    overrides nothing.
    """
    staged = parent.get(REHEARSAL_KEY)
    keys = tuple(n for n in dict.fromkeys((*KEYS, *keys_withheld)) if not staged or parent.get(n) != staged)
    passed = frozenset(pass_env)
    own = dict(account_env or {})
    env = {n: v for n, v in parent.items() if n in passed or not (n in keys or _is_ours(n) or is_mark(n))}
    env |= own
    withheld = tuple(n for n in keys if parent.get(n) and n not in env)
    return ChildEnvironment(env, withheld, _secrets(parent, env, keys, passed | own.keys()))


def is_mark(name: str) -> bool:
    """Whether the variable marks an enclosing agent session."""
    prefix, suffix = MARK_SUFFIX
    return (
        name in MARKS or name.startswith(MARK_PREFIXES) or (name.startswith(prefix) and name.endswith(suffix))
    )


def looks_secret(name: str) -> bool:
    """Whether a variable's name says that its value is a secret: one of its words does."""
    return bool(SECRET_WORD.search(name.upper())) and not _is_public(name)


def login_hint(label: str, withheld: Iterable[str], account: str | None, agent: str = "") -> str | None:
    """What to say when a login failed and a key was kept from the agent. ``withheld``: those it would use."""
    names = tuple(withheld)
    if not names:
        return None
    entry = "pass_env = [{}]".format(", ".join(f'"{name}"' for name in names))
    how = f"add {entry} under [accounts.{account}] in config.toml"
    if account is None:
        section = f'[accounts.NAME] with agent = "{agent or label.lower()}" and {entry}'
        how = f"add {section} to config.toml and run with --account NAME"
    listed = " and ".join(names)
    return f"{label} was not given {listed} from your environment, which would override its own login; {how}"


def _secrets(
    parent: Mapping[str, str], env: Mapping[str, str], keys: tuple[str, ...], account: frozenset[str]
) -> tuple[str, ...]:
    """All values that must not be shown, the longest first."""
    found = {parent.get(key, "") for key in keys}
    found |= {v for n, v in env.items() if n in keys or (n in account and looks_secret(n))}
    found |= {v for n, v in env.items() if len(v) >= INHERITED_SECRET_LENGTH and _ends_secret(n)}
    known = (value for value in found if len(value) >= SECRET_LENGTH)
    return tuple(sorted(known, key=lambda value: (-len(value), value)))


def _is_ours(name: str) -> bool:
    return name.startswith(OURS)


def _is_public(name: str) -> bool:
    return "PUBLIC" in name.upper().split("_")


def _ends_secret(name: str) -> bool:
    """Stricter, for what is merely inherited: ``SSH_AUTH_SOCK`` and ``…_KEY_FILE`` hold paths."""
    return looks_secret(name.rpartition("_")[2]) and not _is_public(name)
