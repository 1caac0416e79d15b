"""Reading files of other programs, damaged or not: times, who is logged in, and where requests go."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

import msgspec

from segue.core.environment import Route
from segue.core.ids import sha256_hex
from segue.core.json_values import decode
from segue.core.usage import Limit, Pays
from segue.core.view import UNREADABLE

T = TypeVar("T")

DAMAGE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for a record that is torn, has another shape, is not UTF-8, or is nested too deep."""
SECRET_ROUNDS = 2_000
REREAD_S = 0.05
"""The pause before a broken file is read a second time."""


@runtime_checkable
class TellsRoute(Protocol):
    """An agent whose provider and way to log in depend on variables and settings."""

    def route(self, home: Path, env: Mapping[str, str]) -> Route | None:
        """Reads settings at most. ``env``: the CLI's environment. None: the settings are broken, perhaps
        because they are just being written."""


@runtime_checkable
class TellsPays(Protocol):
    """An agent that can say what pays for a run before it starts."""

    def pays(self, home: Path, env: Mapping[str, str]) -> Pays:
        """What will pay for a run, as far as settings and variables tell."""


class LimitsInquiry(msgspec.Struct, frozen=True):
    """How a CLI is asked for its usage limits: the arguments that start its server, and what that is sent."""

    args: tuple[str, ...]
    sent: bytes


class LimitsTold(msgspec.Struct, frozen=True):
    """What it tells, or why it does not."""

    limits: tuple[Limit, ...] = ()
    problem: str | None = None


@runtime_checkable
class TellsLimits(Protocol):
    """An agent that can be asked for its usage limits without asking a model."""

    def limits_inquiry(self, home: Path, env: Mapping[str, str]) -> LimitsInquiry | None:
        """How; None: not under this login."""

    def limits_told(self, line: bytes) -> LimitsTold | None:
        """What a line of the answer says; None: nothing about limits."""


def moment_ms(text: str | None) -> int | None:
    """An ISO 8601 time as milliseconds since 1970; None for any other text. Local time if it has no zone."""
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000) if text else None
    except (ValueError, OverflowError, OSError):
        return None


def login_fingerprint(path: Path, kind: type[T], who: Callable[[T], str | None]) -> str | None:
    """A hash of who is logged in according to a file, never the name itself.

    None if nobody is, or the file does not exist or say it. A broken file is read a second time, because the
    CLI may be writing it; if it stays broken, it is ``UNREADABLE``.
    """
    for pause in (REREAD_S, 0.0):
        try:
            name = who(decode(path.read_bytes(), kind))
        except FileNotFoundError:
            return None
        except msgspec.ValidationError:
            return None  # whole, but with another content than is known
        except (OSError, *DAMAGE):
            time.sleep(pause)
            continue
        return hashed(name) if name else None
    return UNREADABLE


def settings_in(path: Path, kind: type[T]) -> T | None:
    """The settings in a file; the defaults if there is none; None if it is broken or cannot be read."""
    try:
        return decode(path.read_bytes(), kind)
    except (FileNotFoundError, NotADirectoryError, msgspec.ValidationError):
        return kind()
    except (OSError, *DAMAGE):
        return None


def set_variables(env: Mapping[str, str], by_value: Iterable[str], by_name: Iterable[str]) -> dict[str, str]:
    """Those of the variables that are set, for ``Route``: of some the value counts, of others the name."""
    found = {name: address(env[name]) for name in by_value if env.get(name)}
    return found | {name: "" for name in by_name if env.get(name)}


def given_keys(env: Mapping[str, str], names: Iterable[str]) -> dict[str, bool]:
    """Those of the keys that are in the environment, for ``Route``."""
    return {name: True for name in names if env.get(name)}


def is_on(value: str | None) -> bool:
    """Whether a switch is on, as CLIs read it."""
    return (value or "").strip().lower() in ("1", "true", "yes", "on")


def address(text: str) -> str:
    """The address without its port if it leads to this machine: there, the port changes with each start."""
    return re.sub(r"^(\w+://(?:127\.0\.0\.1|localhost|\[::1\])):\d+(?=/|$)", r"\1", text.strip()).rstrip("/")


def hashed(text: str) -> str:
    """A fingerprint of a text."""
    return sha256_hex(text.encode())[:16]


@lru_cache(maxsize=32)
def hashed_secret(name: str, value: str) -> str:
    """A fingerprint of a key: the same wherever the key is used, and slow to make, so that a short password
    is not easily found by trying."""
    from hashlib import pbkdf2_hmac  # with OpenSSL, which most turns do not need

    salt = f"segue login {name}".encode()
    return pbkdf2_hmac("sha256", value.encode("utf-8", "surrogateescape"), salt, SECRET_ROUNDS, 8).hex()
