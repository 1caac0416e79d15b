"""What an agent may do in a turn: as requested now, as remembered, or as configured.

An option, given or remembered, is refused if the agent does not support it. A default is meant for many
agents: one that this agent does not support is left out with a notice. That never widens a permission.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from segue.config.schema import Defaults
from segue.core import tools as names
from segue.core.errors import Misuse
from segue.core.request import Capabilities, Grant, Posture
from segue.core.verdicts import Said, say
from segue.turns.request import NONE, TurnRequest

Number = TypeVar("Number", int, float)
RISING: tuple[Posture, ...] = ("read", "default", "edit", "full")
"""Each grants more than the one before it."""


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """What applies to the turn, what its voice remembers from now on, and what the caller should know."""

    permission: Posture
    allow_tools: tuple[str, ...]
    deny_tools: tuple[str, ...]
    max_turns: int | None
    budget_usd: float | None
    grant: Grant
    before: Grant
    """What the voice remembered, as far as it applies to the turn."""
    remembered: tuple[str, ...]
    notices: tuple[Said, ...]


def grant_terms(
    ask: TurnRequest,
    before: Grant,
    defaults: Defaults,
    can: Capabilities,
    name: str,
    always: tuple[str, ...] = (),
    now: Grant | None = None,
) -> Granted:
    """``before``: what the voice remembers; ``name``: the agent with its version, for messages. ``always``:
    the tools that the user allowed for good when the agent asked. ``now``: what the voice remembers now, if
    ``before`` is from an earlier time."""
    grant = _wanted(ask, before)
    judge = _Judge(ask, can, name)
    deny = judge.tools("deny_tools", grant.deny_tools, defaults.deny_tools, can.deny_tools)
    allow = judge.tools("allow_tools", grant.allow_tools, defaults.allow_tools, can.allow_tools)
    kept = () if NONE in ask.allow_tools else judge.known(always)
    permission = judge.permission(grant.permission, defaults.permission, deny, bool(grant.deny_tools))
    if permission == "read":
        allow = judge.parts(allow, bool(grant.allow_tools))
        kept = tuple(tool for tool in kept if not names.changing(can.tools, (tool,)))
    return Granted(
        permission=permission,
        allow_tools=tuple(dict.fromkeys((*allow, *(tool for tool in kept if tool not in deny)))),
        deny_tools=() if judge.undeniable else deny,
        max_turns=judge.limit("max_turns", ask.max_turns, defaults.max_turns, can.max_turns),
        budget_usd=judge.limit("budget", grant.budget_usd, defaults.budget, can.budget),
        grant=grant if now is None else _wanted(ask, now),
        before=before,
        remembered=tuple(
            field
            for field in Grant.__struct_fields__
            if getattr(ask, field) in (None, ())
            and (getattr(grant, field) not in (None, ()) or (kept and field == "allow_tools"))
        ),
        notices=tuple(judge.notices),
    )


def _wanted(ask: TurnRequest, before: Grant) -> Grant:
    """What is requested now, else before; ``none`` resets what was requested before."""
    for option, given in (("--allow-tool", ask.allow_tools), ("--deny-tool", ask.deny_tools)):
        if NONE in given and len(given) > 1:
            raise Misuse(f"{option} none resets the remembered list; use it alone")
    budget = before.budget_usd if ask.budget_usd is None else ask.budget_usd
    return Grant(
        permission=ask.permission or before.permission,
        allow_tools=() if NONE in ask.allow_tools else ask.allow_tools or before.allow_tools,
        deny_tools=() if NONE in ask.deny_tools else ask.deny_tools or before.deny_tools,
        budget_usd=budget if isinstance(budget, float | int) else None,
    )


class _Judge:
    """Compares what is wanted with what the agent supports: refuses it, or leaves it out with a notice."""

    def __init__(self, ask: TurnRequest, can: Capabilities, name: str) -> None:
        self._ask, self._can, self._name = ask, can, name
        self.notices: list[Said] = []
        self.undeniable = False
        """The default list of denied tools cannot be combined with the requested permission."""

    def known(self, always: tuple[str, ...]) -> tuple[str, ...]:
        """Those of the tools that the agent can be told. The others are allowed when it asks."""
        table = self._can.tools
        if not self._can.allow_tools:
            return ()
        return tuple(tool for tool in always if table is None or names.knows(table, tool))

    def tools(
        self, field: str, said: tuple[str, ...], default: tuple[str, ...], able: bool
    ) -> tuple[str, ...]:
        option = f"--{field.removesuffix('s').replace('_', '-')}"
        if not (said or default):
            return ()
        if not able:
            if said:
                raise Misuse(f"{self._name} does not support {option}{self._origin(field, option)}")
            self._ignored(field, option)
            return ()
        table = self._can.tools
        wrong = [tool for tool in said or default if table is not None and not names.knows(table, tool)]
        if said and wrong and table is not None:
            what = f'{self._name} has no tool "{wrong[0]}" ({option}{self._origin(field, option)})'
            raise Misuse(f"{what}; {names.unknown(table, wrong[0])}")
        for tool in wrong:
            self._unknown(field, tool)
        return tuple(tool for tool in said or default if tool not in wrong)

    def parts(self, allow: tuple[str, ...], said: bool) -> tuple[str, ...]:
        """With ``--permission read``, a tool that writes or runs can only be allowed in part."""
        whole = names.bare(self._can.tools, allow)
        if whole and said:
            what = f"--permission read does not go with --allow-tool {whole[0]}"
            narrowed = self._can.tools.narrowed if self._can.tools is not None else ()
            tool = whole[0].partition("(")[0]
            how = f'allow a part of it, such as "{tool}(PATTERN)"' if tool in narrowed else "leave it out"
            raise Misuse(
                f"{what}{self._origin('allow_tools', '--allow-tool')}: the tool may write or run anything;"
                f" {how}, or use --permission edit"
            )
        for tool in whole:
            self._too_much_to_read(tool)
        return tuple(tool for tool in allow if tool not in whole)

    def permission(
        self, said: Posture | None, default: Posture, deny: tuple[str, ...], deny_said: bool
    ) -> Posture:
        wanted, clash = said or default, "--deny-tool together with --permission full"
        clashes = wanted == "full" and bool(deny) and not self._can.deny_with_full
        if wanted in self._can.postures and not clashes:
            return wanted
        if said is not None and clashes and not deny_said:
            self.undeniable = True
            text = f"[defaults] deny_tools has no effect in this turn: {self._name} does not support {clash}"
            self.notices.append(say(text, "notice.deny_with_full", agent=self._name))
            return said
        if said is not None:
            what = clash if clashes else f"--permission {said}"
            raise Misuse(f"{self._name} does not support {what}{self._origin('permission', '--permission')}")
        able = [each for each in RISING[: RISING.index(wanted)] if each in self._can.postures]
        if not able:
            raise Misuse(
                f"{self._name} does not support --permission {wanted} ([defaults] permission), nor anything"
                f" that grants less; use --permission {self._can.postures[0]} to run it anyway"
            )
        text = (
            f"[defaults] permission = {wanted} cannot be applied: {self._name} does not support"
            f" {clash if clashes else f'--permission {wanted}'}; the turn runs with {able[-1]},"
            " which grants less"
        )
        values = {"agent": self._name, "wanted": wanted, "granted": able[-1]}
        self.notices.append(
            say(text, "notice.full_with_deny" if clashes else "notice.granted_less", **values)
        )
        return able[-1]

    def limit(self, field: str, said: Number | None, default: Number | None, able: bool) -> Number | None:
        wanted = said if said is not None else default
        option = f"--{field.replace('_', '-')}"
        if wanted is None or able:
            return wanted
        if said is not None:
            raise Misuse(f"{self._name} does not support {option}{self._origin(f'{field}_usd', option)}")
        self._ignored(field, option)
        return None

    def _unknown(self, field: str, tool: str) -> None:
        allows, agent = field == "allow_tools", self._name
        does = "allowed" if allows else "refused"
        text = f'[defaults] {field}: {agent} has no tool "{tool}", so it is not {does} in this turn'
        self.notices.append(
            say(text, "notice.not_allowed" if allows else "notice.not_refused", agent=agent, tool=tool)
        )

    def _too_much_to_read(self, tool: str) -> None:
        text = f"[defaults] allow_tools: {tool} may write or run anything, so it is not allowed in this turn"
        self.notices.append(say(text, "notice.not_with_read", tool=tool))

    def _ignored(self, field: str, option: str) -> None:
        text = f"[defaults] {field} has no effect in this turn: {self._name} does not support {option}"
        self.notices.append(say(text, "notice.no_effect", setting=field, agent=self._name, option=option))

    def _origin(self, field: str, option: str) -> str:
        """An addition for a value that is remembered, not given now."""
        if getattr(self._ask, field, True) not in (None, ()):
            return ""
        back = "default" if field == "permission" else NONE
        return f", remembered from an earlier turn: {option} {back} resets it"
