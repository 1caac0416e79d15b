"""Errors that Segue raises. Each is one line that says what is wrong and what to do.

SegueError
├── Misuse            the caller's input cannot be used (exit code 2)
│   ├── NotFound      what the caller named does not exist
│   ├── ConfigError   a configuration file or variable is wrong
│   ├── Forbidden     a rule of the user's, or a law of Segue's, forbids it
│   └── NotInstalled  the agent's program is not on this machine
├── Conflict          something else was done before: a question has its answer (exit code 1)
├── Gone              it is over, and cannot be changed any more (exit code 1)
├── DaemonUnavailable  no daemon can be used, and one is wanted (exit code 75)
├── InUse             a turn of the conversation is running; try again later (exit code 75)
└── Broken            something of Segue's own is damaged or missing (exit code 1)
    └── StoreAway     the store cannot be reached or written just now; try again later (exit code 75)
"""

from __future__ import annotations


class SegueError(Exception):
    """The root of all errors raised on purpose."""

    code = "error"
    exit_code = 1

    @property
    def message(self) -> str:
        return str(self)


class Misuse(SegueError):  # noqa: N818 - reads better than MisuseError at every raise
    """The caller's input cannot be used."""

    code = "misuse"
    exit_code = 2


class NotFound(Misuse):
    """A conversation, message, session or event that the caller named does not exist."""


class ConfigError(Misuse):
    """A configuration file or variable is wrong."""

    code = "config"


class Forbidden(Misuse):
    """A rule of the user's, or a law of Segue's, forbids it."""

    code = "forbidden"


class NotInstalled(Misuse):
    """The agent's program is not on this machine."""

    code = "not_installed"


class Conflict(SegueError):  # noqa: N818 - as above
    """Something else was done before."""

    code = "conflict"


class Gone(SegueError):  # noqa: N818 - as above
    """It is over, and cannot be changed any more."""

    code = "gone"


class DaemonUnavailable(SegueError):  # noqa: N818 - as above
    """A daemon is wanted, and there is none that can be used."""

    code = "daemon_unavailable"
    exit_code = 75


class InUse(SegueError):  # noqa: N818 - as above
    """Something is being used by a running turn."""

    code = "session_busy"
    exit_code = 75


class Broken(SegueError):  # noqa: N818 - as above
    """Something of Segue's own is damaged or missing."""

    code = "broken"


class StoreAway(Broken):
    """The store cannot be reached just now, or another program keeps it busy."""

    code = "store_away"
    exit_code = 75
