"""How Claude Code is found and called."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from segue.agents.base import AgentFacts, Answer, Ended, Evidence, SessionFormat
from segue.agents.claude import VARIABLES, default_home, tools
from segue.agents.claude import format as session_format
from segue.agents.claude.format import FORMAT
from segue.core.environment import Route
from segue.core.errors import Misuse
from segue.core.events import Event, Permission, Question
from segue.core.forecast import MINUTE, Habits
from segue.core.ids import checked_uuid, flag, version_parts
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
    Posture,
    Request,
    RunPlace,
    Runtime,
)
from segue.core.stream import TurnState
from segue.core.usage import Pays
from segue.core.verdicts import Said, say

if TYPE_CHECKING:
    from segue.agents.base import SessionArchive

_MODES: Mapping[Posture, str] = {
    "default": "default",
    "read": "dontAsk",
    "edit": "acceptEdits",
    "full": "bypassPermissions",
}
"""Always named: otherwise a settings file could choose another one."""
_NEEDED_TO_READ = ("--setting-sources", "--settings", "--tools", "--add-dir")

_MEMORY_OF_ADDED = "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD"
"""Makes Claude read the instructions of a directory that is added by name."""
OWN = "claude-settings.json"
"""The settings of a run with the posture ``read``, in the run's directory."""

_CLOUDS = tuple(
    f"CLAUDE_CODE_USE_{cloud}"
    for cloud in ("BEDROCK", "VERTEX", "FOUNDRY", "MANTLE", "ANTHROPIC_AWS", "ANTHROPIC_GOOGLE_CLOUD")
)
"""Variables that switch to a cloud's own service."""
_LOOKS_SAFELY = (2, 1, 325)
"""Versions before this one run ``git status`` when they start, and with it what the repository's own config
names, such as a file system monitor. With the posture ``read``, they find no repository."""
_DENIES_FIRST = (2, 1, 325)
"""Before this version, a hook's answer overrules a denial, and a rule for ``x *`` does not hold for ``x``."""
_DEFERS = (2, 1, 325)
"""From this version on, most tools are not in the prompt until the model searches for them."""


FACTS = AgentFacts(
    name="claude",
    label="Claude",
    programs=("claude", "openclaude"),
    resume_args=("--resume", "{session}"),
    install="npm install -g @anthropic-ai/claude-code",
    keys=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
    probes=(("--version",), ("--help",)),
    owned_args=frozenset(
        [
            "-p",
            "--print",
            "-r",
            "--resume",
            "-c",
            "--continue",
            "--session-id",
            "--fork-session",
            "--resume-session-at",
            "--input-format",
            "--output-format",
            "--verbose",
            "--include-partial-messages",
            "--permission-prompt-tool",
            "--permission-mode",
            "--permission-prompts",
            "--dangerously-skip-permissions",
            "--allow-dangerously-skip-permissions",
            "--replay-user-messages",
            "--no-session-persistence",
            "--model",
            "--max-turns",
            "--max-budget-usd",
            "--allowedTools",
            "--allowed-tools",
            "--disallowedTools",
            "--disallowed-tools",
            "--append-system-prompt",
            "--append-system-prompt-file",
            "--bg",
            "--background",
            "--teleport",
            "--from-pr",
            "--cloud",
        ]
    ),
    login_check=("auth", "status"),
    login_args=("auth", "login"),
    notes=(
        say(
            "without --permission, Claude refuses edits and commands that its settings do not allow",
            "claude.permission",
        ),
        say("as root, Claude accepts --permission full only if IS_SANDBOX=1 is set", "claude.root"),
    ),
    rank=1,
    variables=VARIABLES,
    expands_at=True,
    attachments=(*IMAGES, PDF, TEXT),
    habits=Habits(cache_ms=60 * MINUTE, overhead=11_700),
)


