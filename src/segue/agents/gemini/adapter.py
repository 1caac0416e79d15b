"""How Gemini CLI is found and called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from segue.agents.base import AgentFacts, Answer, Ended, Evidence, SessionFormat
from segue.agents.gemini import VARIABLES, default_home, permissions, stream, tools, verdict
from segue.agents.gemini import format as session_format
from segue.agents.gemini.format import FORMAT
from segue.agents.gemini.verdict import evidence
from segue.core.environment import Route
from segue.core.errors import Misuse
from segue.core.events import Event, Permission, Question
from segue.core.forecast import MINUTE, Habits
from segue.core.ids import checked_uuid, flag
from segue.core.outcome import Outcome
from segue.core.request import (
    IMAGES,
    PDF,
    TEXT,
    AttachedFile,
    Capabilities,
    Command,
    ModelAddress,
    Pointing,
    Request,
    RunPlace,
    Runtime,
)
from segue.core.situation import FailingPair
from segue.core.stream import TurnState
from segue.core.usage import Pays
from segue.core.verdicts import say

if TYPE_CHECKING:
    from segue.agents.base import SessionArchive

PROMPT_BYTES = 8 * 1024 * 1024
"""How much Gemini reads from stdin; it would drop the rest with a warning."""

FACTS = AgentFacts(
    name="gemini",
    label="Gemini",
    programs=("gemini",),
    resume_args=("--resume", "{session}"),
    install="npm install -g @google/gemini-cli",
    keys=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_CLOUD_API_KEY"),
    probes=(("--version",), ("--help",)),
    owned_args=frozenset(
        "-p --prompt -i --prompt-interactive -r --resume --session-id --session-file "
        "--list-sessions --delete-session -o --output-format -m --model -y --yolo --approval-mode "
        "--allowed-tools --policy --admin-policy "
        "--acp --experimental-acp -w --worktree -l --list-extensions".split()
    ),
    # one process instead of two: it starts in half the time, and signals reach the one that works
    every_start={"GEMINI_CLI_NO_RELAUNCH": "1"},
    notes=(
        say(
            "without --permission, Gemini does not see tools that write or run commands", "gemini.permission"
        ),
        say(
            "Gemini does not run in an untrusted directory: trust the directory once in Gemini, or add:"
            " -- --skip-trust",
            "gemini.untrusted",
        ),
        say("a word such as @file in a message makes Gemini add that file's content to it", "gemini.files"),
        say(
            "what ~/.gemini/policies refuses stays refused; what they and its settings allow does not widen"
            " --permission read",
            "gemini.policies",
        ),
    ),
    login_hint="start it there, and choose how to log in",
    rank=3,
    variables=VARIABLES,
    expands_at=True,
    attachments=(*IMAGES, PDF, TEXT),
    habits=Habits(cache_ms=5 * MINUTE, overhead=8_000, any_prefix=True),
    failing_pairs=(FailingPair("gemini-cli", "0.61", "0.29", "Gemini 0.29 cannot read what 0.61 wrote"),),
)


class Gemini:
    """The adapter of Gemini CLI."""

    facts = FACTS
    format: SessionFormat | None = FORMAT

    def archive(self) -> SessionArchive | None:
        from segue.agents.gemini.archive import ARCHIVE

        return ARCHIVE

    def runtime(self, command: tuple[str, ...], outputs: Sequence[str]) -> Runtime:
        version_text, help_text = outputs
        match = re.search(r"^\d+\.\d+\.\d+\S*$", version_text, re.M)
        return Runtime(
            agent=self.facts.name,
            distribution="gemini-cli",
            command=command,
            version=match[0] if match else None,
            capabilities=_capabilities(help_text),
        )

    def home_env(self, home: Path) -> dict[str, str]:
        """Moves only Gemini's ``.gemini``: ``HOME`` stays the same for the agent's tools."""
        return {"GEMINI_CLI_HOME": str(home)}

    def default_home(self, env: Mapping[str, str]) -> Path:
        return default_home(env)

    def route(self, home: Path, env: Mapping[str, str]) -> Route | None:
        return session_format.route(home, env)

    def logged_in(self, home: Path, env: Mapping[str, str]) -> bool | None:
        return session_format.logged_in(home, env)

    def pays(self, home: Path, env: Mapping[str, str]) -> Pays:
        return session_format.pays(home, env)

    def command(self, request: Request, runtime: Runtime, place: RunPlace) -> Command:
        _refuse(request, runtime, place)
        argv = [
            *runtime.command,
            "--output-format=stream-json",
            *_start(request),
            *permissions.MODES[request.permission],
        ]
        if request.model:
            argv.append(flag("model", request.model))
        argv += permissions.options(request, runtime, place.run_dir, place.home)
        if request.attachments:  # it reads files from its working directories only
            argv.append(flag("include-directories", str(request.attachments[0].path.parent)))
        return Command(
            argv=(*argv, *request.native_args),
            cwd=request.cwd,
            stdin=_message(request.prompt + _mentions(request.attachments)),
            env=dict(self.facts.every_start),
            files=permissions.files(request, runtime, place.run_dir, place.home),
            offers=tools.offers(request),
        )

    def not_in_force(
        self, request: Request, runtime: Runtime, home: Path, env: Mapping[str, str]
    ) -> str | None:
        return permissions.not_in_force(request, runtime, home)

    def parse(self, line: bytes) -> Sequence[Event]:
        return stream.parse(line)

    def reply(self, event: Question | Permission, answer: Answer) -> bytes:
        raise Misuse("Gemini cannot be answered while it runs")

    def evidence(self, request: Request, place: RunPlace, home: Path, reading: TurnState) -> Evidence:
        return evidence(request, place, home, reading)

    def conclude(self, ended: Ended) -> Outcome:
        return verdict.conclude(ended)

    def rehearse(self, model: ModelAddress, home: Path) -> Pointing | None:
        general: dict[str, object] = {"disableAutoUpdate": True, "disableUpdateNag": True}
        if model.retries is not None:
            general["maxAttempts"] = model.retries + 1
        settings = {
            "general": general,
            "privacy": {"usageStatisticsEnabled": False},
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        }
        written = msgspec.json.format(msgspec.json.encode(settings), indent=2).decode() + "\n"
        return Pointing(
            env={
                "GOOGLE_GEMINI_BASE_URL": model.url,
                "GEMINI_API_KEY": model.key,
                "GEMINI_CLI_HOME": str(home),
            },
            files={Path(".gemini/settings.json"): written},
            fence={
                "GOOGLE_GENAI_USE_VERTEXAI": "false",
                "GOOGLE_GENAI_USE_GCA": "false",
                "GOOGLE_VERTEX_BASE_URL": model.url,
                "CODE_ASSIST_ENDPOINT": model.url,
            },
        )


def _capabilities(help_text: str) -> Capabilities:
    """All from the help text: it shows what differs between versions."""
    return Capabilities(
        resume="--resume" in help_text,
        branch="--resume" in help_text,
        choose_id="--session-id" in help_text,
        cwd_scope="same",
        prompt_limit=PROMPT_BYTES,
        allow_tools=True,
        deny_tools="--policy" in help_text,
        unable_to_read=() if "--admin-policy" in help_text else ("--admin-policy",),
        tools=tools.NEW if "--policy" in help_text else tools.OLD,
        postures=("default", "read", "edit", "full"),
        compacts=True,
        attachments=FACTS.attachments if "--include-directories" in help_text else (),
    )


def _refuse(request: Request, runtime: Runtime, place: RunPlace) -> None:
    """Raise ``Misuse`` for what this CLI cannot do."""
    can, start = runtime.capabilities, request.start
    unsupported = (
        (request.max_turns is not None, "--max-turns", "set model.maxSessionTurns in its settings"),
        (request.budget_usd is not None, "--budget", "set a time limit instead"),
        (
            request.system_prompt is not None,
            "--system-prompt-file",
            "put the text into GEMINI.md or the message",
        ),
        (not request.save, "--no-save", "it always saves its session"),
        (
            bool(request.deny_tools) and not can.deny_tools,
            "--deny-tool",
            f"{runtime.version} is too old",
        ),
        (
            bool(start.new_id) and not can.choose_id,
            "a chosen session id",
            f"{runtime.version} is too old",
        ),
        (start.mode in ("fork", "branch"), f"a {start.mode}", "it can only resume a session"),
        ("," in str(place.run_dir), "a file with a comma in its path", str(place.run_dir)),
    )
    for given, option, why in unsupported:
        if given:
            raise Misuse(f"Gemini does not support {option}: {why}")


def _start(request: Request) -> list[str]:
    start = request.start
    if start.mode == "resume":
        return [flag("resume", checked_uuid(start.session or ""))]
    return [flag("session-id", checked_uuid(start.new_id))] if start.new_id else []


def _message(prompt: str) -> bytes:
    """The prompt in a form that Gemini takes literally: one that begins with ``/`` would run as a command."""
    if not prompt.strip():
        raise Misuse("Gemini needs a prompt, even when it resumes")
    text = ("\n" + prompt if prompt.startswith("/") else prompt).encode()
    if len(text) > PROMPT_BYTES:
        raise Misuse(f"the prompt has {len(text):,} bytes; Gemini accepts at most {PROMPT_BYTES:,}")
    return text


def _mentions(attachments: Sequence[AttachedFile]) -> str:
    """The files after the message: Gemini puts their contents in the place of ``@path``."""
    paths = (re.sub(r"([^A-Za-z0-9_./-])", r"\\\1", str(each.path)) for each in attachments)
    return "".join(f"\n\n@{path}" for path in paths)


AGENT = Gemini()
