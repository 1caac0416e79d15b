"""How Codex is found and called.

The sandbox is set on every call, fresh or resumed: otherwise Codex would allow what its settings or a trusted
directory allow. ``resume`` has no ``--sandbox``, so it is set with ``-c``, after the caller's own arguments,
because the last one wins if a setting is given twice. What Codex's own files would add to a read-only sandbox
is kept out (``permissions``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from segue.agents.base import AgentFacts, Answer, Ended, Evidence, SessionFormat
from segue.agents.codex import VARIABLES, default_home, permissions, rollouts, stream, trace, verdict
from segue.agents.codex import format as session_format
from segue.agents.codex.format import FORMAT
from segue.agents.decoding import LimitsInquiry, LimitsTold, given_keys, set_variables
from segue.core.environment import Route
from segue.core.errors import Misuse
from segue.core.events import Event, Permission, Question
from segue.core.forecast import MINUTE, Habits
from segue.core.ids import checked_uuid, flag, version_parts
from segue.core.outcome import Outcome
from segue.core.request import (
    IMAGES,
    Capabilities,
    Command,
    ModelAddress,
    Pointing,
    Posture,
    Request,
    RunPlace,
    Runtime,
    Start,
)
from segue.core.stream import TurnState
from segue.core.usage import Pays
from segue.core.verdicts import Said, say

if TYPE_CHECKING:
    from segue.agents.base import SessionArchive

SANDBOX: Mapping[Posture, str] = {
    "default": "read-only",
    "read": "read-only",
    "edit": "workspace-write",
    "full": "danger-full-access",
}
REHEARSED_MODEL = "gpt-5.5"
"""A model that every tested version knows or accepts without a warning, and that gets its tools in the form
that the loopback model understands."""
PROMPT_LIMIT = 1_048_576
ARGUMENT_LIMIT = 131_071
"""The longest argument that the kernel accepts, in bytes."""
_UNLIMITED = (0, 104)
"""The newest version that was measured to accept a prompt of any size."""
_SCHEMAS = (0, 166)
"""The oldest version that was measured to accept a schema also for a session that it resumes."""


_REHEARSED = """\
model = "{model}"
model_provider = "rehearsal"
check_for_update_on_startup = false

[model_providers.rehearsal]
name = "rehearsal"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "REHEARSAL_API_KEY"
{limits}
[analytics]
enabled = false

