"""The only module that writes to stdout and stderr, so that no escape sequence gets there: not from an agent,
a session, a project's ``segue.toml`` or an argument.

Styles are marks within a line. They become colours here, if the terminal has any.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress

from segue.cli.render.table import columns, fitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TextIO

MIN_WIDTH, PIPE_WIDTH, ENDLESS = 40, 120, 1_000_000
NARROWEST = 4
BAR = 30

BOLD, DIM, GREEN, YELLOW, RED, PLAIN = "\ufdd0\ufdd1\ufdd2\ufdd3\ufdd4\ufdd5"
"""Noncharacters, which Unicode reserves for internal use. A line can be measured and cut with them in it."""
_INKS = dict(
    zip(
        (BOLD, DIM, GREEN, YELLOW, RED, PLAIN),
        ("\x1b[1m", "\x1b[2m", "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[0m"),
        strict=True,
    )
)
_MARK = f"([{''.join(_INKS)}])"

_SEQUENCE = (
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x80-\x9f]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-Z\\^-~]"
)
"""Escape sequences: CSI; OSC and similar strings, up to their end; an escape and the characters after it."""
_UNSEEN = (
    r"\x7f-\x9f"
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # bidirectional controls
    r"\u200b\u2060-\u2065\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff"  # invisible characters, to hide text
    r"\ufdd0-\ufdef"  # our own marks, and the other noncharacters
)
_CONTROL = rf"[\x00-\x08\x0b-\x1f{_UNSEEN}]"
_IN_JSON = rf"[{_UNSEEN}]"
_USUAL = bytes(range(0x7F))
_LINE_END = r"\r\n|[\r\u2028\u2029]"


def harmless(text: str) -> str:
    """The text without escape sequences and invisible characters. Tabs and line ends are kept."""
    if text.isprintable():
        return text
    return re.sub(_CONTROL, "", re.sub(_LINE_END, "\n", re.sub(_SEQUENCE, "", text)))


def say(text: str = "", *, err: bool = False, end: str = "\n") -> None:
    """Print text for people to read, on stdout or stderr. Errors of stderr are ignored."""
    out = sys.stderr if err else sys.stdout
    with suppress(OSError) if err else nullcontext():
        _write(out, _inked(text, out) + end)


def answer(text: str) -> None:
    """Print the result on stdout: unchanged, but without escape sequences on a terminal."""
    _write(sys.stdout, harmless(text) if sys.stdout.isatty() else text)


def say_json(value: Any) -> None:
    """Print one line of JSON on stdout, in UTF-8 whatever the locale."""
    sys.stdout.flush()
    print_line(json_line(value))


def print_line(line: bytes) -> None:
    """One line on stdout, whatever the locale."""
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


def json_line(value: Any) -> bytes:
    """One line of JSON. Invisible characters are escaped, surrogates replaced."""
    import msgspec

    try:
        line = msgspec.json.encode(value)
    except UnicodeEncodeError:
        line = msgspec.json.encode(_encodable(msgspec.to_builtins(value)))
    return escaped_json(line)


def escaped_json(line: bytes) -> bytes:
    """A line of JSON with its invisible characters escaped."""
    unusual = line.translate(None, _USUAL).decode()  # usually short, even if the line is long
    if re.search(_IN_JSON, unusual) is None:
        return line
    return re.sub(_IN_JSON, lambda found: _escaped(found[0]), line.decode()).encode()


def agreed(question: str) -> bool:
    """Ask a yes-or-no question on stderr. Returns whether the answer is yes."""
    import click

    return click.confirm(harmless(question), err=True)


def coloured(out: TextIO) -> bool:
    return out.isatty() and os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR")


def width_of(out: TextIO) -> int:
    import shutil

    return max(MIN_WIDTH, shutil.get_terminal_size().columns) if out.isatty() else PIPE_WIDTH


def prose_width(out: TextIO) -> int:
    """The width for wrapping prose. If the output is not a terminal, a sentence is one line, however long."""
    return width_of(out) if out.isatty() else ENDLESS


@contextmanager
def progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr. Call the function that it yields with how much of ``total`` is done."""
    canvas = Canvas(sys.stderr)
    last = time.monotonic() + PATIENCE_S - EVERY_S

    def advance(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < EVERY_S:
            return
        last = now
        share = min(done / total, 1.0) if total else 1.0
        bar = "█" * round(share * BAR)
        canvas.draw([fitted(f"{what} {bar:░<{BAR}} {share:4.0%}", canvas.width - 1)])

    try:
        yield advance if sys.stderr.isatty() else _ignore
    finally:
        canvas.erase()
        canvas.flush()


_BELOW = "\r\x1b[K\x1b[C\x1b[J\r"
"""Erases the row and everything below it. It starts at the second column, because some terminals move what is
erased from the top left corner into the scrollback."""


class Canvas:
    """A terminal with lines that are redrawn, below what has been written permanently.

    While something is drawn, the cursor is at the beginning of its last line: if the terminal changes its
    width and moves that line, the cursor moves with it. The rows above it are computed from the length of the
    lines, because most terminals rewrap lines when they become narrower.

    If the terminal is gone, output is discarded. ``beside``: other descriptors of the same terminal.
    """

    def __init__(self, out: TextIO, beside: Sequence[int] = ()) -> None:
        self._out = out
        self._beside = tuple(beside)
        self._drawn: list[int] = []

    @property
    def width(self) -> int:
        """The terminal's width, at least ``NARROWEST``; 80 if it is unknown."""
        return max(self._size().columns or 80, NARROWEST)

    def write(self, text: str) -> None:
        """Write text permanently, in place of what is drawn. It must end with a newline."""
        self.erase()
        self._put(_inked(text, self._out))

    def draw(self, lines: Sequence[str]) -> None:
        """Draw lines, until they are erased. They must fit the width. If there are more than the terminal has
        rows, only the last ones are drawn."""
        self.erase()
        shown = lines[-max((self._size().lines or 24) - 1, 1) :]
        self._put("\n".join(_inked(line, self._out) for line in shown) + "\r")
        self._drawn = [columns(re.sub(_MARK, "", line)) for line in shown]
        self.flush()

    def erase(self) -> None:
        if self._drawn:
            above = sum(map(self._rows, self._drawn[:-1]))
            self._put(_BELOW + "\x1b[A\x1b[K" * above)
            self._drawn = []

    def _rows(self, length: int) -> int:
        """How many rows a line takes at the current width."""
        return max(-(-length // self.width), 1) if _rewraps(os.environ) else 1

    def _size(self) -> os.terminal_size:
        try:
            return os.get_terminal_size(self._out.fileno())
        except OSError:
            return os.terminal_size((0, 0))

    def flush(self) -> None:
        try:
            self._out.flush()
        except OSError:
            self._lose()

    def _put(self, text: str) -> None:
        try:
            self._out.write(text)
        except OSError:
            self._lose()

    def _lose(self) -> None:
        """The terminal is gone. The work continues, and further output is discarded."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for descriptor in (self._out.fileno(), *self._beside):
            os.dup2(nowhere, descriptor)
        os.close(nowhere)


def _rewraps(env: Mapping[str, str]) -> bool:
    """Whether the terminal rewraps its lines when its width changes. Other terminals cut them off."""
    cuts = "XTERM_VERSION" in env or env.get("TERM", "").startswith(("rxvt", "screen", "linux"))
    return "TMUX" in env or not cuts


def _write(out: TextIO, text: str) -> None:
    out.write(text)
    out.flush()


def _inked(text: str, out: TextIO) -> str:
    inks = _INKS if coloured(out) else {}
    return "".join(
        inks.get(part, "") if part in _INKS else harmless(part) for part in re.split(_MARK, text) if part
    )


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(each) for key, each in value.items()}
    return [_encodable(each) for each in value] if isinstance(value, list | tuple) else value


PATIENCE_S, EVERY_S = 0.5, 0.1


def _ignore(_: int) -> None:
    """Progress is shown only on a terminal."""
