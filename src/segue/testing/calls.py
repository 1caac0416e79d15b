"""Checks of the command lines that an adapter builds: nothing leaks, is lost, or is read as an option."""

from collections.abc import Iterator

import msgspec

from segue.core.errors import Misuse
from segue.core.request import Command, Request, Start
from segue.testing.sample import ANCHOR, ID, NEW_ID, PROMPT, Broke, Sample, command, empty_place, written

ARGUMENT_BYTES = 131_071
BAD_IDS = ("-x", "--help", "", "..", "../../etc/passwd", "a/../b", "a\0b", "a\nb", "-" + ID)
HARD_PROMPTS = ("-x", "--help", "a\nb", 'quotes " and \\ and ]] and </x>', "żółć 🎵", "x" * 200_000)


def is_pure(sample: Sample) -> Iterator[str]:
    for start in sample.starts:
        with empty_place() as (place, home):
            made = command(sample, sample.request(start), place)
            if not isinstance(made, Command):
                yield f"command: {_said(made)} for a plain {start.mode}"
            elif made != command(sample, sample.request(start), place):
                yield f"command: two calls for the same {start.mode} differ"
            elif made.argv[: len(sample.runtime.command)] != sample.runtime.command:
                yield "command: argv must begin with the runtime's command"
            if written(place, home):
                yield "command: it must be pure, and wrote files; name them in Command.files"


def the_prompt_arrives_once(sample: Sample) -> Iterator[str]:
    for start in sample.starts:
        made = command(sample, sample.request(start))
        if isinstance(made, Command):
            by_argv = sum(PROMPT in argument for argument in made.argv)
            by_file = sum(PROMPT in text for text in made.files.values()) + (PROMPT.encode() in made.stdin)
            if by_argv and sample.runtime.capabilities.stdin:
                yield f"command: the prompt is in argv ({start.mode}), where ps shows it"
            if by_argv + by_file != 1:
                yield f"command: the prompt is passed {by_argv + by_file} times ({start.mode})"
            if any(PROMPT in value for value in made.env.values()):
                yield f"command: the prompt is in the environment ({start.mode})"


def any_prompt_is_carried_or_refused(sample: Sample) -> Iterator[str]:
    for prompt in HARD_PROMPTS:
        made = command(sample, sample.request(prompt=prompt))
        if isinstance(made, Broke):
            yield f"command: {made.why} for the prompt {prompt!r:.40}"
        elif isinstance(made, Command):
            if prompt.startswith("-") and _stands_alone(made, prompt):
                yield f'command: the prompt "{prompt}" would be read as an option'
            if any(len(argument.encode()) > ARGUMENT_BYTES for argument in made.argv):
                yield f"command: an argument over {ARGUMENT_BYTES} bytes cannot be passed; refuse it"


def bad_ids_are_refused(sample: Sample) -> Iterator[str]:
    for bad in BAD_IDS:
        problems = [p for start in _with(sample, bad) for p in _must_refuse(sample, sample.request(start))]
        if problems:
            yield f"command: the id {bad!r} must be refused with Misuse: {', '.join(problems)}"


def _with(sample: Sample, bad: str) -> Iterator[Start]:
    """Every start with one of its ids replaced by a bad one. (An empty new id can mean none.)"""
    for start in sample.starts:
        for field in ("session", "at", "new_id"):
            if getattr(start, field) and (bad or field != "new_id"):
                yield msgspec.structs.replace(start, **{field: bad})


def models_are_never_options(sample: Sample) -> Iterator[str]:
    made = command(sample, sample.request(model="--model-x"))
    if isinstance(made, Broke):
        yield f"command: {made.why} for a model that begins with -"
    elif isinstance(made, Command) and _stands_alone(made, "--model-x"):
        yield "command: a model that begins with - would be read as an option; use --option=value"
    for problem in _must_refuse(sample, sample.request(model="a\0b")):
        yield f"command: a model with a NUL character must be refused with Misuse: {problem}"


def what_steers_is_owned(sample: Sample) -> Iterator[str]:
    """An option that the adapter sets itself must be refused from the caller."""
    for start in sample.starts:
        made = command(sample, sample.request(start))
        if isinstance(made, Command):
            argv = made.argv[len(sample.runtime.command) :]
            long = {
                argument.partition("=")[0]
                for argument in argv
                if argument.startswith("--") and argument != "--"
            }
            for option in sorted((long | set(_carriers(argv))) - sample.agent.facts.owned_args):
                yield f"owned_args: the adapter sets {option} itself ({start.mode}), so it must be owned"


def native_arguments_are_passed_on(sample: Sample) -> Iterator[str]:
    given = ("--native-x=1", "--native-y", "a b")
    made = command(sample, sample.request(native_args=given))
    if isinstance(made, Broke):
        yield f"command: {made.why} for native arguments"
    elif isinstance(made, Command):
        at = made.argv.index(given[0]) if given[0] in made.argv else -1
        if at < 0 or made.argv[at : at + 3] != given:
            yield "command: native arguments must be in argv as they were given, next to each other"
        elif "--" in made.argv[:at]:
            yield 'command: native arguments come after "--", where they are not read as options'


def _must_refuse(sample: Sample, request: Request) -> Iterator[str]:
    made = command(sample, request)
    if not isinstance(made, Misuse):
        yield f"{request.start.mode} {_said(made)}"


def _said(made: Command | Misuse | Broke) -> str:
    if isinstance(made, Command):
        return "gave a command"
    return made.why if isinstance(made, Broke) else f"refused ({made})"


def _stands_alone(made: Command, value: str) -> bool:
    return value in made.argv and "--" not in made.argv[: made.argv.index(value)]


def _carriers(argv: tuple[str, ...]) -> Iterator[str]:
    """The options whose value is an id."""
    for before, argument in zip(("", *argv), argv, strict=False):
        if any(known in argument for known in (ID, ANCHOR, NEW_ID)):
            option = argument if argument.startswith("-") else before
            if option.startswith("-"):
                yield option.partition("=")[0]


CHECKS = (
    is_pure,
    the_prompt_arrives_once,
    any_prompt_is_carried_or_refused,
    bad_ids_are_refused,
    models_are_never_options,
    what_steers_is_owned,
    native_arguments_are_passed_on,
)
