"""The options of a turn as the library takes them: the command line's, by the same names."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Literal, TypedDict, get_args

from segue.core.errors import Misuse
from segue.core.keys import conversation_key
from segue.core.request import Posture, Questions
from segue.turns.asking import NONE, Ask

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


def ask_of(
    key: str, text: str, options: Options, *, may_be_empty: bool = False, answers: bool = False
) -> Ask:
    """The wish as the pipeline takes it, or ``Misuse``. ``answers``: somebody would answer the agent."""
    _check(options)
    if not text.strip() and not may_be_empty:
        raise Misuse("the prompt is empty")
    cwd, file = options.get("cwd"), options.get("system_prompt_file")
    return Ask(
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


def _check(options: Options) -> None:
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
