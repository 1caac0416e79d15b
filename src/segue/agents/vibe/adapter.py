"""How Vibe is found and called.

``--trust`` is never passed: it would let the directory's own ``.vibe/config.toml`` grant the agent anything
(and, on 2.x, replace the user's). Directories that the user trusted in Vibe stay trusted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from segue.agents.base import AgentFacts, Answer, Ended, Evidence, SessionFormat
from segue.agents.decoding import given_keys
from segue.agents.vibe import VARIABLES, default_home, folder, run_files, stream, tools, verdict
from segue.agents.vibe.format import FORMAT
from segue.core.environment import Route
from segue.core.errors import Misuse
from segue.core.events import Event, Permission, Question
from segue.core.forecast import Habits
from segue.core.ids import checked_uuid, flag
from segue.core.outcome import Outcome
from segue.core.request import (
    Capabilities,
    Command,
    ModelAddress,
    Pointing,
    Request,
    RunPlace,
    Runtime,
)
from segue.core.stream import TurnState
from segue.core.usage import Pays
from segue.core.verdicts import say

if TYPE_CHECKING:
    from segue.agents.base import SessionArchive

PIPE_LIMIT = 1_048_576
ARGUMENT_LIMIT = 131_071
"""The longest argument that the kernel accepts, in bytes."""


SECONDS_PER_RETRY = 2.0
_REHEARSED = """\
active_model = "rehearsal"
enable_telemetry = false
enable_update_checks = false
enable_auto_update = false
enable_notifications = false
{limit}
[[providers]]
name = "rehearsal"
api_base = "{url}/v1"
api_key_env_var = "REHEARSAL_API_KEY"
api_style = "openai"
backend = "generic"

