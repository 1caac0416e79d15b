"""How the rehearsal agent is called and read."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from segue import __version__
from segue.agents.base import AgentFacts, Answer, Ended, Evidence, SessionFormat
from segue.agents.decoding import given_keys, set_variables
from segue.agents.rehearsal import default_home, stream
from segue.agents.rehearsal.format import FORMAT, last_answer, pays
from segue.core.environment import Route
from segue.core.errors import Misuse
from segue.core.events import Event, Permission, Question
from segue.core.forecast import MINUTE, Habits
from segue.core.ids import flag, native_id
from segue.core.outcome import Outcome
from segue.core.request import (
    IMAGES,
    PDF,
    TEXT,
    Capabilities,
    Command,
    ModelAddress,
    Pointing,
    Request,
    RunPlace,
    Runtime,
)
from segue.core.stream import TurnState
from segue.core.tools import Tools
from segue.core.usage import Pays
from segue.core.verdicts import say

if TYPE_CHECKING:
    from segue.agents.base import SessionArchive

_CAPABILITIES = Capabilities(
    resume=True,
    fork=True,
    branch=True,
    choose_id=True,
    no_save=True,
    questions=True,
    system_prompt="session",
    usage_scope="run",
    cost_scope="run",
    cwd_scope="any",
    stdin=True,
    max_turns=True,
    allow_tools=True,
    deny_tools=True,
    tools=Tools(
        names=("ask_user", "read", "shell", "write"),
        looking=("ask_user", "read"),
        elsewhere={"bash": "shell", "write_file": "write"},
    ),
    postures=("default", "read", "edit", "full"),
    attachments=(*IMAGES, PDF, TEXT),
)

KEYS = ("REHEARSAL_KEY",)

FACTS = AgentFacts(
    name="rehearsal",
    label="Rehearsal",
    # ``-P``: a file in the working directory must not be imported as one of Python's own modules.
    builtin=(sys.executable, "-P", "-m", "segue.rehearsal.agent"),
    install="pip install segue",
    login_hint='it needs no login; {"account": NAME} in its login.json says who would be logged in',
    owned_args=frozenset(
        {"--resume", "--fork", "--at", "--session-id", "--no-save", "--model", "--permission", "--allow-tool"}
        | {"--deny-tool", "--max-turns", "--system-prompt-file", "--input", "--no-questions"}
        | {"--version", "--help", "-h"}
    ),
    attachments=_CAPABILITIES.attachments,
    notes=(
        say(
            "the rehearsal agent runs commands only with --permission edit or full, and without a sandbox",
            "rehearsal.permission",
        ),
    ),
    habits=Habits(cache_ms=60 * MINUTE, overhead=50),
)


class Rehearsal:
    """The adapter of the rehearsal agent."""

    facts = FACTS
    format: SessionFormat | None = FORMAT

    def archive(self) -> SessionArchive | None:
        from segue.agents.rehearsal.archive import ARCHIVE

        return ARCHIVE

    def runtime(self, command: tuple[str, ...], outputs: Sequence[str]) -> Runtime:
        return Runtime(
            agent=self.facts.name,
            distribution="segue-rehearsal",
            ours=True,
            command=command,
            version=__version__,
            capabilities=_CAPABILITIES,
        )

    def home_env(self, home: Path) -> dict[str, str]:
        return {"REHEARSAL_HOME": str(home)}

    def default_home(self, env: Mapping[str, str]) -> Path:
        return default_home(env)

    def route(self, home: Path, env: Mapping[str, str]) -> Route | None:
        found = set_variables(env, ("REHEARSAL_URL",), KEYS)
        return Route("key" if "REHEARSAL_KEY" in found else "login", found, given_keys(env, KEYS))

    def pays(self, home: Path, env: Mapping[str, str]) -> Pays:
        return pays(home)

    def command(self, request: Request, runtime: Runtime, place: RunPlace) -> Command:
        if not request.prompt.strip():
            raise Misuse("the rehearsal agent needs a prompt")
        if request.budget_usd is not None:
            raise Misuse("the rehearsal agent does not support --budget; leave it out")
        files: dict[Path, str] = {}
        argv = [*runtime.command, "--input=jsonl", *_start(request), *_options(request)]
        if request.system_prompt is not None:
            files[place.run_dir / "system-prompt.md"] = request.system_prompt
            argv.append(flag("system-prompt-file", str(place.run_dir / "system-prompt.md")))
        return Command(
            argv=(*argv, *request.native_args),
            cwd=request.cwd,
            stdin=msgspec.json.encode({"type": "prompt", "text": request.prompt, **_files(request)}) + b"\n",
            hold_stdin=True,
            files=files,
            offers=() if request.questions else ("without ask_user",),
        )

    def parse(self, line: bytes) -> Sequence[Event]:
        return stream.parse(line)

    def reply(self, event: Question | Permission, answer: Answer) -> bytes:
        told = {"allow": answer.allow, "message": answer.message, "answers": answer.answers}
        return msgspec.json.encode({"type": "answer", "id": event.id, **told}) + b"\n"

    def evidence(self, request: Request, place: RunPlace, home: Path, reading: TurnState) -> Evidence:
        """Whether the announced session is on disk; if the output has no end, its answer at the end."""
        session = reading.session_id
        exists = session is not None and (home / "sessions" / f"{session}.jsonl").is_file()
        if session is None or reading.end is not None:
            return {"session_exists": exists}
        return {"session_exists": exists, "answered": last_answer(home, session, place.started_ms)}

    def conclude(self, ended: Ended) -> Outcome:
        return stream.conclude(ended)

    def rehearse(self, model: ModelAddress, home: Path) -> Pointing | None:
        scenario = {"REHEARSAL_SCENARIO": str(model.scenario)} if model.scenario is not None else {}
        return Pointing(env={**self.home_env(home), **scenario}, asks_model=False)


def _files(request: Request) -> dict[str, list[dict[str, str]]]:
    files = [
        {"name": each.name, "media_type": each.media_type, "path": str(each.path)}
        for each in request.attachments
    ]
    return {"files": files} if files else {}


def _start(request: Request) -> list[str]:
    start = request.start
    argv = [] if request.save else ["--no-save"]
    if start.mode != "fresh":
        argv.append(flag("resume", native_id(start.session or "")))
    if start.mode in ("fork", "branch"):
        argv.append("--fork")
    if start.mode == "branch":
        argv.append(flag("at", native_id(start.at or "")))
    if start.new_id is not None and start.mode != "resume":
        argv.append(flag("session-id", native_id(start.new_id)))
    return argv


def _options(request: Request) -> list[str]:
    argv = [flag("permission", request.permission)]
    if request.model:
        argv.append(flag("model", request.model))
    argv += [flag("allow-tool", tool) for tool in request.allow_tools]
    argv += [flag("deny-tool", tool) for tool in request.deny_tools]
    if request.max_turns is not None:
        argv.append(flag("max-turns", str(request.max_turns)))
    return argv if request.questions else [*argv, "--no-questions"]


AGENT = Rehearsal()
