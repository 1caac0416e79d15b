"""The example that ``segue init escalate`` writes: three tiers, from looking to repairing everything."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from segue.agents import probe
from segue.app.workspace import Workspace
from segue.config.home import home_of
from segue.config.trust import trust_file
from segue.core.errors import Misuse
from segue.core.request import Capabilities
from segue.core.toml import value_text
from segue.system.files import write_new
from segue.turns.agent_choice import resolve_agent, surroundings

LOOKING = ("docker ps *", "docker logs *", "systemctl status *", "df *")
"""Commands that only show something. One that can also send or write files, such as curl, is none of them."""
RESTARTING = ("curl -s *", "docker restart *", "docker compose up -d *", "systemctl restart *")
DEPLOYING = ("docker compose down *", "ansible-playbook *", "helm upgrade *", "helm rollback *")
FORBIDDEN = ("rm -rf *", "docker system prune *", "docker volume rm *", "git push --force *")
PROTECTED = (".*", ".*/**", "FLOW.toml", "prompts/**")
"""Files that no tier edits: hidden ones (secrets, settings of agents, the repository itself) and those of
the escalation."""

TOP = """\
# An escalation: each tier may do more than the one before, and starts only if that one says so.
# Run it with: segue escalate FLOW.toml --dry-run

name = "example"                    # the cooldowns belong to this name
environment_file = "prompts/environment.md"

[policy]
# max_tier = 2                      # the highest tier that is started
# budget = 5.00                     # dollars for all tiers together
"""
COOLDOWNS = """
# At most 2 restarts of a service in 4 hours, and 1 redeployment in 24 hours. Once a limit is reached, a tier
# does without the tools in deny.

[[cooldown]]
kind = "restart"
limit = 2
hours = 4
match = {restarts}
deny = {no_restart}

[[cooldown]]
kind = "redeploy"
limit = 1
hours = 24
match = {deployments}
deny = {no_deployment}
"""
ENVIRONMENT = """\
Replace this with what every tier must know: which services run where, how to tell that they work, where their
logs are, and whom to tell.
"""
OBSERVE = """\
You watch over the services that are described below. You are tier 1: you only look.

- You may read files and logs, and run commands that show the state of things.
- You may not change anything: no files, no restarts, no messages.
- Never allowed, in any tier: deleting data or volumes, rewriting published history, changing credentials.

Check each service. Say for each check what you looked at and what you saw. If everything works, you are done.
If something does not, find out why as far as you can by looking, and escalate.
"""
SAFE = """\
You are now tier 2: safe repairs. The investigation is above; do not repeat it.

- You may restart services, edit files in this directory, and open a pull request.
- Still restricted: taking a whole stack down, playbooks, upgrades and rollbacks. Tier 3 has these.
- Never allowed: deleting data or volumes, rewriting published history, changing credentials.

Repair what was found, with the smallest step that can work. Then check again. If it still fails, say what you
tried, and escalate.
"""
FULL = """\
You are now tier 3: all repairs. What was found and tried is above; do not repeat it.

- You may do all that tier 2 may, and also redeploy: stop stacks, run playbooks, upgrade, roll back.
- Never allowed: deleting data or volumes, rewriting published history, changing credentials.

Repair it, check again, and say what you did. If you cannot repair it, escalate: a person has to look.
"""
BEGIN = """\
You take over from another agent that watched over the services described below. Its report is the hand-off.

