"""What a process needs to read the stream of a run that it did not start."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from segue.agents import registry
from segue.agents.base import Agent
from segue.config.home import home_of, this_host
from segue.config.schema import Config
from segue.core.environment import child_environment
from segue.core.errors import Misuse
from segue.core.model import Host
from segue.core.redact import Redactor
from segue.turns.prepare import Prepared
from segue.turns.run_dir import Plan, read_secrets


class Observer(msgspec.Struct, frozen=True, kw_only=True):
    """``secrets``: what must not be shown, in addition to the secrets of the run's account."""

    key: str
    """The key of the conversation."""
    host: Host
    config: Config
    env: Mapping[str, str]
    secrets: tuple[str, ...] = ()

    @classmethod
    def of(cls, prepared: Prepared) -> Observer:
        return cls(
            key=prepared.conversation.key,
            host=prepared.host,
            config=prepared.config,
            env=prepared.child.env,
            secrets=prepared.child.secrets,
        )

    @classmethod
    def here(cls, key: str, env: Mapping[str, str], config: Config) -> Observer:
        """For a process that only reads. ``env``: the caller's environment."""
        return cls(key=key, host=this_host(config.store.host, home_of(env)), config=config, env=env)

    def agent(self, name: str) -> Agent | None:
        """The agent; None if it is not known here (any more)."""
        try:
            return registry.get(name, self.config)
        except Misuse:
            return None

    def redactor(self, plan: Plan, agent: Agent) -> Redactor:
        """Redacts the secrets of the run and of its account, which may differ from the reader's."""
        account = self.config.accounts.get(plan.account)
        theirs = child_environment(
            self.env,
            registry.variables(),
            keys_withheld=agent.facts.keys,
            account_env=account.env if account is not None else None,
        )
        return Redactor((*self.secrets, *theirs.secrets, *read_secrets(plan.run_dir)))
