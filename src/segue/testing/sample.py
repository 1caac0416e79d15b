"""What is checked, and how the checks call an adapter."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct

from segue.agents.base import Agent
from segue.core.errors import Misuse
from segue.core.request import Command, Request, RunPlace, Runtime, Start

T = TypeVar("T")

ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
ANCHOR = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
NEW_ID = "16fd2706-8baf-433b-82eb-8c7fada847da"
PROMPT = "conformance-prompt-7f3a"


class Sample(Struct, frozen=True):
    """The adapter to check, and what is known about its program."""

    agent: Agent
    runtime: Runtime
    outputs: tuple[str, ...]
    recorded: tuple[bytes, ...]
    seed: int
    rounds: int

    @property
    def starts(self) -> Iterator[Start]:
        """Every way to start that the program supports, according to its capabilities."""
        can = self.runtime.capabilities
        new_id = NEW_ID if can.choose_id else None
        yield Start(new_id=new_id)
        if can.resume:
            yield Start("resume", ID)
        if can.fork:
            yield Start("fork", ID, new_id=new_id)
        if can.branch and self._branches(branch := Start("branch", ID, ANCHOR, new_id)):
            yield branch

    def _branches(self, start: Start) -> bool:
        """Whether the CLI itself can branch. Otherwise the adapter's format must cut the session."""
        made = call(self.agent.command, self.request(start), self.runtime, RunPlace(Path("/nonexistent/run")))
        return self.agent.format is None or not isinstance(made, Misuse)

    def request(self, start: Start | None = None, prompt: str = PROMPT, **more: Any) -> Request:
        chosen = start if start is not None else next(self.starts)
        return Request(prompt=prompt, cwd=Path("/"), start=chosen, **more)


class Broke(Struct, frozen=True):
    """A call that raised an exception other than ``Misuse``."""

    why: str


def call(function: Callable[..., T], *given: Any) -> T | Misuse | Broke:
    """The result of a call, its ``Misuse``, or how it broke."""
    try:
        return function(*given)
    except Misuse as misuse:
        return misuse
    except Exception as error:
        return Broke(f"raised {type(error).__name__}: {error}")


def command(sample: Sample, request: Request, place: RunPlace | None = None) -> Command | Misuse | Broke:
    where = place or RunPlace(Path("/nonexistent/run"))
    return call(sample.agent.command, request, sample.runtime, where)


@contextmanager
def empty_place() -> Iterator[tuple[RunPlace, Path]]:
    """An empty run directory and an empty home."""
    with tempfile.TemporaryDirectory() as folder:
        run_dir, home = Path(folder, "run"), Path(folder, "home")
        run_dir.mkdir()
        home.mkdir()
        yield RunPlace(run_dir), home


def written(place: RunPlace, home: Path) -> list[str]:
    return [str(path.name) for folder in (place.run_dir, home) for path in folder.rglob("*")]