"""


def write_example(workspace: Workspace, directory: Path, agent: str | None = None) -> list[Path]:
    """Write ``FLOW.toml`` and its prompts into a directory, and trust that ``FLOW.toml`` until it is changed.
    Nothing is overwritten."""
    name, can = _capabilities(workspace, agent)
    files = {
        "FLOW.toml": _file(name, can),
        "prompts/environment.md": ENVIRONMENT,
        "prompts/observe.md": OBSERVE,
        "prompts/safe.md": SAFE,
        "prompts/safe-full.md": BEGIN
        + SAFE.replace("The investigation is above", "The hand-off has what it found"),
        "prompts/full.md": FULL,
        "prompts/full-full.md": BEGIN + FULL.replace("is above", "is in the hand-off"),
    }
    there = [each for each in files if os.path.lexists(directory / each)]
    if there:
        raise Misuse(f"{directory / there[0]} exists; nothing was written")
    if (directory / "prompts").is_symlink():
        raise Misuse(f"{directory / 'prompts'} is a link; nothing was written")
    for each, text in files.items():
        (directory / each).parent.mkdir(parents=True, exist_ok=True)
        write_new(directory / each, text.encode())
        (directory / each).chmod(0o644)
    trust_file(workspace.home, directory / "FLOW.toml", files["FLOW.toml"].encode())
    return [directory / each for each in files]


def _capabilities(workspace: Workspace, wanted: str | None) -> tuple[str, Capabilities]:
    env, config = workspace.env, workspace.config
    agent, _, account = resolve_agent(wanted, None, config, env, workspace.cwd)
    child, _ = surroundings(agent, account, env)
    command = config.commands.get(agent.facts.name)
    runtime = probe.probe(agent, env=child.env, configured=command, cache=home_of(env).probes)
    return agent.facts.name, runtime.capabilities


def _file(agent: str, can: Capabilities) -> str:
    shell = _narrowed(can, "bash", "shell", "run_shell_command")
    lists = _Lists(shell, _narrowed(can, "edit")) if shell is not None else None
    tiers = [
        _tier("observe", agent, ("observe", "observe"), "read", LOOKING, (), lists),
        _tier("safe", agent, ("safe", "safe-full"), "edit", (*LOOKING, *RESTARTING), DEPLOYING, lists),
        _tier("full", agent, ("full", "full-full"), "edit", (*LOOKING, *RESTARTING, *DEPLOYING), (), lists),
    ]
    return TOP + "".join(tiers) + (_cooldowns(shell) if shell is not None else "")


class _Lists(msgspec.Struct, frozen=True):
    """The tools whose rules the tiers name: the one that runs commands, and the one that edits files."""

    shell: str
    editor: str | None

    def allow(self, commands: Iterable[str]) -> str:
        return f"allow = {value_text([f'{self.shell}({each})' for each in commands])}"

    def deny(self, commands: Iterable[str]) -> list[str]:
        lines = ["deny = [", *(f"  {value_text(f'{self.shell}({each})')}," for each in commands)]
        if self.editor is not None:
            paths = ", ".join(value_text(f"{self.editor}({each})") for each in PROTECTED)
            lines += ["  # Protected paths: no tier edits these files. Add your own.", f"  {paths},"]
        return [*lines, "]"]


def _narrowed(can: Capabilities, *names: str) -> str | None:
    """The tool of that name, if it can be restricted to some commands or files."""
    if can.tools is None or not (can.allow_tools and can.deny_tools):
        return None
    return next((each for each in can.tools.narrowed if each.lower() in names), None)


def _tier(
    name: str,
    agent: str,
    prompts: tuple[str, str],
    permission: str,
    allow: tuple[str, ...],
    deny: tuple[str, ...],
    lists: _Lists | None,
) -> str:
    text = [
        "",
        "[[tier]]",
        f'name = "{name}"',
        f'agent = "{agent}"',
        '# model = ""                        # a small model can look, a large one should repair',
        f'prompt = "prompts/{prompts[0]}.md"       # for a session that is continued',
        f'full = "prompts/{prompts[1]}.md"    # for a new session',
        f'permission = "{permission}"',
    ]
    if lists is not None:
        text += [lists.allow(allow), *lists.deny((*deny, *FORBIDDEN))]
    return "\n".join(text) + "\n"


def _cooldowns(shell: str) -> str:
    return COOLDOWNS.format(
        restarts=value_text([f"{shell}: docker restart {{key}}", f"{shell}: systemctl restart {{key}}"]),
        no_restart=value_text([f"{shell}(docker restart {{key}})", f"{shell}(systemctl restart {{key}})"]),
        deployments=value_text([f"{shell}: helm upgrade {{key}}", f"{shell}: ansible-playbook {{key}}"]),
        no_deployment=value_text([f"{shell}(helm upgrade {{key}} *)", f"{shell}(ansible-playbook {{key}})"]),
    )
