"""What the caller asks for, and the request to the agent that results from it and the configuration."""

import os
from collections.abc import Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, cast, get_args

import msgspec

from segue.agents.base import Agent
from segue.config.named_files import read_typed
from segue.config.schema import Config, Defaults
from segue.core.errors import Misuse
from segue.core.ids import conversation_key
from segue.core.laws import Consent, Door
from segue.core.model import Attached
from segue.core.request import (
    Briefing,
    Capabilities,
    FlowPlace,
    Grant,
    Inherited,
    Posture,
    Questions,
    Request,
    Runtime,
    refuse_owned,
)

if TYPE_CHECKING:
    from segue.core.attachments import Attachment
    from segue.turns.permissions import Granted


NONE: Literal["none"] = "none"
"""``--role none``: no role, although the conversation remembers one. The same for all remembered options."""
LONGEST = 200
"""The longest name, in characters."""
WORDS = frozenset({"run_key", "agent", "account", "model", "role", "adopt"})
PATHS = frozenset({"cwd", "system_prompt_file"})
LISTS = frozenset({"allow_tools", "deny_tools", "native_args"})
CHOICES = {"permission": get_args(Posture), "questions": get_args(Questions)}
COUNTS = {"max_turns": 1, "retries": 0}
"""Options that take a count, with its minimum."""


class Fixed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What applies to a run that was queued, whatever is said or configured before it starts."""

    grant: Grant = Grant()
    """What its voice remembered."""
    defaults: Defaults = Defaults()


class TurnRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the caller wants; ``None`` is left to the conversation and the configuration.

    All of it can be serialised. The values of the environment are not part of it.
    """

    conversation: str
    """The key of the conversation."""
    prompt: str
    key: str | None = msgspec.field(default=None, name="run_key")
    """The caller's own key for the run: the same key always means the same run."""
    here: str = ""
    """The caller's directory."""
    environment: tuple[str, ...] = ()
    """The names of the variables in the caller's environment."""
    inherited: Inherited | None = None
    """The caller's umask and limits, if another process starts the agent; None: those of that process."""
    cwd: str | None = None
    """None: the conversation's directory, which must contain the caller's."""
    agent: str | None = None
    account: str | None = None
    model: str | None = None
    role: str | None = None
    fresh_session: bool = False
    blank: bool = False
    adopt: str | None = None
    """The id of a native session to adopt into the conversation before the turn."""
    new: bool = False
    """A new message, even if the same text has just failed."""
    via: str = ""
    """``run``: a plain ``segue run``, which is a retry if the same text is sent after a failure."""
    cut: bool = False
    """For a retry: what was said after the message can be dropped."""
    retries: int | None = None
    """How often to retry after a temporary failure."""
    park: bool | float | None = None
    """At a limit whose end is known, wait for it: however long it takes, or up to this many seconds. None: a
    queued run waits if the configuration says so, others do not."""
    fail_on_denied: bool = False
    """The turn fails if a tool call is refused."""
    fork: bool = False
    """If another turn is running: continue in a fork of the conversation."""
    wait_s: float | None = msgspec.field(default=None, name="wait")
    """How long to wait for another turn of the conversation."""
    timeout_s: float | None = msgspec.field(default=None, name="timeout")
    permission: Posture | None = None
    allow_tools: tuple[str, ...] = ()
    deny_tools: tuple[str, ...] = ()
    max_turns: int | None = None
    budget_usd: float | Literal["none"] | None = msgspec.field(default=None, name="budget")
    questions: Questions | None = None
    answers: bool = False
    """Somebody can answer the agent's questions."""
    system_prompt_file: str | None = None
    save: bool = True
    native_args: tuple[str, ...] = ()
    attachments: tuple[Attached, ...] = ()
    """Those of the message; they are stored with it."""
    fixed: Fixed | None = None
    """For a run that was queued. Those of earlier versions lack it."""
    flow: FlowPlace | None = None
    """The step of a flow that it belongs to."""
    briefing: Briefing | None = None
    """For a role of a flow."""
    door: Door = Door.RUN
    """How the run came to be."""
    given: tuple[str, ...] = ()
    """Whose words the prompt repeats, beside the user's own: their marks."""
    consent: Consent = "none"
    """Who wants these words to reach the turn's account."""
    counts_for: str | None = None
    """The key of the conversation whose budget counts, too: this turn is a part of something done there."""


class QueuedRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is stored with a run that waits: everything to start it, except the values of the environment."""

    ask: TurnRequest
    retry: str | None = None
    """The message to retry, if it is not a new one."""


class Options(TypedDict, total=False):
    """The options of a turn, with their names in the library and on the command line.

    All of them are optional: the conversation remembers them, and the configuration has defaults.
    """

    run_key: str | None
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
    park: bool | float | None
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
    attachments: Sequence["str | Path | Attachment"]


def request_from_options(
    conversation: str, text: str, options: Options, *, may_be_empty: bool = False, answers: bool = False
) -> TurnRequest:
    """The checked request, or ``Misuse``. ``answers``: somebody can answer the agent's questions."""
    _check_options(options)
    if not text.strip() and not may_be_empty:
        raise Misuse("the prompt is empty")
    fields: dict[str, object] = {name: value for name, value in options.items() if value is not None}
    fields.pop("attachments", None)  # they are read by the caller of this function
    for name in PATHS & fields.keys():
        fields[name] = os.path.expanduser(os.fspath(cast("str | Path", fields[name])))
    for name in LISTS & fields.keys():
        fields[name] = tuple(cast("Sequence[str]", fields[name]))
    fields |= {"conversation": conversation_key(conversation), "prompt": utf8(text, "prompt")}
    try:
        return msgspec.convert({**fields, "answers": answers}, TurnRequest)
    except msgspec.ValidationError as error:
        raise Misuse(f"an option is wrong: {error}") from None


def body_of(request: TurnRequest, message: str | None) -> str:
    """A digest of the request, independent of who sends it from where. ``message``: the one to retry."""
    from hashlib import sha256  # most runs have no key

    asked = msgspec.structs.replace(
        request,
        key=None,
        here="",
        environment=(),
        inherited=None,
        via="",
        answers=False,
        wait_s=None,
        door=Door.RUN,
        given=(),
        consent="none",
    )
    return sha256(msgspec.json.encode((asked, message))).hexdigest()


def request_of(
    ask: TurnRequest,
    config: Config,
    agent: Agent,
    runtime: Runtime,
    cwd: Path,
    model: str | None,
    granted: "Granted",
) -> Request:
    """The request, without what depends on the mode."""
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
    if ask.attachments:
        from segue.turns.attachments import refuse_unsupported

        refuse_unsupported(ask.attachments, agent, name_of(agent, runtime), runtime.capabilities, config)
    if ask.fail_on_denied and not runtime.capabilities.denials:
        raise Misuse(f"{name_of(agent, runtime)} does not report refused tools; leave out --fail-on-denied")
    return briefed(request, ask.briefing, agent, runtime)


def briefed(request: Request, briefing: Briefing | None, agent: Agent, runtime: Runtime) -> Request:
    """The request of a turn that may begin with the whole prompt of its role.

    If the CLI itself can ask for a certain answer, it does. Not in a fork: another tool in the prompt would
    make all that the session holds new."""
    if briefing is None:
        return request
    _check(msgspec.structs.replace(request, prompt=briefing.full), agent, runtime)
    can = runtime.capabilities.schema and not briefing.fork_of
    return msgspec.structs.replace(request, schema=briefing.schema or None) if can else request


def may_ask(ask: TurnRequest, config: Config) -> bool:
    """Whether the agent can ask the user in a session that begins now."""
    wanted = ask.questions or config.defaults.questions
    return ask.answers if wanted == "auto" else wanted == "on"


