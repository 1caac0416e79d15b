"""``FLOW.toml``: reads an escalation, with its prompts, and refuses what cannot be enforced.

The file may be somebody else's. Unless the user trusts its directory, or the file itself, it may let agents
look, and no more. Every error is one line that names the file and the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from segue.agents.base import Agent
from segue.app.agents import found_agent
from segue.config.explain import no_such, refused
from segue.config.home import home_of
from segue.config.load import load
from segue.config.named_files import OutsideProject, read_inside, read_typed
from segue.config.schema import Config
from segue.config.source import Source, source_of
from segue.config.trust import FileTrust, file_trust, is_covered, way_to_trust
from segue.core.errors import ConfigError, Misuse, SegueError
from segue.core.request import Grant, Posture, Request, Runtime
from segue.core.tools import changing
from segue.flows.cooldowns import KEY
from segue.flows.escalation_plan import Above, Cooldown, EscalationPlan, Policy, Positive, Tier
from segue.system.named_files import is_below, working_tree
from segue.turns.agent_choice import surroundings
from segue.turns.permissions import grant_terms
from segue.turns.prepare import refuse_unenforced
from segue.turns.request import NONE, TurnRequest, name_of

MOST_TIERS = 20
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
    permission: Posture | None = None
    """None: ``default``; in a file that is not trusted, ``read``."""
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
    """One ``FLOW.toml``. ``here``: the directory of the user who names it."""

    def __init__(self, path: str | Path, env: Mapping[str, str], here: Path) -> None:
        self._path, self._env, self._here = path, env, here
        self._name = Path(path).name
        self._file = here
        self._trust: FileTrust = "untrusted"

    def read(self, *, dry_run: bool = False, max_tier: int | None = None) -> EscalationPlan:
        """The plan, with the texts of its prompts. Raises ``ConfigError``."""
        keys = self._convert("", self._source().tables, FileKeys)
        if not 1 <= len(keys.tier) <= MOST_TIERS:
            raise self._error("[[tier]]", f"there must be 1 to {MOST_TIERS}, not {len(keys.tier)}")
        policy = self._convert("[policy]", keys.policy, Policy)
        if policy.command:
            self._needs_trust("[policy] command", "it runs a command")
        if policy.max_tier is not None and policy.max_tier > len(keys.tier):
            raise self._error("[policy] max_tier", f"there are only {len(keys.tier)} tiers")
        if max_tier is not None:
            policy = msgspec.structs.replace(policy, max_tier=min(max_tier, policy.max_tier or max_tier))
        return EscalationPlan(
            name=keys.name or str(self._file),
            tiers=tuple(self._tier(n, table) for n, table in enumerate(keys.tier, 1)),
            environment=self._environment(keys),
            policy=policy,
            cooldowns=tuple(self._cooldown(n, table) for n, table in enumerate(keys.cooldown, 1)),
            dry_run=dry_run,
        )

    def _source(self) -> Source:
        """What is in the file, and whether it is trusted."""
        try:
            found = read_typed(self._path, self._env, self._here)
        except Misuse as error:
            if isinstance(error.__cause__, FileNotFoundError):
                place = self._here / Path(self._path).expanduser()
                raise ConfigError(
                    f"there is no file {place}; segue init escalate writes an example"
                ) from None
            raise ConfigError(error.message) from None
        self._file, home = found.path, home_of(self._env)
        self._trust = file_trust(home, found.path, found.data)
        if is_covered(home, self._folder, working_tree(self._folder)):
            self._trust = "trusted"
        return source_of(self._name, found.data)

    @property
    def _folder(self) -> Path:
        return self._file.parent

    def _needs_trust(self, place: str, what: str) -> None:
        """Raise, unless the file is trusted. ``what``: what only a trusted file may do."""
        if self._trust == "trusted":
            return
        now = " (it has changed since Segue wrote it)" if self._trust == "changed" else ""
        raise self._error(
            place, f"{what}; only a file that you trust may do that{now}: read it, then {self._way}"
        )

    @property
    def _way(self) -> str:
        return way_to_trust(self._folder)

    def settled(self, plan: EscalationPlan, env: Mapping[str, str], cwd: Path) -> EscalationPlan:
        """The plan with the agent and account of each tier. Raises ``ConfigError`` for a tier whose agent
        cannot do what the tier says about it."""
        config = load(env, cwd)
        tiers = list(plan.tiers)
        found: dict[int, tuple[Agent, Runtime]] = {}
        for n, tier in enumerate(tiers):
            if not tier.human:
                agent, named, runtime = self._found(n, tier, config, env, cwd)
                found[n] = agent, runtime
                tiers[n] = msgspec.structs.replace(tier, agent=agent.facts.name, account=named)
        plan = msgspec.structs.replace(plan, tiers=tuple(tiers))
        for n, (agent, runtime) in found.items():
            try:
                self._check(n, plan, agent, runtime, config, env, cwd)
            except ConfigError:
                raise
            except Misuse as error:
                trusted = self._trust == "trusted"
                hint = "" if trusted else f" (without segue trust {self._folder} it may only read)"
                raise self._error(_place(n, plan.tiers[n]), error.message + hint) from None
        return plan

    def _found(
        self, n: int, tier: Tier, config: Config, env: Mapping[str, str], cwd: Path
    ) -> tuple[Agent, str | None, Runtime]:
        try:
            return found_agent(tier.agent, tier.account, config, env, cwd)
        except SegueError as error:
            raise self._error(f"{_place(n, tier)} agent", error.message) from None

    def _check(
        self,
        n: int,
        plan: EscalationPlan,
        agent: Agent,
        runtime: Runtime,
        config: Config,
        env: Mapping[str, str],
        cwd: Path,
    ) -> None:
        """Raise ``ConfigError`` or ``Misuse`` for what the tier's agent cannot do or cannot be kept to."""
        tier, name, can = plan.tiers[n], name_of(agent, runtime), runtime.capabilities
        if rules := changing(can.tools, tier.allow):
            self._needs_trust(f"{_place(n, tier)} allow", f"{rules[0]} may write or run something")
        denies = tuple(tool.replace(KEY, "x") for each in plan.cooldowns for tool in each.deny)
        for key, said in (("deny", tier.deny), ("[[cooldown]] deny", denies), ("allow", tier.allow)):
            if said and not (can.allow_tools if key == "allow" else can.deny_tools):
                why = f"{name} cannot enforce it: it has no such list of tools"
                raise self._error(f"{_place(n, tier)} {key}", why)
        grant_terms(_asked(tier, tier.permission, tier.allow, denies), Grant(), config.defaults, can, name)
        given = _asked(tier, plan.permission(tier), plan.allowed(tier), denies)
        granted = grant_terms(given, Grant(), config.defaults, can, name)
        request = Request(
            prompt="x",
            cwd=cwd,
            permission=granted.permission,
            allow_tools=granted.allow_tools,
            deny_tools=granted.deny_tools,
        )
        account = config.accounts.get(tier.account) if tier.account is not None else None
        child, home = surroundings(agent, account, env)
        refuse_unenforced(agent, request, runtime, home, child)

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
        if keys.account is not None:
            self._needs_trust(f"{place} account", "it chooses an account")
        if keys.permission not in (None, "read"):
            self._needs_trust(f"{place} permission", f"{keys.permission} is more than read")
        trusted = self._trust == "trusted"
        given = {name: getattr(keys, name) for name in Tier.__struct_fields__}
        given |= {
            "permission": keys.permission or ("default" if trusted else "read"),
            "carry": keys.carry and trusted,
        }
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
        """The text of a file that this one names."""
        if name is None:
            return ""
        root, trusted = working_tree(self._folder), self._trust == "trusted"
        try:
            raw = read_inside(self._folder, name, root if trusted else self._folder)
        except OutsideProject as error:
            if is_below(error.path, root):
                self._needs_trust(place, f"{error.path} is outside the folder of the file")
            still = "" if trusted else "; segue trust does not change that"
            why = f"{error.path} is not below {root}, where the files of a FLOW.toml must be{still}"
            raise self._error(place, why) from None
        except Misuse as error:
            raise self._error(place, error.message) from None
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            raise self._error(place, f"{name} is not UTF-8") from None
        if not text.strip():
            raise self._error(place, f"{name} is empty")
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
        return ConfigError(f"{self._name}: {place.strip()}: {why}")


def _place(n: int, tier: Tier) -> str:
    return f"[[tier]] {n + 1} ({tier.name})"


def _asked(tier: Tier, permission: Posture, allow: tuple[str, ...], denies: tuple[str, ...]) -> TurnRequest:
    return TurnRequest(
        conversation="x",
        prompt="x",
        permission=permission,
        allow_tools=allow or (NONE,),
        deny_tools=(*tier.deny, *denies) or (NONE,),
        max_turns=tier.max_turns,
        budget_usd=tier.budget if tier.budget is not None else NONE,
    )
