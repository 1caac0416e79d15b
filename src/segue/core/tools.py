"""The tools that a CLI knows by name, so that a wrong name is refused. Pure.

Refused tool calls: how many, and of which tools.
"""

import re
from collections.abc import Iterable

import msgspec

MOST_NAMES = 20
"""The most tools to be named."""
LONGEST_NAME = 100
"""The longest name, in characters."""


class DeniedTools(msgspec.Struct, frozen=True):
    """``names``: each once, in the order of the first call. The name of a call is not always known."""

    count: int = 0
    names: tuple[str, ...] = ()

    def __add__(self, other: "DeniedTools") -> "DeniedTools":
        return DeniedTools(self.count + other.count, distinct_names((*self.names, *other.names)))

    def __str__(self) -> str:
        """``2 tool calls were refused: Write, Bash``."""
        calls = "1 tool call was" if self.count == 1 else f"{self.count:,} tool calls were"
        return f"{calls} refused" + (f": {', '.join(self.names)}" if self.names else "")


def distinct_names(names: Iterable[str]) -> tuple[str, ...]:
    """Each name once, without empty ones."""
    known = dict.fromkeys(name[:LONGEST_NAME] for name in names if name)
    return tuple(known)[:MOST_NAMES]


_NARROWED = r"(?s)([^()]+)\((.*)\)"
SLIP = 0.85
"""A name that is this similar to a known one is a typo, not another tool."""


class Tools(msgspec.Struct, frozen=True, kw_only=True):
    """The names that one version of a CLI takes in its lists of allowed and denied tools."""

    names: tuple[str, ...]
    narrowed: tuple[str, ...] = ()
    """Those that can be restricted in brackets: ``Bash(git *)``."""
    looking: tuple[str, ...] = ()
    """Those that only look. Every other tool may write or run something."""
    others: str = ""
    """A pattern for the names of tools from other sources, such as MCP servers."""
    elsewhere: dict[str, str] = {}
    """What other CLIs call these tools, in lower case."""


def knows(tools: Tools, name: str) -> bool:
    brackets = re.fullmatch(_NARROWED, name)
    if brackets is not None:
        return brackets[1] in tools.narrowed or _is_other(tools, brackets[1])
    return name in tools.names or _is_other(tools, name)


def changing(tools: Tools | None, rules: Iterable[str]) -> tuple[str, ...]:
    """The rules for tools that may write or run something, tools of other sources included. ``tools`` None:
    the agent's tools are not known, so all of them are."""
    looking = tools.looking if tools is not None else ()
    return tuple(rule for rule in rules if rule.partition("(")[0] not in looking)


def bare(tools: Tools | None, rules: Iterable[str]) -> tuple[str, ...]:
    """The rules that give an agent's own tool that may write or run something as a whole: without a pattern
    in brackets, or with one that fits everything, such as ``*``."""
    if tools is None:
        return ()
    return tuple(rule for rule in changing(tools, rules) if _is_whole(tools, rule))


def unknown(tools: Tools, name: str) -> str:
    """In words: which tool may have been meant, and which there are."""
    meant = _meant(tools, name.partition("(")[0])
    return (f"did you mean {meant}? Its" if meant else "its") + f" tools: {', '.join(tools.names)}"


def changed(before: Iterable[str], now: Iterable[str]) -> str:
    """In words: how the tools that the model is shown differ from those of the previous turn."""
    return f"the session's tools changed ({differences(before, now, 'now ', 'no longer ')})"


def differences(before: Iterable[str], now: Iterable[str], new: str, gone: str) -> str:
    """What is new and what is gone, with a mark before each."""
    was, has = set(before), set(now)
    return ", ".join(
        (*(new + each for each in sorted(has - was)), *(gone + each for each in sorted(was - has)))
    )


def _is_other(tools: Tools, name: str) -> bool:
    if not tools.others or re.fullmatch(tools.others, name) is None:
        return False
    return not _close(name, tools.names, SLIP)


def _is_whole(tools: Tools, rule: str) -> bool:
    brackets = re.fullmatch(_NARROWED, rule)
    if brackets is None:
        return rule in tools.names
    return brackets[1] in tools.names and not any(map(str.isalnum, brackets[2]))


def _meant(tools: Tools, name: str) -> str | None:
    small = {known.lower(): known for known in tools.names}
    same = small.get(name.lower()) or tools.elsewhere.get(name.lower())
    close = _close(name.lower(), (*small, *tools.elsewhere))
    return same or (small.get(close[0]) or tools.elsewhere[close[0]] if close else None)


def _close(name: str, known: Iterable[str], least: float = 0.6) -> list[str]:
    from difflib import get_close_matches  # slow to import, and rarely needed

    return get_close_matches(name, list(known), 1, least)
