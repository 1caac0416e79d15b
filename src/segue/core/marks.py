"""Under whom something was said: ``agent/account/login``, as it stands in ``Message.under``.

The login is a fingerprint of whoever is logged in to that account; who cannot be told is a login of its own.
Before logins were told apart a mark was ``agent/account``: such a message counts as said under the login that
was first seen there, and until one was, under that of whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

UNKNOWN = "unknown"
"""The login where nobody can tell; fingerprints are hexadecimal."""


def mark(agent: str, account: str, login: str) -> str:
    return f"{agent}/{account}/{login}"


def old_mark(agent: str, account: str) -> str:
    """As it was before logins were told apart."""
    return f"{agent}/{account}"


def parts(text: str) -> tuple[str, str, str | None]:
    """Agent, account and login; the login of an old mark is None."""
    agent, _, rest = text.partition("/")
    account, slash, login = rest.partition("/")
    return agent, account, login if slash else None


def has_walls(marks: Iterable[str]) -> bool:
    """Whether one agent was spoken to under more than one account or login."""
    whole = {parts(each) for each in marks}
    return len(whole) > len({agent for agent, _, _ in whole})


def told_apart(marks: Iterable[str], first: Callable[[str, str], str | None]) -> tuple[str, ...]:
    """The marks with the login that was first seen (by agent and account) where they name none."""
    return tuple(sorted({_told_apart(each, first) for each in marks}))


def _told_apart(text: str, first: Callable[[str, str], str | None]) -> str:
    agent, account, login = parts(text)
    if login is not None:
        return text
    seen = first(agent, account)
    return text if seen is None else mark(agent, account, seen)