def name_of(agent: Agent, runtime: Runtime) -> str:
    """The agent with its version, for messages."""
    return " ".join(filter(None, (agent.facts.label, runtime.version)))


def instructions_of(ask: TurnRequest, config: Config, env: Mapping[str, str], here: Path) -> str | None:
    """The text that the agent is given once. ``here``: the caller's directory."""
    if ask.system_prompt_file is None:
        return config.defaults.instructions
    said = f"cannot read the system prompt file {ask.system_prompt_file}"
    try:
        return read_typed(ask.system_prompt_file, env, here, said=said).data.decode()
    except UnicodeDecodeError:
        raise Misuse(f"the system prompt file {ask.system_prompt_file} is not UTF-8") from None


def _check(request: Request, agent: Agent, runtime: Runtime) -> None:
    """Raise ``Misuse`` for what this version of the CLI does not support."""
    can, name = runtime.capabilities, name_of(agent, runtime)
    if not request.save and not can.no_save:
        raise Misuse(f"{name} does not support --no-save")
    if too_long(request.prompt, can):
        raise Misuse(
            f"the prompt has {size_of(request.prompt, can):,} {can.prompt_unit}; {name} accepts at most"
            f" {can.prompt_limit:,}. Put it into a file in the working directory and ask the agent to read it"
        )


def size_of(prompt: str, can: Capabilities) -> int:
    return len(prompt.encode()) if can.prompt_unit == "bytes" else len(prompt)


def too_long(prompt: str, can: Capabilities) -> bool:
    return can.prompt_limit is not None and size_of(prompt, can) > can.prompt_limit


def utf8(text: str, what: str) -> str:
    """The text unchanged, or ``Misuse``: a text with lone surrogates can be neither stored nor sent."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Misuse(f"the {what} is not UTF-8: wrong character at {error.start}") from None
    return text


def _check_options(options: Options) -> None:
    """Check at run time what the types say, for callers without a type checker."""
    unknown = set(options) - set(Options.__annotations__)
    if unknown:
        raise Misuse(f"unknown option: {', '.join(sorted(unknown))}")
    given = {name: value for name, value in options.items() if value is not None}
    for name in WORDS & given.keys():
        if not _is_word(given[name]):
            what = f"a name on one line (at most {LONGEST} characters)"
            raise Misuse(f"{name} takes {what}, not {given[name]!r:.60}")
    for name, choices in CHOICES.items():
        if name in given and given[name] not in choices:
            raise Misuse(f"{name} takes {', '.join(choices)}, not {given[name]!r:.60}")
    for name, least in COUNTS.items():
        value = given.get(name, least)
        if not isinstance(value, int) or value < least:
            raise Misuse(f"{name} takes a number of at least {least}, not {value!r:.60}")
    _check_number("wait", options.get("wait"), least=0)
    _check_number("timeout", options.get("timeout"))
    if not isinstance(park := options.get("park"), bool):
        _check_number("park", park)
    if (budget := options.get("budget")) != NONE:
        _check_number("budget", budget)
    for name in LISTS & given.keys():
        _check_list(name, given[name])
    if "run_key" in given and given.get("fork"):
        raise Misuse("a run with a run key stays in its conversation: leave out fork")


def _check_list(name: str, values: object) -> None:
    if isinstance(values, str):
        raise Misuse(f"{name} takes a list of texts, not one text")
    for value in cast("Sequence[str]", values):
        utf8(value, f"value {value!r:.60} of {name}")


def _is_word(value: object) -> bool:
    return (
        isinstance(value, str) and 0 < len(value) <= LONGEST and value.isprintable() and bool(value.strip())
    )


def _check_number(name: str, value: float | None, least: float | None = None) -> None:
    if value is None:
        return
    if not isfinite(value) or (value <= 0 if least is None else value < least):
        raise Misuse(
            f"{name} takes a number {'above 0' if least is None else f'of at least {least}'}, not {value}"
        )