[[models]]
name = "rehearsal"
provider = "rehearsal"
alias = "rehearsal"
input_price = 0.4
output_price = 2.0
"""

FACTS = AgentFacts(
    name="vibe",
    label="Vibe",
    programs=("vibe",),
    resume_args=("--resume", "{session}"),
    install="uv tool install mistral-vibe",
    keys=("MISTRAL_API_KEY",),
    login_args=("--setup",),
    probes=(("--version",), ("--help",)),
    owned_args=frozenset(
        (
            *("-p", "--prompt", "--prompt-file", "--output", "--output-dir", "--resume", "-c", "--continue"),
            *(
                "--agent",
                "--auto-approve",
                "--yolo",
                "--smart-approve",
                "--enabled-tools",
                "--disabled-tools",
            ),
            *("--max-turns", "--max-price", "--workdir", "--worktree", "--agent-socket", "--teleport"),
            *("--setup", "--check-upgrade", "-v", "--version", "-h", "--help"),
        )
    ),
    notes=(
        say(
            "without --permission, Vibe 3 reads files and runs commands that it considers harmless"
            " (ls, cat, …), but makes no edits, although Vibe on its own would; Vibe 2 reads files and runs"
            " no commands",
            "vibe.permission",
        ),
        say(
            'tools set to permission = "always" in Vibe\'s own config.toml also run without --permission',
            "vibe.always",
        ),
        say(
            "in a directory not trusted in Vibe, its AGENTS.md and .vibe/ are not read; trust the directory"
            " once in Vibe, or add: -- --trust",
            "vibe.untrusted",
        ),
        say("with -p, Vibe takes no attachments: @image.png in a message stays a name", "vibe.attachments"),
        say(
            "Vibe 3 continues a session with the model that it started with, whatever --model says later",
            "vibe.model",
        ),
    ),
    rank=4,
    variables=VARIABLES,
    expands_at=True,
    habits=Habits(cache_ms=0, overhead=14_700),
)


class Vibe:
    """The adapter of Mistral Vibe."""

    facts = FACTS
    format: SessionFormat | None = FORMAT

    def archive(self) -> SessionArchive | None:
        from segue.agents.vibe.archive import ARCHIVE

        return ARCHIVE

    def runtime(self, command: tuple[str, ...], outputs: Sequence[str]) -> Runtime:
        version_text, help_text = outputs
        match = re.search(r"^vibe (\d+\.\d+\.\d+\S*)", version_text, re.M)
        return Runtime(
            agent=self.facts.name,
            distribution="mistral-vibe" if match else Path(command[0]).name,
            command=command,
            version=match[1] if match else None,
            capabilities=_capabilities(help_text),
        )

    def home_env(self, home: Path) -> dict[str, str]:
        return {"VIBE_HOME": str(home)}

    def default_home(self, env: Mapping[str, str]) -> Path:
        return default_home(env)

    def logged_in(self, home: Path, env: Mapping[str, str]) -> bool | None:
        from segue.agents.vibe import format as session_format  # only the doctor needs it

        return session_format.logged_in(home, env)

    def route(self, home: Path, env: Mapping[str, str]) -> Route | None:
        keys = given_keys(env, self.facts.keys)
        return Route("key" if keys else "unknown", keys=keys)

    def pays(self, home: Path, env: Mapping[str, str]) -> Pays:
        """Vibe's key can be a plan's, too; only one in the environment is known to be a key."""
        return "api_key" if env.get("MISTRAL_API_KEY") else "unknown"

    def command(self, request: Request, runtime: Runtime, place: RunPlace) -> Command:
        unified = not runtime.capabilities.id_on_disk_only
        _refuse(request, runtime.capabilities)
        stance = tools.permissions_of(request, unified=unified)
        prompt = ["-p"] if unified else _argument(request.prompt)
        argv = [*runtime.command, *prompt, "--output=streaming", *stance.argv, *_start(request)]
        if unified:
            argv.append(flag("output-dir", str(place.run_dir / run_files.EXPORT)))
        if request.max_turns is not None:
            argv.append(flag("max-turns", str(request.max_turns)))
        if request.budget_usd is not None:
            argv.append(flag("max-price", str(request.budget_usd)))
        return Command(
            argv=(*argv, *request.native_args),
            cwd=request.cwd,
            stdin=request.prompt.encode() if unified else b"",
            env=stance.env | _model(request) | _logging(request, place, unified),
        )

    def not_in_force(
        self, request: Request, runtime: Runtime, home: Path, env: Mapping[str, str]
    ) -> str | None:
        return tools.not_in_force(request, home)

    def parse(self, line: bytes) -> Sequence[Event]:
        return stream.parse(line)

    def reply(self, event: Question | Permission, answer: Answer) -> bytes:
        """Vibe asks nothing in this mode."""
        return b""

    def evidence(self, request: Request, place: RunPlace, home: Path, reading: TurnState) -> Evidence:
        """The 3.x export, or the session directory that 2.x wrote: its id is nowhere else.

        Deletes a cut of ours after Vibe has made its own session from it: Vibe's list would show both.
        """
        requested, announced = request.start.session, reading.session_id
        export = run_files.export(place.run_dir)
        interrupted = announced is not None and export is None
        evidence: Evidence = {
            "export": export,
            "trace": run_files.trace(home, announced or "") if interrupted else None,
            "written": [] if announced else run_files.written(home, request, place),
            "asked_exists": run_files.exists(home, requested),
            "imported": announced != requested and run_files.imported(home, announced, requested),
            "context": run_files.context(home, announced),
        }
        if requested is not None and (evidence["imported"] or evidence["written"]):
            folder.discard(home, requested)
        return evidence

    def conclude(self, ended: Ended) -> Outcome:
        return verdict.conclude(ended)

    def rehearse(self, model: ModelAddress, home: Path) -> Pointing | None:
        tries = model.retries
        limit = "" if tries is None else f"api_retry_max_elapsed_time = {tries * SECONDS_PER_RETRY}\n"
        env = {"VIBE_HOME": str(home), "MISTRAL_API_KEY": model.key, "REHEARSAL_API_KEY": model.key}
        return Pointing(env=env, files={Path("config.toml"): _REHEARSED.format(url=model.url, limit=limit)})


def _capabilities(help_text: str) -> Capabilities:
    """From the help text: a version between the measured ones has the protocol whose flags it shows."""
    unified = "--output-dir" in help_text and "--disabled-tools" in help_text
    resume = "--resume" in help_text
    return Capabilities(
        resume=resume,
        fork=resume and not unified,
        branch=resume,
        no_save=True,
        cost_scope="run",
        stdin=unified,
        prompt_limit=PIPE_LIMIT if unified else ARGUMENT_LIMIT,
        max_turns="--max-turns" in help_text,
        budget="--max-price" in help_text,
        allow_tools=True,
        deny_tools=True,
        deny_with_full=unified,
        tools=tools.TOOLS if unified else tools.OLD_TOOLS,
        postures=("default", "read", "edit", "full"),
        replays=not unified,
        compacts=True,
        id_on_disk_only=not unified,
    )


def _refuse(request: Request, can: Capabilities) -> None:
    """Raise ``Misuse`` for what Vibe cannot do."""
    if not request.prompt.strip():
        raise Misuse("Vibe needs a prompt, even when it resumes")
    size, limit = len(request.prompt.encode()), can.prompt_limit
    if limit is not None and size > limit:
        raise Misuse(f"the prompt has {size:,} bytes; this version of Vibe accepts at most {limit:,}")
    if request.system_prompt is not None:
        raise Misuse("Vibe does not support --system-prompt-file; put the text into the message")
    if request.max_turns is not None and not can.max_turns:
        raise Misuse("this version of Vibe does not support --max-turns")
    if request.budget_usd is not None and not can.budget:
        raise Misuse("this version of Vibe does not support --budget")
    if not request.save and request.start.mode != "fresh":
        raise Misuse("Vibe does not support --no-save when it resumes: it would not find its sessions")
    if request.start.new_id is not None:
        raise Misuse("Vibe chooses the ids of its sessions itself")
    if request.start.mode == "branch" or (request.start.mode == "fork" and not can.fork):
        raise Misuse(f"Vibe itself cannot {request.start.mode} a session")


def _argument(prompt: str) -> list[str]:
    """2.x does not read the prompt from stdin: it is an argument that cannot be read as an option."""
    if "\0" in prompt:
        raise Misuse(
            "this version of Vibe takes the prompt on the command line, which cannot contain a NUL character"
        )
    argv = [flag("prompt", prompt)] if prompt.startswith("-") else ["-p", prompt]
    if len(argv[-1].encode()) > ARGUMENT_LIMIT:
        limit = f"which accepts at most {ARGUMENT_LIMIT:,} bytes"
        raise Misuse(f"the prompt is too long for this version of Vibe, {limit}")
    return argv


def _start(request: Request) -> list[str]:
    """On 2.x every resume is a fork: it gets a new id, and the old session does not change."""
    if request.start.mode == "fresh":
        return []
    return [flag("resume", checked_uuid(request.start.session or ""))]


def _model(request: Request) -> dict[str, str]:
    if "\0" in (request.model or ""):
        raise Misuse("--model cannot contain a NUL character")
    return {"VIBE_ACTIVE_MODEL": request.model} if request.model else {}


def _logging(request: Request, place: RunPlace, unified: bool) -> dict[str, str]:
    """Where 2.x keeps its sessions: it writes that into config.toml, which may be shared with other homes."""
    settings: dict[str, object] = {}
    if not request.save:
        settings["enabled"] = False
    elif not unified and place.home is not None:
        folder = str(place.home / "logs" / "session")
        settings |= {"enabled": True, "save_dir": folder, "session_prefix": "session"}
    return {"VIBE_SESSION_LOGGING": msgspec.json.encode(settings).decode()} if settings else {}


AGENT = Vibe()
