"""What is asked of an agent: the caller's wishes and the configuration, made into one request.

The options of a turn as the library takes them: the command line's, by the same names.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, get_args

import msgspec

from segue.agents.base import Agent
from segue.config.schema import Config
from segue.core.errors import Misuse
from segue.core.ids import conversation_key
from segue.core.request import Capabilities, Posture, Questions, Request, Runtime, refuse_owned

if TYPE_CHECKING:
    from segue.turns.permissions import Granted


NONE: Literal["none"] = "none"
"""``--role none``: no role, although the conversation remembers one; so for all that it remembers."""


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True):
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
    ask: TurnRequest,
    config: Config,
    agent: Agent,
    runtime: Runtime,
    cwd: Path,
    model: str | None,
    granted: Granted,
) -> Request:
    """The request as far as it does not depend on how the past is carried."""
    refuse_owned(agent.facts.label, agent.facts.owned_args, ask.native_args)
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


def may_ask(ask: TurnRequest, config: Config) -> bool:
    """Whether a session that begins now offers the agent to ask the user: where somebody would answer."""
    wanted = ask.questions or config.defaults.questions
    return ask.answers if wanted == "auto" else wanted == "on"


def name_of(agent: Agent, runtime: Runtime) -> str:
    """The agent with its version, for sentences."""
    return " ".join(filter(None, (agent.facts.label, runtime.version)))


def instructions_of(ask: TurnRequest, config: Config) -> str | None:
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


LONGEST = 200
"""Characters of a name."""


class Options(TypedDict, total=False):
    """All may be left out: the conversation remembers, the configuration has defaults."""

    agent: str | None
    account: str | None
    model: str | None
    role: str | None
    cwd: str | Path | None
    fresh_session: bool
    blank: bool
    adopt: str | None
    new: bool
    cut: bool
    retries: int | None
    fail_on_denied: bool
    fork: bool
    wait: float | None
    timeout: float | None
    permission: Posture | None
    allow_tools: Sequence[str]
    deny_tools: Sequence[str]
    max_turns: int | None
    budget: float | Literal["none"] | None
    questions: Questions | None
    system_prompt_file: str | Path | None
    save: bool
    native_args: Sequence[str]


def request_from_options(
    key: str, text: str, options: Options, *, may_be_empty: bool = False, answers: bool = False
) -> TurnRequest:
    """The wish as the pipeline takes it, or ``Misuse``. ``answers``: somebody would answer the agent."""
    _check_options(options)
    if not text.strip() and not may_be_empty:
        raise Misuse("the prompt is empty")
    cwd, file = options.get("cwd"), options.get("system_prompt_file")
    return TurnRequest(
        key=conversation_key(key),
        prompt=utf8(text, "prompt"),
        cwd=Path(cwd).expanduser() if cwd is not None else None,
        agent=options.get("agent"),
        account=options.get("account"),
        model=options.get("model"),
        role=options.get("role"),
        fresh_session=options.get("fresh_session", False),
        blank=options.get("blank", False),
        adopt=options.get("adopt"),
        new=options.get("new", False),
        cut=options.get("cut", False),
        retries=options.get("retries"),
        fail_on_denied=options.get("fail_on_denied", False),
        fork=options.get("fork", False),
        wait_s=_number("wait", options.get("wait"), least=0),
        timeout_s=_number("timeout", options.get("timeout")),
        permission=options.get("permission"),
        allow_tools=tuple(options.get("allow_tools", ())),
        deny_tools=tuple(options.get("deny_tools", ())),
        max_turns=options.get("max_turns"),
        budget_usd=_budget(options.get("budget")),
        questions=options.get("questions"),
        answers=answers,
        system_prompt_file=Path(file).expanduser() if file is not None else None,
        save=options.get("save", True),
        native_args=tuple(options.get("native_args", ())),
    )


def utf8(text: str, what: str) -> str:
    """The text as it is. One with half a character in it can be neither stored nor sent."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Misuse(f"the {what} is not UTF-8: wrong character at {error.start}") from None
    return text


def _check_options(options: Options) -> None:
    """What the types promise, for callers that nobody checks."""
    unknown = set(options) - set(Options.__annotations__)
    if unknown:
        raise Misuse(f"there is no option {', '.join(sorted(unknown))}")
    for name in ("agent", "account", "model", "role", "adopt"):
        value = options.get(name)
        if value is not None and not _is_word(value):
            raise Misuse(f"{name} takes a name of one line (at most {LONGEST} characters), not {value!r:.60}")
    posture, turns, retries = options.get("permission"), options.get("max_turns"), options.get("retries")
    if posture is not None and posture not in get_args(Posture):
        raise Misuse(f"permission takes {', '.join(get_args(Posture))}, not {posture!r:.60}")
    asks = options.get("questions")
    if asks is not None and asks not in get_args(Questions):
        raise Misuse(f"questions takes {', '.join(get_args(Questions))}, not {asks!r:.60}")
    if turns is not None and (not isinstance(turns, int) or turns < 1):
        raise Misuse(f"max_turns takes a number from 1 on, not {turns!r:.60}")
    if retries is not None and (not isinstance(retries, int) or retries < 0):
        raise Misuse(f"retries takes a number from 0 on, not {retries!r:.60}")
    for name, values in (
        ("allow_tools", options.get("allow_tools", ())),
        ("deny_tools", options.get("deny_tools", ())),
        ("native_args", options.get("native_args", ())),
    ):
        if isinstance(values, str):
            raise Misuse(f"{name} takes a list of texts, not one text")
        for value in values:
            utf8(value, f"value {value!r:.60} of {name}")


def _is_word(value: object) -> bool:
    return (
        isinstance(value, str) and 0 < len(value) <= LONGEST and value.isprintable() and bool(value.strip())
    )


def _budget(value: float | Literal["none"] | None) -> float | Literal["none"] | None:
    return NONE if value == NONE else _number("budget", value)


def _number(name: str, value: float | None, least: float | None = None) -> float | None:
    if value is None:
        return None
    if not isfinite(value) or (value <= 0 if least is None else value < least):
        raise Misuse(
            f"{name} takes a number {'above 0' if least is None else f'from {least} on'}, not {value}"
        )
    return value