class Claude:
    """The adapter of Claude Code."""

    facts = FACTS
    format: SessionFormat | None = FORMAT

    def archive(self) -> SessionArchive | None:
        from segue.agents.claude.archive import ARCHIVE  # a turn starts faster without it

        return ARCHIVE

    def runtime(self, command: tuple[str, ...], outputs: Sequence[str]) -> Runtime:
        version_text, help_text = outputs
        match = re.search(r"(\d+\.\d+\.\d+\S*)\s*\(([^)]+)\)", version_text)
        version = match[1] if match else None
        name = match[2] if match else Path(command[0]).name
        return Runtime(
            agent=self.facts.name,
            distribution=re.sub(r"[^a-z0-9]+", "-", name.lower()),
            command=command,
            version=version,
            capabilities=_capabilities(version, help_text),
        )

    def home_env(self, home: Path) -> dict[str, str]:
        return {"CLAUDE_CONFIG_DIR": str(home)}

    def default_home(self, env: Mapping[str, str]) -> Path:
        return default_home(env)

    def pays(self, home: Path, env: Mapping[str, str]) -> Pays:
        """A login can be a plan's or a key's: Claude's output tells which."""
        if any(env.get(name) not in (None, "", "0", "false") for name in _CLOUDS):
            return "cloud"
        if env.get("ANTHROPIC_API_KEY"):
            return "api_key"
        gateway = env.get("ANTHROPIC_AUTH_TOKEN")
        return "subscription" if env.get("CLAUDE_CODE_OAUTH_TOKEN") and not gateway else "unknown"

    def login_files(self, home: Path, env: Mapping[str, str]) -> Sequence[Path]:
        return home, session_format.settings_file(home, env)

    def route(self, home: Path, env: Mapping[str, str]) -> Route | None:
        return session_format.route(home, env)

    def command(self, request: Request, runtime: Runtime, place: RunPlace) -> Command:
        can = runtime.capabilities
        argv = [
            *runtime.command,
            "-p",
            "--input-format=stream-json",
            "--output-format=stream-json",
            "--verbose",
        ]
        argv += ["--include-partial-messages"]
        if can.questions:
            argv += ["--permission-prompt-tool=stdio"]
        argv += [*_start(request), flag("permission-mode", _mode(request))]
        files: dict[Path, str] = {}
        env: dict[str, str] = {}
        secrets: tuple[str, ...] = ()
        notices: tuple[Said, ...] = ()
        if request.permission == "read":
            from segue.agents.claude import settings

            own = settings.own_settings(place.home, request.cwd)
            files[place.run_dir / OWN] = msgspec.json.encode(own).decode()
            argv += _closed(request, place.run_dir / OWN)
            env, secrets = {_MEMORY_OF_ADDED: "1"}, settings.secrets_in(own)
            if not tools.may_run_git(request) and not _is_at_least(runtime.version, _LOOKS_SAFELY):
                env["GIT_DIR"] = os.devnull
            notices = _unread(request, place.home)
        if request.system_prompt is not None:
            files[place.run_dir / "system-prompt.md"] = request.system_prompt
            argv.append(flag("append-system-prompt-file", str(place.run_dir / "system-prompt.md")))
        argv += _options(request, bare_too=not _is_at_least(runtime.version, _DENIES_FIRST))
        return Command(
            argv=(*argv, *request.native_args),
            cwd=request.cwd,
            env=env,
            secrets=secrets,
            notices=notices,
            stdin=_user_message(request.prompt, request.attachments),
            hold_stdin=True,
            files=files,
            offers=tools.offers(request, all_shown=not _is_at_least(runtime.version, _DEFERS)),
        )

    def not_in_force(
        self, request: Request, runtime: Runtime, home: Path, env: Mapping[str, str]
    ) -> str | None:
        from segue.agents.claude import enforcement  # most requests need none of it

        if request.permission == "read":
            return enforcement.not_in_force(request, runtime, home)
        if not _is_at_least(runtime.version, _DENIES_FIRST):
            return enforcement.overruled(request, runtime, home)
        return None

    def parse(self, line: bytes) -> Sequence[Event]:
        return _parser()(line)

    def reply(self, event: Question | Permission, answer: Answer) -> bytes:
        response: dict[str, object]
        if not answer.allow:
            from segue.agents.claude.stream import DENIED

            response = {"behavior": "deny", "message": DENIED + answer.message}
        elif isinstance(event, Question):
            given = {"questions": event.questions, "answers": answer.answers}
            response = {"behavior": "allow", "updatedInput": given}
        else:
            response = {"behavior": "allow", "updatedInput": event.input}
        body = {"subtype": "success", "request_id": event.id, "response": response}
        return msgspec.json.encode({"type": "control_response", "response": body}) + b"\n"

    def evidence(self, request: Request, place: RunPlace, home: Path, reading: TurnState) -> Evidence:
        """Where the requested session is: Claude has reported a crash as "not found". If the output has no
        end, the answer at the end of the session; but not if a form was asked for, which only the output has.
        """
        found, session = {}, request.start.session
        if reading.end is None and reading.session_id is not None and request.schema is None:
            written = session_format.find_file(home, reading.session_id, request.cwd)
            found["answered"] = session_format.last_answer(written, place.started_ms) if written else ""
        if session is not None:
            path = session_format.find_file(home, session, request.cwd)
            here = path is not None and path.parent == session_format.project_folder(home, request.cwd)
            found["session"] = "nowhere" if path is None else "here" if here else "elsewhere"
        return found

    def conclude(self, ended: Ended) -> Outcome:
        from segue.agents.claude.verdict import conclude  # not needed before Claude starts

        return conclude(ended)

    def rehearse(self, model: ModelAddress, home: Path) -> Pointing | None:
        env = {
            "ANTHROPIC_BASE_URL": model.url,
            "ANTHROPIC_API_KEY": model.key,
            "CLAUDE_CONFIG_DIR": str(home),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "DISABLE_TELEMETRY": "1",
            "IS_SANDBOX": "1",
        }
        if model.retries is not None:
            env["CLAUDE_CODE_MAX_RETRIES"] = str(model.retries)
        return Pointing(env=env, fence={"CLAUDE_CODE_PROVIDER_MANAGED_BY_HOST": "1"})


@cache
def _parser() -> Callable[[bytes], Sequence[Event]]:
    """Loaded when Claude prints its first line, together with what its end needs: it delays neither."""
    from segue.agents.claude import verdict  # noqa: F401 - only to load it
    from segue.agents.claude.stream import parse

    return parse


