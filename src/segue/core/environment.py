"""The environment an agent runs in.

It is the caller's environment, because the agent's tools need it, without three things: API keys that would
override the agent's own login, our own variables, and the marks of an agent session that *we* may be
running in (some CLIs refuse to start inside another; others would take themselves for its child). An
account adds variables (``env``, taken literally) or passes some of the caller's on (``pass_env``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

REHEARSAL_KEY = "REHEARSAL_API_KEY"
"""The variable that holds the model's key in a rehearsal."""

OURS = "SEGUE_"
"""What the names of our variables begin with. No agent gets any of them but the mark of its process."""
ANY_AGENT = "AI_AGENT"
"""A mark that several CLIs set."""

SECRET_WORD = re.compile(
    r"(^|_)(AUTH|CREDENTIALS?|PASS|PASSPHRASE|PASSWD|PAT|\w*(KEY|PASSWORD|SECRET|TOKEN))(?=_|$)"
)
SECRET_LENGTH = 8
INHERITED_SECRET_LENGTH = 16
"""For values that are only inherited from the caller: a password such as ``postgres`` is also a word."""


class AgentVariables(msgspec.Struct, frozen=True, kw_only=True):
    """The environment variables that belong to an agent and its provider."""

    keys: tuple[str, ...] = ()
    """API keys that are withheld from every agent."""
    marks: frozenset[str] = frozenset()
    """Variables that the CLI sets for the processes it starts."""
    mark_prefixes: tuple[str, ...] = ()
    mark_affixes: tuple[tuple[str, str], ...] = ()
    """Prefix and suffix of some marks."""
    providers: tuple[str, ...] = ()
    """Prefixes of the CLI's own variables: keys, tokens, addresses, and switches to other clouds."""
    tuned: tuple[str, ...] = ()
    """Those of ``providers`` that also cover variables which only tune the CLI."""

    def __or__(self, other: AgentVariables) -> AgentVariables:
        return AgentVariables(
            keys=tuple(dict.fromkeys((*self.keys, *other.keys))),
            marks=self.marks | other.marks,
            mark_prefixes=(*self.mark_prefixes, *other.mark_prefixes),
            mark_affixes=(*self.mark_affixes, *other.mark_affixes),
            providers=(*self.providers, *other.providers),
            tuned=(*self.tuned, *other.tuned),
        )

    def is_mark(self, name: str) -> bool:
        """Whether the variable marks an enclosing agent session."""
        if name == ANY_AGENT or name in self.marks or name.startswith(self.mark_prefixes):
            return True
        return any(name.startswith(begin) and name.endswith(end) for begin, end in self.mark_affixes)


class Route(msgspec.Struct, frozen=True):
    """How a CLI reaches its provider, as far as settings and names of variables show it."""

    method: Literal["login", "key", "cloud", "unknown"] = "unknown"
    """``login``: as the user who logged in; ``key``: with a key; ``cloud``: as another cloud's user."""
    variables: dict[str, str] = {}
    """What decides where requests go and who pays, with its value; empty if only the name counts."""
    keys: dict[str, bool] = {}
    """The keys and tokens that it is given, by name, and whether each is the one in its environment: there,
    another value is another login. Of one in a file, only the name is known."""


class ChildEnvironment(msgspec.Struct, frozen=True):
    """What the agent gets, the keys withheld from it, and the values that no output may show."""

    env: dict[str, str]
    withheld: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    user: str | None = None
    """Whose keys it has, if the account says so."""


def child_environment(
    parent: Mapping[str, str],
    variables: AgentVariables,
    *,
    keys_withheld: Iterable[str] = (),
    account_env: Mapping[str, str] | None = None,
    pass_env: Iterable[str] = (),
) -> ChildEnvironment:
    """The caller's environment as the agent gets it. ``variables``: those of all agents.

    In a rehearsal the model's key replaces every other key: the agent is logged in with it, so it overrides
    nothing.
    """
    staged = parent.get(REHEARSAL_KEY)
    named = dict.fromkeys((*variables.keys, *keys_withheld))
    keys = tuple(name for name in named if not staged or parent.get(name) != staged)
    passed = frozenset(pass_env)
    own = {name: value for name, value in (account_env or {}).items() if not _is_ours(name)}
    hidden = {name for name in parent if name in keys or _is_ours(name) or variables.is_mark(name)}
    env = {
        name: value
        for name, value in parent.items()
        if name not in hidden or (name in passed and not _is_ours(name))
    }
    env |= own
    withheld = tuple(n for n in keys if parent.get(n) and n not in env)
    return ChildEnvironment(env, withheld, _secrets(parent, env, keys, passed | own.keys()))


def looks_secret(name: str) -> bool:
    """Whether a word in the variable's name says that its value is a secret."""
    return bool(SECRET_WORD.search(name.upper())) and not _is_public(name)


def login_hint(label: str, withheld: Iterable[str], account: str | None, agent: str = "") -> str | None:
    """The advice after a failed login if keys were withheld. ``withheld``: those that the agent would use."""
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
    """All values that must not be shown, longest first."""
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
    """A stricter test for inherited variables: ``SSH_AUTH_SOCK`` and ``…_KEY_FILE`` hold paths."""
    return looks_secret(name.rpartition("_")[2]) and not _is_public(name)
