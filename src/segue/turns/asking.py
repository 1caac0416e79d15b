"""What is asked of an agent: the caller's wishes and the configuration, made into one request."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import msgspec

from segue.agents.base import Agent
from segue.config.schema import Config
from segue.core.compose import compose
from segue.core.errors import Misuse
from segue.core.native import refuse_owned
from segue.core.request import Posture, Request, Runtime, Start


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
    fork: bool = False
    wait_s: float | None = None
    """What to do about a busy session; a fresh turn has a session of its own and never meets one."""
    timeout_s: float | None = None
    permission: Posture | None = None
    allow_tools: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()
    max_turns: int | None = None
    budget_usd: float | None = None
    system_prompt_file: Path | None = None
    save: bool = True
    native_args: tuple[str, ...] = ()


def request_of(ask: Ask, config: Config, agent: Agent, runtime: Runtime, cwd: Path) -> Request:
    refuse_owned(agent.label, agent.owned_args, ask.native_args)
    system_prompt = _instructions(ask, config)
    carried = compose(ask.prompt, system_prompt, runtime.capabilities)
    request = Request(
        prompt=carried.prompt,
        cwd=cwd,
        start=Start("fresh", new_id=str(uuid4()) if runtime.capabilities.choose_id and ask.save else None),
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
    _check(ask, request, agent, runtime)
    return request


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


def _check(ask: Ask, request: Request, agent: Agent, runtime: Runtime) -> None:
    """What this version of the CLI cannot do is said before it is started."""
    can, name = runtime.capabilities, " ".join(filter(None, (agent.label, runtime.version)))
    wants = (
        ("--max-turns", ask.max_turns, request.max_turns, can.max_turns),
        ("--budget", ask.budget_usd, request.budget_usd, can.budget),
        ("--allow-tool", ask.allow_tools, request.allow_tools, can.allow_tools),
        ("--deny-tool", ask.deny_tools, request.deny_tools, can.deny_tools),
        ("--no-save", not ask.save, not request.save, can.no_save),
        (f"--permission {request.permission}", ask.permission, True, request.permission in can.postures),
    )
    for option, asked, wanted, able in wants:
        if wanted and not able:
            origin = "" if asked else " (set by [defaults] in config.toml)"
            raise Misuse(f"{name} cannot do {option}{origin}")
    if can.prompt_limit is not None:
        size = len(request.prompt.encode()) if can.prompt_unit == "bytes" else len(request.prompt)
        if size > can.prompt_limit:
            raise Misuse(
                f"the prompt has {size:,} {can.prompt_unit}; {name} takes at most {can.prompt_limit:,}."
                " Put it into a file in the working directory and ask to read it"
            )
