"""``FLOW.toml``: reads an escalation, with its prompts, and refuses what cannot be enforced.

Every error is one line that names the file and the key.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from segue.app.agents import found_agent
from segue.config.explain import no_such, refused
from segue.config.load import load
from segue.config.schema import Config
from segue.config.source import read_file
from segue.core.errors import ConfigError, Misuse, SegueError
from segue.core.request import Grant, Posture
from segue.flows.cooldowns import KEY
from segue.flows.escalation_plan import Above, Cooldown, EscalationPlan, Policy, Positive, Tier
from segue.turns.permissions import grant_terms
from segue.turns.request import NONE, TurnRequest, name_of

MOST_TIERS = 20
LONGEST_PROMPT = 1_000_000
"""In bytes."""
Word = Annotated[str, Meta(min_length=1, max_length=200)]
S = TypeVar("S", bound=msgspec.Struct)


class TierKeys(msgspec.Struct, frozen=True, kw_only=True):
    """``[[tier]]``: the keys of a tier. ``prompt`` and ``full`` are files, relative to ``FLOW.toml``."""

    name: Word
    human: bool = False
    question: str = ""
    agent: Word | None = None
    account: Word | None = None
    model: Word | None = None
    prompt: Word | None = None
    full: Word | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    permission: Posture = "default"
    budget: Above | None = None
    timeout: Above | None = None
    max_turns: Positive | None = None
    carry: bool = False
    """Its hand-off may have what was said under another account, if the file is trusted."""


class FileKeys(msgspec.Struct, frozen=True, kw_only=True):
    """The keys at the top of the file."""

    name: Word | None = None
    environment: str = ""
    environment_file: Word | None = None
    policy: dict[str, Any] = {}
    tier: list[dict[str, Any]] = []
    cooldown: list[dict[str, Any]] = []


class EscalationFile:
    """One ``FLOW.toml``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, *, dry_run: bool = False, max_tier: int | None = None) -> EscalationPlan:
        """The plan, with the texts of its prompts. Raises ``ConfigError``."""
        source = read_file(self.path)
        if source is None:
            raise ConfigError(f"there is no file {self.path}; segue init escalate writes an example")
        keys = self._convert("", source.tables, FileKeys)
        if not 1 <= len(keys.tier) <= MOST_TIERS:
            raise self._error("[[tier]]", f"there must be 1 to {MOST_TIERS}, not {len(keys.tier)}")
        policy = self._convert("[policy]", keys.policy, Policy)
        if policy.max_tier is not None and policy.max_tier > len(keys.tier):
            raise self._error("[policy] max_tier", f"there are only {len(keys.tier)} tiers")
        if max_tier is not None:
            policy = msgspec.structs.replace(policy, max_tier=min(max_tier, policy.max_tier or max_tier))
        return EscalationPlan(
            name=keys.name or os.path.realpath(self.path),
            tiers=tuple(self._tier(n, table) for n, table in enumerate(keys.tier, 1)),
            environment=self._environment(keys),
            policy=policy,
            cooldowns=tuple(self._cooldown(n, table) for n, table in enumerate(keys.cooldown, 1)),
            dry_run=dry_run,
        )

    def settled(self, plan: EscalationPlan, env: Mapping[str, str], cwd: Path) -> EscalationPlan:
        """The plan with the agent and account of each tier. Raises ``ConfigError`` for a tier whose agent
        cannot do what the tier says about it."""
        config = load(env, cwd)
        tiers = tuple(
            tier if tier.human else self._checked(n, tier, plan, config, env, cwd)
            for n, tier in enumerate(plan.tiers, 1)
        )
        return msgspec.structs.replace(plan, tiers=tiers)

    def _checked(
        self, n: int, tier: Tier, plan: EscalationPlan, config: Config, env: Mapping[str, str], cwd: Path
    ) -> Tier:
        place = f"[[tier]] {n} ({tier.name})"
        try:
            agent, named, runtime = found_agent(tier.agent, tier.account, config, env, cwd)
        except SegueError as error:
            raise self._error(f"{place} agent", error.message) from None
        name, can = name_of(agent, runtime), runtime.capabilities
        denies = tuple(tool.replace(KEY, "x") for each in plan.cooldowns for tool in each.deny)
        for key, said in (("deny", tier.deny), ("[[cooldown]] deny", denies), ("allow", tier.allow)):
            if said and not (can.allow_tools if key == "allow" else can.deny_tools):
                raise self._error(f"{place} {key}", f"{name} cannot enforce it: it has no such list of tools")
        ask = TurnRequest(conversation="x", prompt="x", **_terms(tier, denies, plan.dry_run))
        try:
            grant_terms(ask, Grant(), config.defaults, can, name)
        except Misuse as error:
            raise self._error(place, error.message) from None
        return msgspec.structs.replace(tier, agent=agent.facts.name, account=named)

    def _tier(self, n: int, table: dict[str, Any]) -> Tier:
        place = f"[[tier]] {n}"
        keys = self._convert(place, table, TierKeys)
        if keys.human:
            for key in table.keys() - {"name", "human", "question"}:
                raise self._error(f"{place} {key}", "a person has no such key; it takes name and question")
            return Tier(name=keys.name, human=True, question=keys.question)
        if keys.question:
            raise self._error(f"{place} question", "it is only for human = true")
        needed = ("full",) if n == 1 else ("prompt", "full")
        for key in needed:
            if getattr(keys, key) is None:
                raise self._error(f"{place} {key}", "the file with the prompt is missing")
        given = {name: getattr(keys, name) for name in Tier.__struct_fields__}
        texts = {key: self._text(f"{place} {key}", getattr(keys, key)) for key in ("prompt", "full")}
        return Tier(**{**given, **texts})

    def _cooldown(self, n: int, table: dict[str, Any]) -> Cooldown:
        return self._convert(f"[[cooldown]] {n}", table, Cooldown)

    def _environment(self, keys: FileKeys) -> str:
        if keys.environment_file is None:
            return keys.environment
        if keys.environment:
            raise self._error("environment", "give it, or environment_file, not both")
        return self._text("environment_file", keys.environment_file)

    def _text(self, place: str, name: str | None) -> str:
        """The text of a file beside ``FLOW.toml``."""
        if name is None:
            return ""
        path = self.path.parent / Path(name).expanduser()
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise self._error(place, f"cannot read {path}: {error.strerror}") from None
        if len(raw) > LONGEST_PROMPT:
            raise self._error(place, f"{path} has more than {LONGEST_PROMPT:,} bytes")
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            raise self._error(place, f"{path} is not UTF-8") from None
        if not text.strip():
            raise self._error(place, f"{path} is empty")
        return text.strip()

    def _convert(self, place: str, table: dict[str, Any], kind: type[S]) -> S:
        for key in table:
            if key not in kind.__struct_fields__:
                raise self._error(f"{place} {key}", no_such("key", key, kind.__struct_fields__))
        try:
            return msgspec.convert(table, kind)
        except msgspec.ValidationError as error:
            key, why = refused(error, kind, table)
            raise self._error(f"{place} {key}", why) from None

    def _error(self, place: str, why: str) -> ConfigError:
        return ConfigError(f"{self.path.name}: {place.strip()}: {why}")


def _terms(tier: Tier, denies: tuple[str, ...], dry_run: bool) -> dict[str, Any]:
    return {
        "permission": "read" if dry_run else tier.permission,
        "allow_tools": tier.allow or (NONE,),
        "deny_tools": (*tier.deny, *denies) or (NONE,),
        "max_turns": tier.max_turns,
        "budget_usd": tier.budget if tier.budget is not None else NONE,
    }
