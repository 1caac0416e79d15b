"""What is asked of an agent: the caller's wishes and the configuration, made into one request."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from segue.agents.base import Agent
from segue.config.schema import Config
from segue.core.errors import Misuse
from segue.core.native import refuse_owned
from segue.core.request import Capabilities, Posture, Questions, Request, Runtime

if TYPE_CHECKING:
    from segue.turns.grants import Granted

NONE: Literal["none"] = "none"
"""``--role none``: no role, although the conversation remembers one; so for all that it remembers."""


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
    fail_on_denied: bool = False
    """A call of a tool that is refused makes a failure of the turn."""
    fork: bool = False
    """If another turn is running: go on in a fork of the conversation."""
    wait_s: float | None = None
    """How long to wait for another turn of the conversation."""
    timeout_s: float | None = None
    permission: Posture | None = None
    allow_tools: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()
    max_turns: int | None = None
    budget_usd: float | Literal["none"] | None = None
    questions: Questions | None = None
    answers: bool = False
    """Somebody is there to answer what the agent asks."""
    system_prompt_file: Path | None = None
    save: bool = True
    native_args: tuple[str, ...] = ()


def request_of(
    ask: Ask,
    config: Config,
    agent: Agent,
    runtime: Runtime,
    cwd: Path,
    model: str | None,
    granted: Granted,
) -> Request:
    """The request as far as it does not depend on how the past is carried."""
    refuse_owned(agent.label, agent.owned_args, ask.native_args)
    request = Request(
        prompt=ask.prompt,
        cwd=cwd,
        model=model or config.defaults.model,
        permission=granted.permission,
        allow_tools=granted.allow_tools,
        deny_tools=granted.deny_tools,
        max_turns=granted.max_turns,
        budget_usd=granted.budget_usd,
        questions=runtime.capabilities.questions and may_ask(ask, config),
        save=ask.save,
        native_args=ask.native_args,
    )
    _check(request, agent, runtime)
    if ask.fail_on_denied and not runtime.capabilities.denials:
        raise Misuse(f"{name_of(agent, runtime)} does not tell what was refused; leave out --fail-on-denied")
    return request


def may_ask(ask: Ask, config: Config) -> bool:
    """Whether a session that begins now offers the agent to ask the user: where somebody would answer."""
    wanted = ask.questions or config.defaults.questions
    return ask.answers if wanted == "auto" else wanted == "on"


def name_of(agent: Agent, runtime: Runtime) -> str:
    """The agent with its version, for sentences."""
    return " ".join(filter(None, (agent.label, runtime.version)))


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


def _check(request: Request, agent: Agent, runtime: Runtime) -> None:
    """What this version of the CLI cannot do is said before it is started."""
    can, name = runtime.capabilities, name_of(agent, runtime)
    if not request.save and not can.no_save:
        raise Misuse(f"{name} cannot do --no-save")
    if too_long(request.prompt, can):
        raise Misuse(
            f"the prompt has {size_of(request.prompt, can):,} {can.prompt_unit}; {name} takes at most"
            f" {can.prompt_limit:,}. Put it into a file in the working directory and ask to read it"
        )


def size_of(prompt: str, can: Capabilities) -> int:
    return len(prompt.encode()) if can.prompt_unit == "bytes" else len(prompt)


def too_long(prompt: str, can: Capabilities) -> bool:
    return can.prompt_limit is not None and size_of(prompt, can) > can.prompt_limit
