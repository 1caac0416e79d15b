"""Removes secrets from everything that is shown or kept.

Known secrets (keys of the environment) are removed everywhere. Text that only has the *shape* of a key, such
as one that a provider's error echoes, is removed from errors, notices, tool results and logs, but not from
what the assistant says: an answer that explains tokens with an example must arrive unchanged.

Also removes secrets from a stream of events, including those that arrive in fragments.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from segue.core import events as ev
from segue.core.events import Compacted, Event, Session, TextDelta, UsageReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from segue.core.outcome import Outcome


MASK = "[redacted]"

_SHAPES = (
    ("sk-", r"\bsk-(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{16,}"),
    ("AIza", r"\bAIza[A-Za-z0-9_-]{30,}"),
    ("earer ", r"(?<=\b[Bb]earer )(?=[^\s\d]*\d)[A-Za-z0-9._~+/=-]{12,}"),
    ("eyJ", r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
    ("ghp_", r"\bghp_[A-Za-z0-9]{20,}"),
    ("github_pat_", r"\bgithub_pat_[A-Za-z0-9_]{20,}"),
)
"""A part that can be searched for quickly, and the whole pattern. A word without a digit is not a key. The
list is short because every text is searched for every part."""

_BYTE_SHAPES = tuple((hint.encode(), shape.encode()) for hint, shape in _SHAPES)
_SPOKEN = (ev.Text, ev.TextDelta, ev.Thinking)

_HINTS = b"|".join(re.escape(hint) for hint, _ in _BYTE_SHAPES)

E = TypeVar("E", bound=ev.Event)
_Patterns = tuple[re.Pattern[bytes], ...]


def _is_spoken(event: ev.Event) -> bool:
    """Whether the event is something that the assistant says."""
    return isinstance(event, _SPOKEN) or (isinstance(event, ev.End) and event.ok)


class Redactor:
    """Made once per attempt, for its secrets. A value without secrets is returned as the same object."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        ordered = sorted({s for s in secrets if s}, key=len, reverse=True)
        self._secrets = tuple(ordered)
        self.found = False
        """Whether a known secret was found."""
        self._raw = tuple(dict.fromkeys(form for s in ordered for form in _forms(s)))
        self._escaped: _Patterns | None = None

    @property
    def spans_lines(self) -> bool:
        """Whether a known secret has more than one line."""
        return any("\n" in secret for secret in self._secrets)

    def text(self, text: str) -> str:
        """The text without known secrets and without anything that has the shape of one."""
        text = self.spoken(text)
        for hint, shape in _SHAPES:
            if hint in text:
                text = re.sub(shape, MASK, text)
        return text

    def spoken(self, text: str) -> str:
        """The text without known secrets: for what the assistant says."""
        for secret in self._secrets:
            if secret in text:
                self.found = True
                text = text.replace(secret, MASK)
        return text

    def suspects(self, line: bytes, event: ev.Event) -> bool:
        """Whether an event from this line has to be searched. This test is quick: most do not."""
        for secret in self._raw:
            if secret in line:
                return True
        if self._secrets and _may_escape(line):
            return True
        return not _is_spoken(event) and re.search(_HINTS, line) is not None

    def beginning(self, text: str) -> int:
        """How many characters at the end of the text may be the beginning of a known secret."""
        return max((_overlap(text, secret) for secret in self._secrets), default=0)

    def bytes(self, data: bytes) -> bytes:
        """Raw output for logs and kept streams; secrets are found however JSON has escaped them."""
        for secret in self._raw:
            if secret in data:
                self.found = True
                data = data.replace(secret, MASK.encode())
        for pattern in self._patterns() if self._secrets and _may_escape(data) else ():
            data, count = pattern.subn(MASK.encode(), data)
            self.found = self.found or count > 0
        for hint, shape in _BYTE_SHAPES:
            if hint in data:
                data = re.sub(shape, MASK.encode(), data)
        return data

    def _patterns(self) -> _Patterns:
        """Made when they are first needed: a secret may be long."""
        if self._escaped is None:
            self._escaped = tuple(re.compile(b"".join(map(_any_form, secret))) for secret in self._secrets)
        return self._escaped

    def event(self, event: E) -> E:
        """The event without secrets in any text inside it."""
        cleaned: E = _walk(event, self.spoken if _is_spoken(event) else self.text)
        return cleaned

    def outcome(self, outcome: Outcome) -> Outcome:
        """The outcome without secrets in its answer or its failure."""
        text = self.spoken(outcome.text)
        failure = _walk(outcome.failure, self.text)
        if text is outcome.text and failure is outcome.failure:
            return outcome
        return msgspec.structs.replace(outcome, text=text, failure=failure)


