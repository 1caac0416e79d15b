"""What every use case needs: the environment, the caller's directory, and the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from segue.config.home import Home, home_of, this_host
from segue.config.load import load
from segue.config.schema import Config
from segue.core.ids import conversation_key
from segue.core.model import Host
from segue.core.turn import Transport
from segue.store.records import Conversation
from segue.store.store import Store, open_store

if TYPE_CHECKING:
    from segue.core.environment import ChildEnvironment


class Workspace:
    """An open store, with the environment and directory of its caller.

    ``config``: the configuration, read once for a single command. None: it is read on each access, so that a
    long-lived process sees changes. ``transport``: which process runs its turns.
    """

    def __init__(
        self,
        env: Mapping[str, str],
        cwd: Path,
        store: Store,
        config: Config | None = None,
        transport: Transport = "process",
    ) -> None:
        self.env, self.cwd, self.store, self.transport = env, cwd, store, transport
        self._config = config

    @property
    def home(self) -> Home:
        return home_of(self.env)

    @property
    def config(self) -> Config:
        return self._config if self._config is not None else load(self.env, self.cwd)

    @property
    def host(self) -> Host:
        return this_host(self.config.store.host, self.home)

    @property
    def child(self) -> ChildEnvironment:
        """What an agent without an account gets of the environment. Commands that flows run get the same."""
        from segue.agents import registry
        from segue.core.environment import child_environment

        return child_environment(self.env, registry.variables())

    def as_configured_now(self) -> Workspace:
        """The same, with the configuration read once: for a use case that asks for it several times."""
        return Workspace(self.env, self.cwd, self.store, self.config, self.transport)

    def conversation(self, key: str) -> Conversation:
        """The conversation with that key. Raises ``NotFound`` if there is none."""
        from segue.turns.changes import known_conversation

        return known_conversation(self.store, conversation_key(key))

    def projected(self, conversation: Conversation) -> Store:
        """The store; if a killed Segue left a turn unsettled, as it will be once the next turn settles it."""
        from segue.turns.projection import projected

        return projected(self.store, conversation, self.env, self.cwd)

    def close(self) -> None:
        self.store.close()

    def leave(self) -> None:
        """Call this instead of ``close`` if the process ends anyway."""
        self.store.leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_workspace(
    env: Mapping[str, str],
    cwd: Path,
    *,
    lasting: bool = False,
    serving: bool = False,
    notice: Callable[[str], None] = lambda _: None,
) -> Workspace:
    """Open the store of this environment. It is created if it does not exist.

    ``lasting``: for more than one command. ``serving``: this process is the daemon. ``notice``: hears what
    the user should know, such as that a daemon is ended first.
    """
    home, config = home_of(env), load(env, cwd)
    home.make(home.root)

    def alone() -> AbstractContextManager[None]:
        from segue.app.upgrade import without_daemon

        return nullcontext() if serving else without_daemon(home, config.store.url, notice)

    store = open_store(config.store.url, home.store, alone)
    return Workspace(env, cwd, store, None if lasting else config)