[features]
plugins = false
"""

FACTS = AgentFacts(
    name="codex",
    label="Codex",
    programs=("codex",),
    resume_args=("resume", "{session}"),
    install="npm install -g @openai/codex",
    keys=("OPENAI_API_KEY", "CODEX_API_KEY"),
    probes=(("--version",), ("exec", "--help")),
    owned_args=frozenset(
        (
            *("--json", "--experimental-json", "-o", "--output-last-message", "--color"),
            *("-m", "--model", "-C", "--cd", "--worktree", "--ephemeral", "--skip-git-repo-check"),
            *("-s", "--sandbox", "-a", "--ask-for-approval", "--full-auto", "--approve-for-me", "--yolo"),
            *("--dangerously-bypass-approvals-and-sandbox", "--last", "--all"),
            *("-h", "--help", "-V", "--version", "resume", "fork", "review", "help"),
        )
    ),
    login_check=("login", "status"),
    login_args=("login",),
    notes=(
        say(
            "a command that Codex's sandbox stops at once is not in its output, so it is not shown here"
            " either",
            "codex.stopped",
        ),
        say(
            "without --permission, Codex runs in a read-only sandbox, whatever its own settings say, and"
            " without its rules files and the settings of the directory",
            "codex.permission",
        ),
        say(
            "with --permission edit or full in a git repository, Codex marks it as trusted in its"
            " config.toml",
            "codex.trusts",
        ),
    ),
    rank=2,
    variables=VARIABLES,
    attachments=IMAGES,
    habits=Habits(cache_ms=10 * MINUTE, overhead=9_800, any_prefix=True),
)


class Codex:
    """The adapter of Codex."""

    facts = FACTS
    format: SessionFormat | None = FORMAT

    def archive(self) -> SessionArchive | None:
        from segue.agents.codex.archive import ARCHIVE

        return ARCHIVE

    def runtime(self, command: tuple[str, ...], outputs: Sequence[str]) -> Runtime:
        version_text, help_text = outputs
        match = re.search(r"^(codex[\w-]*) (\d+\.\d+\.\d+\S*)", version_text, re.M)
        version = match[2] if match else None
        return Runtime(
            agent=self.facts.name,
            distribution=match[1] if match else Path(command[0]).name,
            command=command,
            version=version,
            capabilities=_capabilities(version, help_text),
        )

    def home_env(self, home: Path) -> dict[str, str]:
        return {"CODEX_HOME": str(home)}

    def route(self, home: Path, env: Mapping[str, str]) -> Route | None:
        found = set_variables(env, ("OPENAI_BASE_URL",), self.facts.keys)
        keys = given_keys(env, self.facts.keys)
        return Route("key" if "CODEX_API_KEY" in keys else "login", found, keys)

    def default_home(self, env: Mapping[str, str]) -> Path:
        return default_home(env)

    def pays(self, home: Path, env: Mapping[str, str]) -> Pays:
        return session_format.pays(home, env)

    def limits_inquiry(self, home: Path, env: Mapping[str, str]) -> LimitsInquiry | None:
        if self.pays(home, env) != "subscription":
            return None
        from segue.agents.codex.app_server import INQUIRY

        return INQUIRY

    def limits_told(self, line: bytes) -> LimitsTold | None:
        from segue.agents.codex.app_server import told

        return told(line)

    def command(self, request: Request, runtime: Runtime, place: RunPlace) -> Command:
        _refuse(request, runtime.capabilities)
        verb, session = _start(request.start, runtime.capabilities)
        # With 0.104, the sandbox of a profile counts more than the setting, but less than the option.
        own = [flag("sandbox", SANDBOX[request.permission])] if runtime.capabilities.unable_to_read else []
        argv = [*runtime.command, "exec", *own, *verb, *request.native_args]
        argv += ["--json", "--skip-git-repo-check"]
        argv += ["-c", f'sandbox_mode="{SANDBOX[request.permission]}"', "-c", 'approval_policy="never"']
        for setting in permissions.closed(request, place.home):
            argv += ["-c", setting]
        narrow = request.permission in permissions.LOOKING and not runtime.capabilities.unable_to_read
        if narrow and "--ignore-rules" not in request.native_args:
            argv.append("--ignore-rules")
        if request.model:
            argv.append(flag("model", request.model))
        if not request.save:
            argv.append("--ephemeral")
        if request.system_prompt is not None and request.start.mode == "fresh":
            argv += ["-c", _developer_instructions(request.system_prompt)]
        argv += [flag("image", str(each.path)) for each in request.attachments]
        files: dict[Path, str] = {}
        if request.schema is not None:
            files[place.run_dir / "answer-schema.json"] = _strict(request.schema)
            argv.append(flag("output-schema", str(place.run_dir / "answer-schema.json")))
        return Command(
            argv=(*argv, *session, "-"),
            cwd=request.cwd,
            stdin=request.prompt.encode(),
            files=files,
            notices=_unread(request, runtime.capabilities, place.home),
            offers=("with full access",) if request.permission == "full" else (),  # changes its web search
        )

    def not_in_force(
        self, request: Request, runtime: Runtime, home: Path, env: Mapping[str, str]
    ) -> str | None:
        if request.permission not in permissions.LOOKING or not runtime.capabilities.unable_to_read:
            return None
        file = permissions.rules_in_force(home, request.cwd)
        if file is None:
            return None
        return (
            f"the rules in {file} let Codex {runtime.version} run commands outside its read-only sandbox;"
            " update Codex, or remove the file"
        )

    def parse(self, line: bytes) -> Sequence[Event]:
        return stream.parse(line)

    def reply(self, event: Question | Permission, answer: Answer) -> bytes:
        """Codex asks nothing in this mode."""
        return b""

    def evidence(self, request: Request, place: RunPlace, home: Path, reading: TurnState) -> Evidence:
        """The rollout of the session that it announced, and whether the requested one exists."""
        requested = request.start.session
        written = rollouts.find(home, reading.session_id)
        found = trace.trace(written, place.started_ms) if written is not None else None
        return {
            "asked_exists": requested is not None and rollouts.find(home, requested) is not None,
            "exists": written is not None,
            "trace": found,
            "answered": found.answered if found is not None else "",
        }

    def conclude(self, ended: Ended) -> Outcome:
        return verdict.conclude(ended)

    def rehearse(self, model: ModelAddress, home: Path) -> Pointing | None:
        tries = model.retries
        limits = "" if tries is None else f"request_max_retries = {tries}\nstream_max_retries = {tries}\n"
        config = _REHEARSED.format(model=REHEARSED_MODEL, url=model.url, limits=limits)
        env = {"CODEX_HOME": str(home), "REHEARSAL_API_KEY": model.key}
        return Pointing(env=env, files={Path("config.toml"): config})


def _strict(schema: str) -> str:
    """The schema as the model service wants it: each object has all its properties, and no others."""

    def strict(part: Any) -> Any:
        if isinstance(part, list):
            return [strict(each) for each in part]
        if not isinstance(part, dict):
            return part
        made = {name: strict(each) for name, each in part.items()}
        if part.get("type") == "object":
            made |= {"required": list(part.get("properties", {})), "additionalProperties": False}
        return made

    return msgspec.json.encode(strict(msgspec.json.decode(schema))).decode()


def _capabilities(version: str | None, help_text: str) -> Capabilities:
    """From the help text and, for what it does not show, from the version. An unknown one counts as new."""
    known = version_parts(version)
    unlimited = bool(known) and known[:2] <= _UNLIMITED
    resume = re.search(r"^  resume\b", help_text, re.M) is not None
    return Capabilities(
        resume=resume,
        fork=re.search(r"^  fork\b", help_text, re.M) is not None,
        branch=resume,
        no_save="--ephemeral" in help_text,
        system_prompt="session",
        usage_scope="session",
        prompt_limit=None if unlimited else PROMPT_LIMIT,
        prompt_unit="characters",
        postures=("default", "read", "edit", "full"),
        compacts=True,
        unable_to_read=() if "--ignore-rules" in help_text else ("--ignore-rules",),
        schema="--output-schema" in help_text and not (known and known < _SCHEMAS),
        attachments=FACTS.attachments if "--image" in help_text else (),
    )


def _refuse(request: Request, can: Capabilities) -> None:
    """Raise ``Misuse`` for what Codex cannot do."""
    if not request.prompt.strip():
        raise Misuse("Codex needs a prompt, even when it resumes")
    if can.prompt_limit is not None and len(request.prompt) > can.prompt_limit:
        size = f"the prompt has {len(request.prompt):,} characters"
        raise Misuse(f"{size}; Codex accepts at most {can.prompt_limit:,}")
    for option, given in (
        ("--allow-tool", request.allow_tools),
        ("--deny-tool", request.deny_tools),
        ("--max-turns", request.max_turns is not None),
        ("--budget", request.budget_usd is not None),
    ):
        if given:
            raise Misuse(f"Codex does not support {option}; leave it out, or use another agent")
    if any("," in str(each.path) for each in request.attachments):
        raise Misuse("Codex cannot read an image from a path with a comma; set SEGUE_HOME to one without")
    if not request.save and not can.no_save:
        raise Misuse("this version of Codex does not support --no-save; update it, or leave the option out")
    if not request.save and request.start.mode != "fresh":
        raise Misuse("Codex does not support --no-save when it resumes: it writes the session anyway")


def _start(start: Start, can: Capabilities) -> tuple[list[str], list[str]]:
    """The subcommand, and the session to continue; the id is a uuid, so it is never read as an option."""
    if start.new_id is not None:
        raise Misuse("Codex chooses the ids of its sessions itself")
    match start.mode:
        case "fresh":
            return [], []
        case "resume" if can.resume:
            return ["resume"], [checked_uuid(start.session or "")]
        case "fork" if can.fork:
            return ["fork"], [checked_uuid(start.session or "")]
        case "branch":
            raise Misuse("Codex itself cannot continue from the middle of a session")
    raise Misuse(f"this version of Codex cannot {start.mode} a session; update it")


def _unread(request: Request, can: Capabilities, home: Path | None) -> tuple[Said, ...]:
    """The notice about instructions that a new session does not get. The old version reads them."""
    if home is None or request.start.mode != "fresh" or can.unable_to_read:
        return ()
    names = ", ".join(permissions.unread(request, home))
    text = (
        f"Codex does not read {names}: without --permission edit or full, it does not trust the directory in"
        " this turn, whatever its own settings say"
    )
    return (say(text, "notice.untrusted_instructions", files=names),) if names else ()


def _developer_instructions(text: str) -> str:
    """The setting as one argument. TOML escapes what JSON escapes, and also DEL."""
    value = msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")
    setting = f"developer_instructions={value}"
    if len(setting.encode()) > ARGUMENT_LIMIT:
        raise Misuse("the system prompt is too long for Codex, which accepts at most 128 KB")
    return setting


AGENT = Codex()