def _capabilities(version: str | None, help_text: str) -> Capabilities:
    """From the help text and, for what it does not show, from the version."""
    resume = "--resume" in help_text
    snapshot = _is_at_least(version, (2, 1, 325))
    return Capabilities(
        resume=resume,
        fork="--fork-session" in help_text,
        branch=resume,
        choose_id="--session-id" in help_text,
        no_save="--no-session-persistence" in help_text,
        questions="--input-format" in help_text,
        system_prompt="session" if "--system-prompt-snapshot" in help_text else "run",
        usage_scope="run",
        cost_scope="session" if snapshot else "run",
        cwd_scope="any" if snapshot else "same",
        max_turns=True,
        budget="--max-budget-usd" in help_text,
        schema="--json-schema" in help_text,
        unable_to_read=tuple(option for option in _NEEDED_TO_READ if option not in help_text),
        allow_tools=True,
        deny_tools=True,
        tools=tools.TOOLS,
        postures=("default", "read", "edit", "full"),
        compacts=True,
        attachments=FACTS.attachments if "--input-format" in help_text else (),
        keeps_attachments=snapshot,  # 2.1.50 resumes with the word "[image]" instead of the image
    )


def _is_at_least(version: str | None, least: tuple[int, ...]) -> bool:
    return version is not None and version_parts(version) >= least


def _start(request: Request) -> list[str]:
    start = request.start
    chosen = [flag("session-id", checked_uuid(start.new_id))] if start.new_id else []
    match start.mode:
        case "fresh":
            return chosen + ([] if request.save else ["--no-session-persistence"])
        case "resume":
            return [flag("resume", checked_uuid(start.session or ""))]
        case "fork":
            return [flag("resume", checked_uuid(start.session or "")), "--fork-session", *chosen]
        case "branch":
            at = flag("resume-session-at", checked_uuid(start.at or ""))
            return [flag("resume", checked_uuid(start.session or "")), at, "--fork-session", *chosen]


def _mode(request: Request) -> str:
    """The permission mode. ``dontAsk`` would refuse the tool that asks the user, too."""
    asks = request.permission == "read" and request.questions
    return "default" if asks else _MODES[request.permission]


def _closed(request: Request, own: Path) -> list[str]:
    """What makes the posture ``read`` hold whatever the settings files allow."""
    return [
        flag("setting-sources", ""),
        flag("settings", str(own)),
        flag("tools", ",".join(tools.there(request))),
        flag("add-dir", str(request.cwd)),
    ]


def _unread(request: Request, home: Path | None) -> tuple[Said, ...]:
    """The notice about instructions that a new session with the posture ``read`` does not get."""
    if home is None or request.start.mode != "fresh":
        return ()
    from segue.agents.claude.settings import unread_memories

    names = ", ".join(unread_memories(home, request.cwd))
    text = f"with --permission read, Claude does not read {names}"
    return (say(text, "notice.unread_memory", files=names),) if names else ()


def _options(request: Request, *, bare_too: bool) -> list[str]:
    """``bare_too``: a rule for a command with any arguments has to be given without them, too."""
    argv = []
    if request.model:
        argv.append(flag("model", request.model))
    allowed, denied = request.allow_tools, tools.denied(request)
    if bare_too:
        allowed, denied = _and_bare(allowed), _and_bare(denied)
    if allowed:
        argv.append(flag("allowedTools", ",".join(allowed)))
    if denied:
        argv.append(flag("disallowedTools", ",".join(denied)))
    if request.max_turns is not None:
        argv.append(flag("max-turns", str(request.max_turns)))
    if request.budget_usd is not None:
        argv.append(flag("max-budget-usd", str(request.budget_usd)))
    if request.schema is not None:
        argv.append(flag("json-schema", request.schema))
    return argv


def _and_bare(rules: Sequence[str]) -> tuple[str, ...]:
    bare = (f"{rule[:-3]})" for rule in rules if rule.endswith(" *)"))
    return tuple(dict.fromkeys((*rules, *bare)))


def _user_message(prompt: str, attachments: Sequence[AttachedFile]) -> bytes:
    if not prompt:
        raise Misuse("Claude needs a prompt, even when it resumes")
    content = [*map(_block, attachments), {"type": "text", "text": prompt}]
    return msgspec.json.encode({"type": "user", "message": {"role": "user", "content": content}}) + b"\n"


def _block(attached: AttachedFile) -> dict[str, object]:
    """A file as a block of the message. A model answers best if files come before the text."""
    data, media_type = attached.path.read_bytes(), attached.media_type
    if media_type == TEXT:
        source = {"type": "text", "media_type": TEXT, "data": data.decode()}
        return {"type": "document", "source": source, "title": attached.name}
    from base64 import b64encode  # most messages have no files

    source = {"type": "base64", "media_type": media_type, "data": b64encode(data).decode()}
    if media_type == PDF:
        return {"type": "document", "source": source, "title": attached.name}
    return {"type": "image", "source": source}


AGENT = Claude()
