"""The rehearsal agent's tools: ``shell``, ``read``, ``write``, and asking the user. And its usage and cost.

The prices are small and invented, but usage is counted by the rules of the real services. Tokens are
bytes / 4. What the session held before is read from the cache, what is new is written to it, and each request
has a few tokens that are never cached. A session that is not saved writes nothing to the cache.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from segue.core.usage import Price, Usage
from segue.rehearsal.agent.store import Session
from segue.rehearsal.types import Tool

WINDOW = 200_000
FRAME_TOKENS = 3
PRICE = Price(input=1.0, output=5.0, cache_read=0.1, cache_write=1.25)


def tokens_of(size: int) -> int:
    return -(-size // 4)


class Meter:
    """Counts a run's requests, tokens and cost."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cached = self._size(session.held) if session.held else 0
        self.total = Usage(0, 0, 0, 0)
        self.requests = 0
        self.last_prompt = 0

    @property
    def prompt(self) -> int:
        """The tokens that the next request sends."""
        return FRAME_TOKENS + self._size(len(self._session.messages))

    @property
    def cost_usd(self) -> float:
        return round(PRICE.cost(self.total) or 0.0, 9)

    def count(self, said: Iterable[str]) -> Usage:
        """Count one request that got this answer."""
        sent = self._size(len(self._session.messages))
        new = sent - self._cached
        plain, written = (FRAME_TOKENS, new) if self._session.saved else (FRAME_TOKENS + new, 0)
        usage = Usage(plain, self._cached, written, tokens_of(sum(len(text.encode()) for text in said)))
        self.last_prompt = usage.prompt or 0
        self._cached = sent if self._session.saved else self._cached
        self.total += usage
        self.requests += 1
        return usage

    def _size(self, messages: int) -> int:
        held = self._session.messages[:messages]
        return tokens_of(len(self._session.header.system.encode()) + sum(len(m.text.encode()) for m in held))


SHELL_SECONDS = 600
OUTPUT_BYTES = 1_000_000

TEXT = {"type": "string"}
TOOLS = (
    Tool("shell", properties={"command": TEXT}),
    Tool("read", properties={"path": TEXT}),
    Tool("write", properties={"path": TEXT, "content": TEXT}),
)
ASK = Tool("ask_user", properties={"questions": {"type": "array"}})
HARMLESS = frozenset({"read"})


class Rules(Struct, frozen=True):
    """What the agent is allowed to do without asking. A denied tool stays denied, whatever is allowed."""

    permission: str = "default"
    allow: frozenset[str] = frozenset()
    deny: frozenset[str] = frozenset()

    def allows(self, tool: str) -> bool:
        if tool in self.deny:
            return False
        return tool in self.allow or tool in HARMLESS or self.permission in ("edit", "full")

    def asks(self, tool: str) -> bool:
        """Whether the user may allow it. With ``read``, nothing that is refused can be."""
        known = tool in _FUNCTIONS and tool not in self.deny and self.permission == "default"
        return known and not self.allows(tool)


class Done(Struct, frozen=True):
    """How a call ended."""

    ok: bool
    output: str
    exit_code: int | None = None
    denied: bool = False


def run_tool(name: str, arguments: dict[str, Any] | str, rules: Rules, cwd: Path) -> Done:
    """Run one call, or say why not."""
    if name not in _FUNCTIONS:
        return Done(False, f"there is no tool {name}")
    if not rules.allows(name):
        return Done(False, f"{name} is not allowed with the permission {rules.permission}", denied=True)
    try:
        given = msgspec.convert(arguments, dict[str, str])
        return _FUNCTIONS[name](given, cwd)
    except (KeyError, msgspec.ValidationError):
        return Done(False, f"{name} was called with arguments it does not take")
    except (OSError, ValueError) as error:
        return Done(False, str(error))


def _shell(given: dict[str, str], cwd: Path) -> Done:
    import subprocess  # most turns run no command, and start faster without it

    try:
        ran = subprocess.run(
            ["/bin/sh", "-c", given["command"]],
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SHELL_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Done(False, f"the command was ended after {SHELL_SECONDS} seconds")
    output = ran.stdout[:OUTPUT_BYTES].decode("utf-8", "replace").rstrip("\n")
    return Done(ran.returncode == 0, output, exit_code=ran.returncode)


def _read(given: dict[str, str], cwd: Path) -> Done:
    with (cwd / given["path"]).open("rb") as file:
        return Done(True, file.read(OUTPUT_BYTES).decode("utf-8", "replace"))


def _write(given: dict[str, str], cwd: Path) -> Done:
    size = (cwd / given["path"]).write_text(given["content"], encoding="utf-8")
    return Done(True, f"wrote {size} characters to {given['path']}")


_FUNCTIONS = {"shell": _shell, "read": _read, "write": _write}
