"""A conversation with the rehearsal agent, and what the agent's own session shows of what it was sent."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tests.integration.conftest import Program, Result

AGENT = [sys.executable, "-P", "-m", "segue.rehearsal.agent"]
SEEDS = '[continuity]\nmodes = ["resume", "replay", "fresh"]\n'
"""As simple as other systems have it: a session is resumed, or everything is sent as text."""


def declared(name: str, program: list[str], *, resumes: bool = True) -> str:
    """The rehearsal agent once more under another name: a voice of its own, its format unknown."""
    quoted = ", ".join(f'"{part}"' for part in program)
    again = f'resume_command = [{quoted}, "--resume={{session_id}}"]\n' if resumes else ""
    return (
        f'[agents.{name}]\ncommand = [{quoted}, ["--model", "{{model}}"]]\n{again}'
        'stdin = "prompt"\noutput = "jsonl"\n'
        'session_id = { path = "$.id", when = { type = "session" } }\n'
        'text = { path = "$.text", when = { type = "text" } }\n'
        'error = { path = "$.error.message", when = { type = "end", ok = false } }\n'
        'done = { type = "end", ok = true }\n'
    )


OTHER = declared("other", AGENT)


@dataclass(frozen=True)
class Spoke:
    """A turn, and the session it was written to."""

    ran: Result
    sessions: Path

    @property
    def turn(self) -> dict[str, Any]:
        return self.ran.turn

    @property
    def mode(self) -> str:
        return str(self.turn["mode"])

    @property
    def text(self) -> str:
        return str(self.turn["text"])

    def failed(self) -> dict[str, str]:
        """The checks that failed, each with its reason."""
        return {each["check"]: each["detail"] for each in self.turn["why"] if each["verdict"] == "fail"}

    @property
    def _said(self) -> list[dict[str, Any]]:
        file = self.sessions / f"{self.turn['session_id']}.jsonl"
        return [msgspec.json.decode(line) for line in file.read_bytes().splitlines()][1:]

    @property
    def _prompts(self) -> list[int]:
        return [at for at, each in enumerate(self._said) if each["role"] == "user" and each["kind"] == "text"]

    @property
    def prompt(self) -> str:
        """What the agent was sent as text."""
        return str(self._said[self._prompts[-1]]["text"])

    @property
    def native(self) -> str:
        """All that its session held before that."""
        return "\n".join(each["text"] for each in self._said[: self._prompts[-1]])


class Talk:
    """One conversation under the key ``t``."""

    def __init__(self, segue: Program, key: str = "t") -> None:
        self.segue, self.key = segue, key
        self.sessions = segue.home.parent / ".local" / "share" / "segue-rehearsal" / "sessions"

    def run(self, text: str, *args: str, code: int = 0) -> Spoke:
        return self._spoke("run", self.key, text, *args, code=code)

    def retry(self, *args: str, code: int = 0) -> Spoke:
        return self._spoke("retry", self.key, *args, code=code)

    def __call__(self, command: str, *args: str, code: int = 0) -> Result:
        ran = self.segue(command, self.key, *args)
        assert ran.code == code, ran.stderr
        return ran

    def log(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = msgspec.json.decode(self("log", "--json").stdout)
        return rows

    def texts(self) -> list[str]:
        return [row["text"] for row in self.log()]

    def why(self, *args: str) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self("why", *args, "--json").stdout)
        return found

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Another turn is running meanwhile; it says "slow" in the end."""
        gate = self.segue.home.parent / "gate"
        wait = f"[[shell until [ -e {gate} ]; do sleep 0.1; done]][[say slow]]"
        process = self.segue.start("run", self.key, wait, "--permission", "full", "--events")
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            gate.touch()
            process.communicate(timeout=60)

    def _spoke(self, *args: str, code: int) -> Spoke:
        ran = self.segue(*args, "--json")
        assert ran.code == code, (ran.code, ran.stderr)
        return Spoke(ran, self.sessions)


def rehearsing(segue: Program, config: str = "") -> Talk:
    segue.config(f'{config}\n[defaults]\nagent = "rehearsal"\n')
    return Talk(segue)


def resumed(spoke: Spoke, *earlier: str) -> None:
    """Its own session was continued, and nothing that it holds was sent again."""
    assert (spoke.mode, spoke.turn["resumed"]) == ("resume", True), spoke.failed()
    assert spoke.turn["resumed_from"] == spoke.turn["session_id"]
    for text in earlier:
        assert spoke.native.count(text) == 1, text
        assert text not in spoke.prompt


def replayed(spoke: Spoke, *earlier: str) -> None:
    """Both halves: no session was continued, and everything that was said stands in what was sent."""
    assert (spoke.mode, spoke.turn["resumed"]) == ("replay", False), spoke.failed()
    assert spoke.turn["resumed_from"] is None
    assert spoke.native == ""
    for text in earlier:
        assert spoke.prompt.count(text) == 1, (text, spoke.prompt)
