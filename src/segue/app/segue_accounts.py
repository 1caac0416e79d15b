"""``Segue.accounts``: the accounts in the user's configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from anyio.to_thread import run_sync

from segue.app import accounts
from segue.app.account_shapes import AccountDetails, AccountShown, LimitsRefreshed, LoginCommand

if TYPE_CHECKING:
    from segue.app.account_switch import AccountSwitched, CarryShown
    from segue.app.segue import Segue
    from segue.app.workspace import Workspace


class Accounts:
    """What changes an account changes ``config.toml``. Credentials are never copied or
    changed; only who is logged in is read."""

    def __init__(self, segue: Segue) -> None:
        self._segue = segue

    async def ls(self) -> list[AccountShown]:
        """The configured accounts, with the names of their variables only, and their usage limits."""
        return await run_sync(listed, self._workspace)

    async def show(self, name: str) -> AccountDetails:
        """One account, who it is (a fingerprint), and why it cannot be used, if so."""
        at = self._workspace
        return await run_sync(lambda: accounts.with_limits(at, accounts.show(at.env, at.cwd, name)))

    async def refresh(self, name: str) -> LimitsRefreshed:
        """Ask the account's CLI for its usage limits, where it can tell without a model (Codex with a
        subscription). It starts the CLI for a moment, and waits some seconds at most."""
        return await run_sync(accounts.refresh, self._workspace, name)

    async def add(
        self,
        name: str,
        *,
        agent: str,
        home: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        pass_env: Sequence[str] = (),
    ) -> AccountDetails:
        """Add an account. ``home``: where its CLI keeps login and sessions (default: its usual place).
        ``env``: variables for the agent. ``pass_env``: variables of the caller to pass on."""
        at = self._workspace
        made = partial(accounts.add, agent=agent, home=home, variables=env, pass_env=pass_env)
        return await run_sync(made, at.env, at.cwd, name)

    async def rm(self, name: str) -> None:
        """Remove an account. Its home, its login and its sessions stay."""
        await run_sync(accounts.rm, self._workspace.env, name)

    async def login(self, name: str) -> LoginCommand:
        """The command that logs in to the account, for a terminal on this machine. It is not run."""
        at = self._workspace
        shown = await run_sync(accounts.show, at.env, at.cwd, name)
        process = await run_sync(accounts.login, at.env, at.cwd, name)
        return LoginCommand(account=name, agent=shown.agent, command=process.shell)

    async def default(self, name: str, *, remove: bool = False) -> AccountDetails:
        """Use the account whenever its agent is used and no account is named. ``remove``: no longer."""
        at = self._workspace
        return await run_sync(partial(accounts.default, at.env, at.cwd, name, remove=remove))

    async def bind(self, name: str | None, directory: str | Path | None = None) -> list[AccountShown]:
        """Use the account in a directory (default: the current one) and below it, if none is named. None: no
        longer use any there."""
        at = self._workspace
        return await run_sync(accounts.bind, at.env, at.cwd, name, directory)

    async def switch(
        self,
        key: str,
        account: str,
        *,
        carry: Literal["raw", "summary"] | None = None,
        cancel: bool = False,
        queued: Literal["keep", "move"] | None = None,
        asked_by: str = "library",
    ) -> AccountSwitched:
        """Continue a conversation under another account (``none``: the agent's usual login). It starts with a
        fresh session, and is not shown what was said before.

        ``carry``: put the last turns (``raw``), or a summary, before its first message. They are then sent to
        the provider under the new account. ``cancel``: first end what runs. ``InUse`` if something runs.
        ``queued``: whether runs that wait keep their account or move; ``Conflict`` if some wait.
        """
        from segue.app.account_switch import switch

        return await switch(
            self._workspace,
            key,
            account,
            carry=carry,
            cancel=cancel,
            queued=queued,
            asked_by=asked_by,
        )

    async def audit(self, key: str | None = None, *, limit: int = 100) -> list[CarryShown]:
        """What was carried over from one account to another, newest first. Never what was said."""
        from segue.app.account_switch import carries

        return await run_sync(carries, self._workspace, key, limit)

    @property
    def _workspace(self) -> Workspace:
        return self._segue.workspace


def listed(workspace: Workspace) -> list[AccountShown]:
    return [accounts.with_limits(workspace, each) for each in accounts.ls(workspace.env, workspace.cwd)]
