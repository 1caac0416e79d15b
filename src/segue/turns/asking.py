"""What is asked of an agent: the caller's wishes and the configuration, made into one request."""

from __future__ import annotations

from pathlib import Path

import msgspec

from segue.agents.base import Agent
from segue.config.schema import Config
from segue.core.errors import Misuse
from segue.core.native import refuse_owned
from segue.core.request import Capabilities, Posture, Request, Runtime


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """What the caller wants, as given; what is ``None`` is left to the conversation and the configuration."""

    key: str
    prompt: str
    cwd: Path | None = None
    """None: where the conversation lives, which must be where the caller stands."""
    agent: str | None = None
    account: str | None = None
    model: str | None = None
    role: str | None = None
    fresh_session: bool = False
    blank: bool = False
    adopt: str | None = None
    """A native session, by its id, to be taken into the conversation before the turn."""
    new: bool = False
    """A new message, although the same words failed just before."""
    via: str = ""
    """``run``: a plain ``segue run``, whose repetition after a failure is its retry."""
    cut: bool = False
    """Of a retry: what was said after the message may go."""
    retries: int | None = None
    """How often to try again after a failure that may pass."""
    fork: bool = False
    """If another turn is running: go on in a fork of the conversation."""
    wait_s: float | None = None
    """How long to wait for another turn of the conversation."""
    timeout_s: float | None = None
    permission: Posture | None = None
    allow_tools: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()
    max_turns: int | None = None
    budget_usd: float | None = None
    system_prompt_file: Path | None = None
    save: bool = True
    native_args: tuple[str, ...] = ()


def request_of(
    ask: Ask, config: Config, agent: Agent, runtime: Runtime, cwd: Path, model: str | None
) -> Request:
    """The request as far as it does not depend on how the past is carried."""
    refuse_owned(agent.label, agent.owned_args, ask.native_args)
    request = Request(
        prompt=ask.prompt,
        cwd=cwd,
        model=model or config.defaults.model,
        permission=ask.permission or config.defaults.permission,
        allow_tools=ask.allow_tools or config.defaults.allow_tools,
        deny_tools=ask.deny_tools or config.defaults.deny_tools,
        max_turns=ask.max_turns or config.defaults.max_turns,
        budget_usd=ask.budget_usd or config.defaults.budget,
        save=ask.save,
        native_args=ask.native_args,
    )
    _check(ask, request, agent, runtime)
    return request


def instructions_of(ask: Ask, config: Config) -> str | None:
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
    if too_long(request.prompt, can):
        raise Misuse(
            f"the prompt has {size_of(request.prompt, can):,} {can.prompt_unit}; {name} takes at most"
            f" {can.prompt_limit:,}. Put it into a file in the working directory and ask to read it"
        )


def size_of(prompt: str, can: Capabilities) -> int:
    return len(prompt.encode()) if can.prompt_unit == "bytes" else len(prompt)


def too_long(prompt: str, can: Capabilities) -> bool:
    return can.prompt_limit is not None and size_of(prompt, can) > can.prompt_limit