def _overlap(text: str, secret: str) -> int:
    """The length of the longest proper prefix of the secret that the text ends with. No table of prefixes is
    kept: a secret may be a file of many kilobytes."""
    at = text.find(secret[0], max(0, len(text) - len(secret) + 1))
    while at >= 0 and not secret.startswith(text[at:]):
        at = text.find(secret[0], at + 1)
    return len(text) - at if at >= 0 else 0


def _forms(secret: str) -> tuple[bytes, bytes]:
    """The secret as it is, and JSON-escaped. (A variable that is not UTF-8 contains surrogates.)"""
    raw = secret.encode("utf-8", "surrogateescape")
    return raw, msgspec.json.encode(raw.decode("utf-8", "replace"))[1:-1]


def _may_escape(data: bytes) -> bool:
    """Whether it contains an escape that not every JSON encoder writes."""
    return b"\\u" in data or b"\\/" in data


_SHORT = {"\n": b"n", "\r": b"r", "\t": b"t", "\b": b"b", "\f": b"f", '"': b'"', "\\": b"\\", "/": b"/"}


def _any_form(char: str) -> bytes:
    """A pattern for a character as it is, and for each way to escape it in JSON."""
    if char.isascii() and char.isalnum():
        return char.encode()
    units = char.encode("utf-16-be", "surrogatepass")
    words = (units[at : at + 2].hex().encode() for at in range(0, len(units), 2))
    forms = [re.escape(char.encode("utf-8", "surrogateescape")), b"".join(rb"\\u(?i:%s)" % w for w in words)]
    if char in _SHORT:
        forms.append(re.escape(b"\\" + _SHORT[char]))
    return b"(?:%s)" % b"|".join(forms)


def _walk(value: Any, clean: Callable[[str], str]) -> Any:
    """The value with every text in it cleaned; the same object if nothing changed."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        items = {_walk(k, clean): _walk(v, clean) for k, v in value.items()}
        same = all(a is b and items[a] is value[b] for a, b in zip(items, value, strict=False))
        return value if same and len(items) == len(value) else items
    if isinstance(value, list | tuple):
        parts = [_walk(v, clean) for v in value]
        same = all(a is b for a, b in zip(parts, value, strict=True))
        return value if same else type(value)(parts)
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        changed = {n: new for n, old in fields.items() if (new := _walk(old, clean)) is not old}
        return msgspec.structs.replace(value, **changed) if changed else value
    return value


_FIGURES = (Session, UsageReport, Compacted)
"""Events without free text."""


class StreamRedactor:
    """Call it with each event; it returns the events to show. What may begin a secret is held back."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._waiting = ""

    def __call__(self, event: Event, line: bytes | None = None) -> Sequence[Event]:
        """``line``: the output that the event was read from, for a quick test."""
        if isinstance(event, TextDelta):
            return self._fragment(event.text)
        if not isinstance(event, _FIGURES) and (line is None or self._redactor.suspects(line, event)):
            event = self._redactor.event(event)
        return (*self.rest(), event) if self._waiting else (event,)

    def rest(self) -> list[Event]:
        """What is still held back, once no more fragments follow."""
        waiting, self._waiting = self._waiting, ""
        return [TextDelta(waiting)] if waiting else []

    def _fragment(self, text: str) -> list[Event]:
        clean = self._redactor.spoken(self._waiting + text)
        safe = len(clean) - self._redactor.beginning(clean)
        self._waiting = clean[safe:]
        return [TextDelta(clean[:safe])] if safe else []
