"""The way of a turn: prepare (what is asked, by whom, where), take (one attempt), and tell.

``prepare`` raises ``Misuse`` for everything that is wrong before a process starts.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from segue.agents import probe, registry
from segue.agents.base import Agent
from segue.config.homes import Home, home_of
from segue.config.load import load
from segue.config.schema import Account, Config
from segue.core.compose import compose
from segue.core.environment import ChildEnvironment, child_environment, login_hint
from segue.core.errors import Misuse, NotInstalled
from segue.core.keys import new_id
from segue.core.outcome import Failure, Outcome
from segue.core.prices import price_for
from segue.core.redact import Redactor
from segue.core.request import Place, Posture, Request, Runtime, Start
from segue.core.turn import AttemptShown, Check, Sent, Turn, shown_failure
from segue.turns import keep
from segue.turns.answering import Answerer
from segue.turns.attempt import Cancel, Task, attempt
from segue.turns.runner import Limits
from segue.turns.telling import Listener

PREFERRED = ("claude", "codex", "gemini", "vibe")
"""The order in which an installed agent is taken when none is named."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller wants, as given; what is ``None`` is left to the configuration."""

    key: str
    prompt: str
    cwd: Path
    agent: str | None = None
    account: str | None = None
    model: str | None = None
    role: str | None = None
    fresh_session: bool = False
    blank: bool = False
    timeout_s: float | None = None
    permission: Posture | None = None
    allow_tools: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()
    max_turns: int | None = None
    budget_usd: float | None = None
    system_prompt_file: Path | None = None
    save: bool = True
    native_args: tuple[str, ...] = ()


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A turn that may start."""

    run: str
    ask: Ask
    config: Config
    segue_home: Home
    agent: Agent
    account: str | None
    runtime: Runtime
    request: Request
    child: ChildEnvironment
    home: Path
    """The account's home: where the CLI keeps its login and its sessions."""


