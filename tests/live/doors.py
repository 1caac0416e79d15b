"""Two ways to the same conversation: the program on its own, and the HTTP API of a daemon."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

import msgspec

from tests.live.api import Api
from tests.live.talk import Said, Talk

CONVERSATION = "/api/v1/conversations/t"


class Door(Protocol):
    """What a user does in the conversation ``t``. A message is named as ``#n``."""

    talk: Talk

    def run(
        self, text: str, *, agent: str | None = None, cwd: Path | None = None, fresh_session: bool = False
    ) -> Said:
        """A turn that must go well, and what the model was sent meanwhile."""

    def retry(self, message: str) -> Said:
        """The message again; what was said after it is dropped."""

    def edit(self, message: str, text: str) -> None: ...

    def truncate(self, message: str) -> None: ...


@dataclass
class CommandLine:
    """Each turn is a process of its own."""

    talk: Talk

    def run(
        self, text: str, *, agent: str | None = None, cwd: Path | None = None, fresh_session: bool = False
    ) -> Said:
        named = [("--agent", agent), ("--cwd", str(cwd) if cwd else None)]
        options = [word for flag, value in named if value is not None for word in (flag, value)]
        return self.talk.run(text, *options, *(["--fresh-session"] if fresh_session else []))

    def retry(self, message: str) -> Said:
        return self._must("retry", "t", message, "--cut", "--json")

    def edit(self, message: str, text: str) -> None:
        self._must("edit", "t", message, text)

    def truncate(self, message: str) -> None:
        self._must("truncate", "t", message)

    def _must(self, *args: str) -> Said:
        said = self.talk(*args)
        assert said.code == 0, said.stderr
        return said


@dataclass
class OverHttp:
    """Each turn is a run of the daemon."""

    talk: Talk
    api: Api

    def run(
        self, text: str, *, agent: str | None = None, cwd: Path | None = None, fresh_session: bool = False
    ) -> Said:
        order = {"message": text, "cwd": str(cwd or self.talk.cwd), "fresh_session": fresh_session}
        return self._run({**order, "agent": agent} if agent is not None else order)

    def retry(self, message: str) -> Said:
        return self._run({"retry_of": message, "cut": True})

    def edit(self, message: str, text: str) -> None:
        status, told = self.api.ask(
            "PATCH", f"{CONVERSATION}/messages/{quote(message, safe='')}", {"text": text}
        )
        assert status == 200, told

    def truncate(self, message: str) -> None:
        status, told = self.api.ask("DELETE", f"{CONVERSATION}/messages/{quote(message, safe='')}")
        assert status == 200, told

    def _run(self, order: dict[str, Any]) -> Said:
        before = len(self.talk.model.requests)
        status, run = self.api.ask("POST", f"{CONVERSATION}/runs", order)
        assert status == 202, run
        turn = self.api.finished(run["run"])["turn"]
        assert turn["status"] == "ok", turn
        told = msgspec.json.encode(turn).decode()
        return Said(0, told, "", self.talk.model.requests[before:])
