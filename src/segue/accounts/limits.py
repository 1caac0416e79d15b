"""Asks an account's CLI how much of its usage limits is used, where the CLI can tell without a model."""

from __future__ import annotations

from collections.abc import Mapping

from segue.agents import probe, registry
from segue.agents.decoding import LimitsTold, TellsLimits
from segue.config.schema import Account, Config
from segue.runner.inquiry import inquire
from segue.turns.agent_choice import surroundings

TIME_S = 15.0
"""How long a CLI may take to answer."""


def ask_limits(config: Config, account: Account, env: Mapping[str, str]) -> LimitsTold:
    """What its CLI tells now, or why it does not. Raises ``SegueError`` if it is not known or installed."""
    agent = registry.get(account.agent, config)
    label = agent.facts.label
    if not isinstance(agent, TellsLimits):
        return LimitsTold(problem=f"{label} cannot be asked for its limits")
    child, home = surroundings(agent, account, env)
    inquiry = agent.limits_inquiry(home, child.env)
    if inquiry is None:
        return LimitsTold(problem=f"{label} tells limits only of a login with a subscription")
    command = probe.find(agent, env=child.env, configured=config.commands.get(agent.facts.name))
    surround = {**child.env, **agent.facts.every_start}
    try:
        told = inquire(
            (*command, *inquiry.args), inquiry.sent, agent.limits_told, env=surround, cwd=home, time_s=TIME_S
        )
    except OSError as error:
        return LimitsTold(problem=f"{label} could not be started: {error.strerror}")
    if told is None:
        return LimitsTold(problem=f"{label} did not tell its limits")
    return LimitsTold(problem=f"{label}: {told.problem}") if told.problem else told