def prepare(ask: Ask, env: Mapping[str, str]) -> Prepared:
    """Settle everything that can be settled before a process starts."""
    cwd = _directory(ask.cwd)
    config = load(env, cwd)
    agent, account_name, account = _who(ask, config, env)
    mine = account or Account(agent=agent.name)
    child = child_environment(env, keys_withheld=agent.keys, account_env=mine.env, pass_env=mine.pass_env)
    home = Path(mine.home) if mine.home else None
    if home is not None:
        child = msgspec.structs.replace(child, env={**child.env, **agent.home_env(home)})
    segue_home = home_of(env, cwd)
    command = config.commands.get(agent.name)
    runtime = probe.probe(agent, env=child.env, configured=command, cache=segue_home.probes)
    return Prepared(
        run=new_id(time.time_ns() // 1_000_000, os.urandom(10)),
        ask=ask,
        config=config,
        segue_home=segue_home,
        agent=agent,
        account=account_name,
        runtime=runtime,
        request=_request(ask, config, agent, runtime, cwd),
        child=child,
        home=home or agent.default_home(child.env),
    )


async def take(
    prepared: Prepared,
    *,
    on_event: Listener | None = None,
    answer: Answerer | None = None,
    cancel: Cancel | None = None,
) -> Turn:
    """Run the turn to its end and say what happened."""
    began = time.monotonic_ns()
    run_dir = prepared.segue_home.make(prepared.segue_home.runs) / prepared.run
    redactor = Redactor(prepared.child.secrets)
    with _home(prepared) as home:
        env = (
            prepared.child.env
            if home == prepared.home
            else {**prepared.child.env, **prepared.agent.home_env(home)}
        )
        task = Task(
            agent=prepared.agent,
            runtime=prepared.runtime,
            request=prepared.request,
            place=Place(run_dir, home, time.time_ns() // 1_000_000),
            env=env,
            home=home,
            limits=Limits(time_s=prepared.ask.timeout_s or prepared.config.defaults.timeout),
            redactor=redactor,
        )
        outcome = await attempt(task, on_event=on_event, answer=answer, cancel=cancel)
    keep.settle(run_dir, redactor)
    outcome = _advised(_priced(outcome, prepared), prepared)
    return _tell(prepared, outcome, (time.monotonic_ns() - began) // 1_000_000)


@contextmanager
def _home(prepared: Prepared) -> Iterator[Path]:
    """The account's home; or, where a session's id can only be found on disk, a private one made from it."""
    if not prepared.runtime.capabilities.id_on_disk_only:
        yield prepared.home
        return
    from segue.turns.homes import runner_home

    name = f"{prepared.agent.name}-{prepared.account or 'default'}"
    with runner_home(prepared.segue_home.make(prepared.segue_home.runners) / name, prepared.home) as home:
        yield home


def _directory(cwd: Path) -> Path:
    if not cwd.is_dir():
        what = "is not a directory" if cwd.exists() else "does not exist"
        raise Misuse(f"the working directory {cwd} {what}")
    return Path(os.path.abspath(cwd))


def _who(ask: Ask, config: Config, env: Mapping[str, str]) -> tuple[Agent, str | None, Account | None]:
    """The agent and the account: as asked, else as configured, else the first agent installed."""
    named = ask.account or (config.defaults.account if ask.agent is None else None)
    account = _account(named, config) if named is not None else None
    wanted = ask.agent or (account.agent if account else config.defaults.agent)
    agent = registry.get(wanted, config) if wanted is not None else _installed(config, env)
    if account is None:
        return agent, *_own_account(agent.name, config)
    if agent.name != account.agent:
        raise Misuse(f'the account "{named}" is of {account.agent}, not of {agent.name}')
    return agent, named, account


def _account(name: str, config: Config) -> Account:
    if name not in config.accounts:
        known = ", ".join(config.accounts) or "none"
        raise Misuse(f'there is no account "{name}" in config.toml (known: {known})')
    return config.accounts[name]


def _own_account(agent: str, config: Config) -> tuple[str | None, Account | None]:
    """The account that an agent uses unless told otherwise: the default one if it is its, or its namesake."""
    for name in (config.defaults.account, agent):
        if name is not None and name in config.accounts and config.accounts[name].agent == agent:
            return name, config.accounts[name]
    return None, None


def _installed(config: Config, env: Mapping[str, str]) -> Agent:
    for name in PREFERRED:
        agent = registry.get(name, config)
        try:
            probe.find(agent, env=env, configured=config.commands.get(name))
        except NotInstalled:
            continue
        return agent
    raise NotInstalled(
        "no agent is installed; install one (npm install -g @anthropic-ai/claude-code),"
        " or try without: --agent rehearsal"
    )


def _request(ask: Ask, config: Config, agent: Agent, runtime: Runtime, cwd: Path) -> Request:
    _refuse_owned(agent, ask.native_args)
    system_prompt = _instructions(ask, config)
    carried = compose(ask.prompt, system_prompt, runtime.capabilities)
    request = Request(
        prompt=carried.prompt,
        cwd=cwd,
        start=Start("fresh", new_id=_uuid() if runtime.capabilities.choose_id and ask.save else None),
        model=ask.model or config.defaults.model,
        permission=ask.permission or config.defaults.permission,
        allow_tools=ask.allow_tools or config.defaults.allow_tools,
        deny_tools=ask.deny_tools or config.defaults.deny_tools,
        max_turns=ask.max_turns or config.defaults.max_turns,
        budget_usd=ask.budget_usd or config.defaults.budget,
        system_prompt=carried.system_prompt,
        save=ask.save,
        native_args=ask.native_args,
    )
    _check(request, agent, runtime)
    return request


def _uuid() -> str:
    from uuid import uuid4

    return str(uuid4())


def _instructions(ask: Ask, config: Config) -> str | None:
    if ask.system_prompt_file is None:
        return config.defaults.instructions
    try:
        return ask.system_prompt_file.read_text(encoding="utf-8")
    except OSError as error:
        raise Misuse(
            f"the system prompt file {ask.system_prompt_file} cannot be read: {error.strerror}"
        ) from None
    except UnicodeDecodeError:
        raise Misuse(f"the system prompt file {ask.system_prompt_file} is not UTF-8") from None


def _refuse_owned(agent: Agent, native: tuple[str, ...]) -> None:
    """Also when a short option and its value are written together."""
    for argument in native:
        long = argument.startswith("--")
        name = argument.split("=", 1)[0] if long else argument[:2]
        if name in agent.owned_args:
            raise Misuse(f"{name} is set by Segue and cannot be passed to {agent.label}")


def _check(request: Request, agent: Agent, runtime: Runtime) -> None:
    """What this version of the CLI cannot do is said before it is started."""
    can = runtime.capabilities
    wants = {
        "--max-turns": (request.max_turns is not None, can.max_turns),
        "--budget": (request.budget_usd is not None, can.budget),
        "--allow-tool": (bool(request.allow_tools), can.allow_tools),
        "--deny-tool": (bool(request.deny_tools), can.deny_tools),
        "--no-save": (not request.save, can.no_save),
        f"--permission {request.permission}": (True, request.permission in can.postures),
    }
    for option, (wanted, able) in wants.items():
        if wanted and not able:
            raise Misuse(f"{agent.label} {runtime.version or ''} cannot do {option}".replace("  ", " "))
    if can.prompt_limit is not None:
        size = len(request.prompt.encode()) if can.prompt_unit == "bytes" else len(request.prompt)
        if size > can.prompt_limit:
            raise Misuse(
                f"the prompt has {size:,} {can.prompt_unit}; {agent.label} {runtime.version or ''} takes at"
                f" most {can.prompt_limit:,}. Put it into a file in the working directory and ask to read it"
            )


def _priced(outcome: Outcome, prepared: Prepared) -> Outcome:
    """Where the CLI names no cost, the price table estimates it."""
    model = outcome.model or prepared.request.model
    if outcome.cost_usd is not None or model is None:
        return outcome
    price = price_for(model, prepared.config.prices)
    cost = price.cost(outcome.usage) if price is not None else None
    return msgspec.structs.replace(outcome, cost_usd=cost, cost_estimated=cost is not None)


def _advised(outcome: Outcome, prepared: Prepared) -> Outcome:
    """A failed login after a key was withheld says so, and how to pass the key."""
    failure = outcome.failure
    if failure is None or failure.kind != "auth":
        return outcome
    withheld = [key for key in prepared.child.withheld if key in prepared.agent.keys]
    hint = login_hint(prepared.agent.label, withheld, prepared.account, prepared.agent.name)
    if hint is None:
        return outcome
    told = Failure("auth", f"{failure.message} ({hint})", failure.reason, failure.until, failure.status)
    return msgspec.structs.replace(outcome, failure=told)


def _tell(prepared: Prepared, outcome: Outcome, duration_ms: int) -> Turn:
    shown = "ok" if outcome.failure is None else outcome.failure.kind
    no_pin = Check("pin", "fail", ("resume", "branch"), "conversations are not kept yet: every turn is fresh")
    return Turn(
        run=prepared.run,
        conversation=prepared.ask.key,
        agent=prepared.agent.name,
        account=prepared.account,
        model=outcome.model or prepared.request.model,
        role=prepared.ask.role,
        mode="fresh",
        resumed=False,
        why=(no_pin,),
        session_id=outcome.session_id,
        sent=Sent(0, 1, len(prepared.request.prompt.encode())),
        text=outcome.text,
        status=outcome.status,
        failure=shown_failure(outcome),
        usage=outcome.usage,
        cost_usd=outcome.cost_usd,
        cost_estimated=outcome.cost_estimated,
        context=outcome.context,
        model_turns=outcome.model_turns,
        tools_run=outcome.tools_run,
        attempts=(AttemptShown("fresh", outcome.session_id, shown, outcome.usage, outcome.cost_usd),),
        duration_ms=duration_ms,
    )
