"""The rehearsal agent's hands: ``shell``, ``read``, ``write``, and asking the user."""

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from segue.rehearsal.talk import Tool

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
    """What the agent may do unasked. A denied tool stays denied, whatever else is allowed."""

    permission: str = "default"
    allow: frozenset[str] = frozenset()
    deny: frozenset[str] = frozenset()

    def allows(self, tool: str) -> bool:
        if tool in self.deny:
            return False
        return tool in self.allow or tool in HARMLESS or self.permission in ("edit", "full")


class Done(Struct, frozen=True):
    """How a call ended."""

    ok: bool
    output: str
    exit_code: int | None = None
    denied: bool = False


def run(name: str, arguments: dict[str, Any] | str, rules: Rules, cwd: Path) -> Done:
    """Carry out one call, or say why not."""
    if name not in _HANDS:
        return Done(False, f"there is no tool {name}")
    if not rules.allows(name):
        return Done(False, f"{name} is not allowed with the permission {rules.permission}", denied=True)
    try:
        given = msgspec.convert(arguments, dict[str, str])
        return _HANDS[name](given, cwd)
    except (KeyError, msgspec.ValidationError):
        return Done(False, f"{name} was called with arguments it does not take")
    except (OSError, ValueError) as error:
        return Done(False, str(error))


def _shell(given: dict[str, str], cwd: Path) -> Done:
    import subprocess  # most turns run nothing, and start faster without it

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


_HANDS = {"shell": _shell, "read": _read, "write": _write}
