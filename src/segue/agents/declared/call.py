"""Fills a declared agent's command template, so that no value is ever read as an option or as two arguments.

Each element of the template becomes one argument or none. A value that begins with ``-`` may stand alone only
behind a ``--``; in ``--option={value}`` it is safe anyway.
"""

from collections.abc import Mapping

from segue.config.template import Template, fill, placeholders
from segue.core.errors import Misuse

ARGUMENT_BYTES = 131_071
"""What Linux takes as one argument."""

Values = Mapping[str, str | None]


def arguments(name: str, template: Template, values: Values) -> tuple[str, ...]:
    """The arguments behind the program. ``Misuse`` says which value does not fit and what would."""
    argv: list[str] = []
    for entry in template:
        filled = fill((entry,), values)
        if not filled and isinstance(entry, str):
            _missing(name, entry)
        parts = (entry,) if isinstance(entry, str) else entry
        for part, argument in zip(parts, filled, strict=False):
            _check(name, part, argument, values, guarded="--" in argv)
            argv.append(argument)
    return tuple(argv[1:])


def insert(argv: tuple[str, ...], native: tuple[str, ...]) -> tuple[str, ...]:
    """The caller's own options, before a ``--`` that would make words of them."""
    at = argv.index("--") if "--" in argv else len(argv)
    return (*argv[:at], *native, *argv[at:])


def options(*templates: Template) -> frozenset[str]:
    """The options that the templates use themselves."""
    parts = (p for t in templates for entry in t for p in ((entry,) if isinstance(entry, str) else entry))
    return frozenset(p.partition("=")[0] for p in parts if p.startswith("-") and p not in ("-", "--"))


def _missing(name: str, entry: str) -> None:
    wanted = sorted(placeholders((entry,)))[0]
    way_out = f'["--option", "{{{wanted}}}"]'
    raise Misuse(
        f"{name} needs a {wanted.replace('_', ' ')}, and none was given;"
        f" where it may be left out, its declaration should put the arguments in brackets: {way_out}"
    )


def _check(name: str, part: str, argument: str, values: Values, *, guarded: bool) -> None:
    if part == argument and not placeholders((part,)):
        return
    used = sorted(placeholders((part,)), key=lambda placeholder: placeholder != "prompt")[0]
    if "\0" in argument:
        raise Misuse(f"the {used} holds a NUL character, which no command line can carry")
    if part.startswith("{") and argument.startswith("-") and not guarded:
        raise Misuse(
            f'the {used} begins with "-", and {name} would read it as an option; declare'
            f' "--option={{{used}}}", or "--" before "{{{used}}}"' + _by_stdin(used)
        )
    size = len(argument.encode("utf-8", "surrogateescape"))
    if size > ARGUMENT_BYTES:
        raise Misuse(
            f"the {used} makes an argument of {size:,} bytes, and a command line takes at most"
            f" {ARGUMENT_BYTES:,}{_by_stdin(used)}"
        )


def _by_stdin(used: str) -> str:
    return '; declare stdin = "prompt", or use {prompt_file}' if used == "prompt" else ""
