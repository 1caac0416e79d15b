"""What Mistral Vibe really does, shown by running it. Each fact is marked with the versions it holds for.

A start of 3.x costs five seconds of processor time, so a test tells a whole little story.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
import time
import uuid
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from segue.core import events as ev
from segue.core.errors import Misuse
from segue.core.request import Posture
from segue.core.tools import DeniedTools
from segue.runner.attempt import Cancel
from segue.runner.supervisor import Limits
from segue.turns.private_homes import runner_home
from tests.live import planted
from tests.live.harness import Bench, Ran, live
from tests.live.wire import accounted, carried, last_prompt

NEW, OLD = "3.0.2", "2.18.4"
UNKNOWN = "11111111-1111-4111-8111-111111111111"
SECOND = '\n[[models]]\nname = "second-model"\nprovider = "rehearsal"\nalias = "second"\n'
TOUCH = "[[write {0}.w x]][[shell touch {0}.t]][[say done]]"


def failure_of(ran: Ran) -> tuple[str, str | None]:
    assert ran.outcome.failure is not None, ran.outcome
    return ran.outcome.failure.kind, ran.outcome.failure.reason


def made(bench: Bench, stem: str) -> set[str]:
    return {path.suffix for path in bench.cwd.glob(f"{stem}.*")}


def old_folder(bench: Bench, session: str | None) -> Path:
    assert session is not None
    (found,) = bench.home.glob(f"logs/session/session_*_{session[:8]}")
    return found


def new_folder(bench: Bench, session: str | None) -> Path:
    assert session is not None
    return bench.home / "logs" / "session" / "unified" / session


def bare(bench: Bench, *args: str) -> None:
    """The CLI as it is, without what Segue adds."""
    command = [*bench.runtime.command, *args, "--output=streaming"]
    subprocess.run(
        command,
        env=bench.env,
        cwd=bench.cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=90,
        check=True,
    )


def grant(bench: Bench) -> None:
    """A directory whose own settings allow everything."""
    (bench.cwd / ".vibe").mkdir()
    wish = 'bypass_tool_permissions = true\n[tools.write_file]\npermission = "always"\n'
    (bench.cwd / ".vibe" / "config.toml").write_text(wish)


# --- one turn and the next -------------------------------------------------------------------------


@live("vibe", NEW)
def test_turns_resume_one_session_and_usage_equals_the_models_account(bench: Bench) -> None:
    first = ran = bench.attempt("remember number 456", record="recall")
    for prompt, answer, tools in (
        ("[[shell echo one]][[shell echo two]][[say done]]", "done", 2),
        ("what number?", "456", 0),
    ):
        assert ran.outcome.failure is None
        assert ran.outcome.usage == accounted(ran)
        assert ran.outcome.context.used == last_prompt(ran)
        assert (ran.outcome.cost_usd or 0) > 0
        assert ran.outcome.model_turns == len(ran.requests)
        ran = bench.resume(first.outcome.session_id, prompt, record=f"resume-{tools}")
        assert (ran.outcome.text, ran.outcome.tools_run) == (answer, tools)
        assert ran.outcome.session_id == first.outcome.session_id
        assert carried(ran, "remember number 456") == 1
    assert ran.outcome.usage == accounted(ran)
    assert ran.outcome.usage.cache_read
    assert ran.outcome.model == "rehearsal"


@live("vibe", OLD)
def test_the_old_version_forks_on_every_resume_and_only_its_output_replays_the_history(bench: Bench) -> None:
    ids = set()
    ran = bench.attempt("remember number 456", record="recall")
    for prompt, answer, tools in (
        ("[[shell touch a]][[shell touch b]][[say done]]", "done", 2),
        ("what number?", "456", 0),
        ("[[empty]]", "", 0),
    ):
        ids.add(ran.outcome.session_id)
        assert ran.outcome.usage.prompt == accounted(ran).prompt
        assert ran.outcome.usage.output == accounted(ran).output
        assert ran.outcome.usage.cache_read is None  # it does not say
        assert ran.outcome.context.used == last_prompt(ran)
        assert (ran.outcome.cost_usd or 0) > 0
        assert ran.outcome.model_turns == len(ran.requests)
        before = old_folder(bench, ran.outcome.session_id)
        kept = (before / "messages.jsonl").read_bytes()
        ran = bench.resume(ran.outcome.session_id, prompt, permission="full", record=f"resume-{tools}")
        assert (ran.outcome.text, ran.outcome.tools_run) == (answer, tools)
        assert [event.text for event in ran.of(ev.Text)] == [answer]
        assert (len(ran.of(ev.ToolCall)), len(ran.of(ev.ToolResult)), ran.of(ev.Heard)) == (tools, tools, [])
        assert (before / "messages.jsonl").read_bytes() == kept
        assert carried(ran, "remember number 456") == 1
    assert len(ids) == 3
    assert None not in ids
    assert failure_of(ran) == ("model_error", None)
    printed = [event for line in ran.stdout.splitlines() for event in bench.agent.parse(line)]
    heard = [event.text for event in printed if isinstance(event, ev.Heard)]
    assert (heard[0], heard[-1], len(heard)) == ("remember number 456", "[[empty]]", 4)
    assert sum(isinstance(event, ev.ToolCall) for event in printed) == 2  # replayed, but not told


@live("vibe")
def test_what_it_thinks_calls_and_is_refused_is_seen(bench: Bench) -> None:
    (bench.cwd / "r.txt").write_text("the-content")
    ran = bench.attempt("[[think let me see]][[read r.txt]][[write w.txt x]][[say done]]", record="tools")
    assert [event.text for event in ran.of(ev.Thinking)] == ["let me see"]
    (read, write), (read_end, write_end) = ran.of(ev.ToolCall), ran.of(ev.ToolResult)
    assert (read.id, write.id) == (read_end.id, write_end.id)
    assert "read" in read.name
    assert "write" in write.name
    assert (read_end.ok, read_end.denied) == (True, False)
    assert "the-content" in read_end.output
    assert (write_end.ok, write_end.denied) == (False, True)
    denied = DeniedTools(1, (write.name,))
    assert (ran.outcome.text, ran.outcome.tools_run, ran.outcome.tools_denied) == ("done", 1, denied)
    assert ran.of(ev.Unknown) == []


# --- what it may do --------------------------------------------------------------------------------


@pytest.mark.soak
@live("vibe")
def test_each_turn_has_its_own_posture_whatever_the_session_began_under(bench: Bench) -> None:
    expected: tuple[tuple[Posture, set[str]], ...] = (
        ("full", {".w", ".t"}),
        ("default", set()),
        ("edit", {".w"}),
        ("read", set()),
        ("full", {".w", ".t"}),
    )
    session = None
    for number, (posture, left) in enumerate(expected):
        prompt = TOUCH.format(f"f{number}")
        if session is None:
            ran = bench.attempt(prompt, permission=posture)
        else:
            ran = bench.resume(session, prompt, permission=posture)
        assert ran.outcome.failure is None
        assert made(bench, f"f{number}") == left, posture
        session = ran.outcome.session_id


POSTURES = [
    pytest.param("default", set(), marks=pytest.mark.soak),
    pytest.param("edit", {".w"}),
    pytest.param("read", set(), marks=pytest.mark.soak),
]


@live("vibe")
@pytest.mark.parametrize(("posture", "left"), POSTURES)
def test_a_posture_is_the_same_fresh_and_resumed(bench: Bench, posture: Posture, left: set[str]) -> None:
    first = bench.attempt(TOUCH.format("a"), permission=posture)
    bench.resume(first.outcome.session_id, TOUCH.format("b"), permission=posture)
    assert (made(bench, "a"), made(bench, "b")) == (left, left)


@pytest.mark.fact
@live("vibe", OLD)
def test_the_old_version_would_run_any_command_that_begins_harmlessly(bench: Bench) -> None:
    """Under every profile of its own; so Segue empties its list of harmless commands."""
    outside = bench.cwd.parent / "outside.txt"
    prompt = f"[[shell echo x > here.txt]][[write {outside} x]][[say done]]"
    ran = bench.attempt(prompt, permission="edit")
    assert (ran.outcome.tools_run, ran.outcome.tools_denied) == (0, DeniedTools(2, ("bash", "write_file")))
    assert not (bench.cwd / "here.txt").exists()
    assert not outside.exists()
    bare(bench, "-p", "[[shell echo x > here.txt]][[say done]]", "--agent=plan")
    assert (bench.cwd / "here.txt").exists()


@pytest.mark.fact
@pytest.mark.soak
@live("vibe", NEW)
def test_the_new_version_by_itself_accepts_edits_and_keeps_the_profile_a_session_began_under(
    bench: Bench,
) -> None:
    """Why every call names the profile and disables the others."""
    bare(bench, "-p", TOUCH.format("a"))
    assert made(bench, "a") == {".w"}
    session = bench.attempt(TOUCH.format("b"), permission="full").outcome.session_id
    bare(bench, "-p", TOUCH.format("c"), "--agent=ask", f"--resume={session}")
    assert made(bench, "c") == {".w", ".t"}


@pytest.mark.fact
@live("vibe", NEW)
def test_trust_would_let_a_directory_grant_itself_everything(bench: Bench) -> None:
    grant(bench)
    bare(bench, "-p", TOUCH.format("a"), "--agent=ask", "--trust")
    assert made(bench, "a") == {".w", ".t"}


@live("vibe")
def test_a_directory_cannot_grant_itself_anything(bench: Bench) -> None:
    grant(bench)
    ran = bench.attempt(TOUCH.format("a"))
    names = tuple(call.name for call in ran.of(ev.ToolCall))
    assert (ran.outcome.text, ran.outcome.tools_denied) == ("done", DeniedTools(2, names))
    assert made(bench, "a") == set()


@live("vibe")
def test_tools_can_be_allowed_and_denied_and_nothing_saved(bench: Bench) -> None:
    ran = bench.attempt(
        TOUCH.format("a"), permission="edit", allow_tools=("bash",), deny_tools=("write_file",), save=False
    )
    assert (ran.outcome.text, made(bench, "a")) == ("done", {".t"})
    assert ran.outcome.session_id is None
    assert list(bench.home.glob("logs/session/session_*")) == []
    assert list(bench.home.glob("logs/session/unified/*")) == []


def widen(bench: Bench) -> None:
    """Settings of the user that always allow the shell, writing and a server's tool."""
    program, *arguments = planted.server(bench.cwd)
    always = [f'[tools.{tool}]\npermission = "always"' for tool in ("write_file", "edit", "planted_plant")]
    shell = '[tools.bash]\npermission = "always"\nallowlist = ["touch", "echo"]'
    server = (
        f'[[mcp_servers]]\nname = "planted"\ntransport = "stdio"\ncommand = "{program}"\n'
        f"args = {msgspec.json.encode(arguments).decode()}"
    )
    config = bench.home / "config.toml"
    config.write_text("\n".join((config.read_text(), server, shell, *always)))


BEYOND = ("ls; touch a", "ls && touch b", "ls > c", "ls | tee d", "touch e", "ls $(touch f)", "lsof", "cat x")
"""Commands that a rule for ``ls`` does not allow."""


def left(bench: Bench) -> set[str]:
    return {path.name for path in bench.cwd.iterdir()} - {planted.STARTED}


def program(code: str) -> str:
    """A call of the 3.x tool by which the model calls others in a program of its own."""
    return f"[[tool run_typescript {msgspec.json.encode({'code': code}).decode()}]]"


PROGRAMS = (
    "await tools.mcp_planted.plant({})",
    "await tools.process.start({command: 'touch started'})",
    "await tools.file_system.bash({command: 'touch shell'})",
)
CALLS = "".join(map(program, PROGRAMS))


@pytest.mark.fact
@pytest.mark.soak
@live("vibe", NEW)
def test_where_all_is_allowed_a_program_of_the_models_reaches_every_tool(bench: Bench) -> None:
    widen(bench)
    bench.attempt(f"{CALLS}[[say done]]", permission="full")
    assert left(bench) >= {planted.WROTE, "started", "shell"}


@live("vibe")
def test_under_read_nothing_runs_that_the_users_settings_allow(bench: Bench) -> None:
    widen(bench)
    ran = bench.attempt(f"[[tool planted_plant {{}}]]{CALLS}{TOUCH.format('a')}", permission="read")
    assert (ran.outcome.failure, left(bench)) == (None, set())
    bench.resume(ran.outcome.session_id, TOUCH.format("b"), permission="read")
    assert left(bench) == set()


@pytest.mark.soak
@live("vibe", NEW)
def test_under_read_a_servers_tool_runs_if_a_rule_names_it(bench: Bench) -> None:
    widen(bench)
    bench.attempt(f"{CALLS}[[say done]]", permission="read", allow_tools=("planted_plant",))
    assert left(bench) == {planted.WROTE}


@live("vibe", NEW)
def test_under_read_a_rule_runs_its_commands_and_nothing_else_whatever_is_planted(bench: Bench) -> None:
    widen(bench)
    (bench.cwd / "seen.txt").touch()
    shells = "".join(f"[[shell {command}]]" for command in BEYOND)
    prompt = f"[[write w.txt x]]{shells}[[shell ls -a]][[result]]"
    bench.attempt(f"{CALLS}[[say done]]", permission="read", allow_tools=("bash(ls)",))
    assert left(bench) == {"seen.txt"}
    ran = bench.attempt(prompt, permission="read", allow_tools=("bash(ls)",))
    assert "seen.txt" in ran.outcome.text
    assert left(bench) == {"seen.txt"}
    assert ran.outcome.tools_denied is not None
    assert (ran.outcome.tools_run, ran.outcome.tools_denied.count) == (1, len(BEYOND) + 1)


@live("vibe", OLD)
def test_the_old_version_refuses_what_it_cannot_narrow(bench: Bench) -> None:
    with pytest.raises(Misuse, match="cannot allow bash with --permission read"):
        bench.attempt("hello", permission="read", allow_tools=("bash",))


@pytest.mark.soak
@live("vibe", NEW)
def test_a_denied_tool_stays_denied_where_everything_else_is_allowed(bench: Bench) -> None:
    ran = bench.attempt(TOUCH.format("a"), permission="full", deny_tools=("write_file",))
    assert (ran.outcome.text, made(bench, "a")) == ("done", {".t"})


@pytest.mark.soak
@live("vibe", NEW, OLD)
def test_the_model_is_chosen_and_the_new_version_keeps_it_for_the_session(bench: Bench) -> None:
    config = bench.home / "config.toml"
    config.write_text(config.read_text() + SECOND)
    first = bench.attempt("remember number 1", model="second")
    assert [request.model for request in first.requests] == ["second-model"]
    assert first.outcome.model == "second"
    assert first.outcome.cost_usd is None  # its settings have no price for it
    second = bench.resume(first.outcome.session_id, "what number?", model="rehearsal")
    kept = bench.version == NEW
    assert [request.model for request in second.requests] == ["second-model" if kept else "rehearsal"]
    assert second.outcome.model == ("second" if kept else "rehearsal")


@pytest.mark.soak
@live("vibe", NEW, OLD)
def test_a_limit_of_turns_ends_it_as_a_timeout(bench: Bench) -> None:
    ran = bench.attempt("[[read r.txt]][[say done]]", max_turns=1)
    assert failure_of(ran) == ("timeout", None)
    assert ran.outcome.usage.prompt == accounted(ran).prompt
    assert ran.outcome.session_id is not None


@pytest.mark.soak
@live("vibe")
def test_a_budget_ends_it_as_a_timeout(bench: Bench) -> None:
    ran = bench.attempt("[[read r.txt]][[say done]]", budget_usd=0.000001)
    assert failure_of(ran) == ("timeout", None)


# --- sessions that cannot be resumed ---------------------------------------------------------------


@pytest.mark.soak
@live("vibe", NEW)
def test_another_directory_resumes_and_damage_or_loss_is_rejected(bench: Bench, tmp_path: Path) -> None:
    first = bench.attempt("remember number 456")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert bench.resume(first.outcome.session_id, "what number?", cwd=elsewhere).outcome.text == "456"
    folder = new_folder(bench, first.outcome.session_id)
    (folder / "CURRENT").write_text("")
    damaged = bench.resume(first.outcome.session_id, "what number?")
    assert failure_of(damaged) == ("session_rejected", "corrupt")
    shutil.rmtree(folder)
    gone = bench.resume(first.outcome.session_id, "what number?")
    assert failure_of(gone) == ("session_rejected", "not_found")
    assert gone.outcome.session_id is None
    assert damaged.requests == gone.requests == []


@live("vibe", OLD)
def test_the_old_version_takes_any_damage_for_a_missing_session(bench: Bench, tmp_path: Path) -> None:
    first = bench.attempt("remember number 456")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert bench.resume(first.outcome.session_id, "what number?", cwd=elsewhere).outcome.text == "456"
    messages = old_folder(bench, first.outcome.session_id) / "messages.jsonl"
    whole = messages.read_bytes()
    for damage in (whole[:-10], b"garbage\n" + whole, b""):
        messages.write_bytes(damage)
        damaged = bench.resume(first.outcome.session_id, "what number?", record="rejected")
        assert failure_of(damaged) == ("session_rejected", "corrupt")
    shutil.rmtree(messages.parent)
    gone = bench.resume(first.outcome.session_id, "what number?")
    assert failure_of(gone) == ("session_rejected", "not_found")
    assert (gone.outcome.session_id, gone.requests) == (None, [])


@pytest.mark.fact
@live("vibe")
def test_an_unknown_session_is_rejected(bench: Bench) -> None:
    ran = bench.resume(UNKNOWN, "hello")
    assert failure_of(ran) == ("session_rejected", "not_found")
    assert (ran.outcome.session_id, ran.requests) == (None, [])


@pytest.mark.soak
@live("vibe", NEW)
def test_a_session_of_the_old_version_is_taken_in_under_a_new_id(bench: Bench) -> None:
    old = str(uuid.uuid4())
    folder = bench.home / "logs" / "session" / f"session_20260101_120000_{old[:8]}"
    folder.mkdir(parents=True)
    meta = {"session_id": old, "environment": {"working_directory": str(bench.cwd)}}
    (folder / "meta.json").write_bytes(msgspec.json.encode(meta))
    told = [
        {"role": "user", "content": "remember number 456"},
        {"role": "assistant", "content": "Noted: 456."},
    ]
    (folder / "messages.jsonl").write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in told))
    ran = bench.resume(old, "what number?")
    assert (ran.outcome.failure, ran.outcome.text) == (None, "456")
    assert ran.outcome.session_id not in (None, old)


# --- the model fails -------------------------------------------------------------------------------

FAILURES = {
    "[[error 401]]": "auth",
    "[[error 429 retry-after 1]]": "rate_limited",
    "[[error 500]]": "model_error",
    "[[context-full]]": "context_exceeded",
}
USUAL = ("[[error 429 retry-after 1]]", "[[context-full]]")
"""The failures that are tested without ``--soak``."""
MORE = {
    "[[drop]]": "network",
    "[[malformed]]": "model_error",
    "[[empty]]": "model_error",
    "[[error 400]]": "model_error",
    "[[error 403]]": "auth",
    "[[error 503]]": "model_error",
    "[[error 529]]": "model_error",
}


def fails(bench: Bench, prompt: str, kind: str) -> Ran:
    ran = bench.attempt(prompt, record="drop" if prompt == "[[drop]]" else None)
    assert failure_of(ran) == (kind, None)
    assert ran.outcome.text == ""
    assert ran.outcome.session_id is not None
    return ran


@pytest.mark.fact
@live("vibe")
@pytest.mark.parametrize(
    ("prompt", "kind"),
    [pytest.param(*each, marks=[] if each[0] in USUAL else [pytest.mark.soak]) for each in FAILURES.items()],
)
def test_each_failure_of_the_model_has_its_kind(bench: Bench, prompt: str, kind: str) -> None:
    ran = fails(bench, prompt, kind)
    failure = ran.outcome.failure
    assert failure is not None
    assert "keyring" not in failure.message
    if "429" in prompt and bench.version == NEW:
        assert failure.until is not None
        assert 0 < time.time() * 1000 - failure.until + 2_000 < 60_000
    if prompt == "[[error 500]]":
        assert (failure.status, failure.retryable) == (500, True)


@pytest.mark.soak
@live("vibe")
@pytest.mark.parametrize(("prompt", "kind"), MORE.items())
def test_more_failures_of_the_model(bench: Bench, prompt: str, kind: str) -> None:
    fails(bench, prompt, kind)


@pytest.mark.soak
@live("vibe")
def test_a_service_that_recovers_is_no_failure(bench: Bench) -> None:
    ran = bench.attempt("[[error 429 times 1]][[say at last]]")
    assert (ran.outcome.failure, ran.outcome.text) == (None, "at last")


@pytest.mark.soak
@live("vibe")
def test_nobody_listening_is_a_network_failure_and_no_key_is_auth(bench: Bench) -> None:
    config = bench.home / "config.toml"
    config.write_text(config.read_text().replace(bench.model.url, "http://127.0.0.1:9"))
    assert failure_of(bench.attempt("hello")) == ("network", None)
    assert failure_of(bench.attempt("hello", env={"REHEARSAL_API_KEY": ""})) == ("auth", None)


@pytest.mark.soak
@live("vibe")
def test_a_failed_prompt_stays_in_the_session_of_the_new_version_only(bench: Bench) -> None:
    first = bench.attempt("remember number 456")
    assert failure_of(bench.resume(first.outcome.session_id, "REFUSED [[error 401]]")) == ("auth", None)
    after = bench.resume(first.outcome.session_id, "what number?")
    assert after.outcome.text == "456"
    assert carried(after, "REFUSED") == (1 if bench.version == NEW else 0)


# --- the process is ended --------------------------------------------------------------------------


@live("vibe")
def test_a_cancelled_turn_leaves_nothing_running_and_its_tool_counts(bench: Bench) -> None:
    cancel = Cancel()

    bench.when_asked("sleep 60", cancel, after_s=2)
    ran = bench.attempt("[[shell sleep 60]][[say done]]", permission="full", cancel=cancel)
    assert (ran.outcome.status, ran.outcome.tools_run) == ("cancelled", 1)
    assert bench.alive() == []
    if bench.version == NEW:
        assert ran.outcome.session_id is not None
        assert ran.outcome.usage == accounted(ran)


@pytest.mark.soak
@live("vibe")
def test_killed_in_mid_tool_it_resumes_at_once_and_the_tool_counts(bench: Bench) -> None:
    first = bench.attempt("remember number 456")
    bench.when_asked("UNANSWERED", lambda: bench.signal(signal.SIGKILL), after_s=2)
    prompt = "UNANSWERED [[shell sleep 60]][[say done]]"
    ran = bench.resume(first.outcome.session_id, prompt, permission="full")
    assert failure_of(ran) == ("killed", None)
    assert ran.outcome.tools_run == 1
    after = bench.resume(first.outcome.session_id, "what number?")
    assert after.outcome.text == "456"
    if bench.version == NEW:
        assert ran.outcome.usage == accounted(ran)
        assert carried(after, "UNANSWERED") == 1
    else:
        assert carried(after, "UNANSWERED") == 0


@pytest.mark.soak
@live("vibe")
def test_a_time_limit_ends_the_turn_as_a_timeout(bench: Bench) -> None:
    ran = bench.attempt("[[hang]]", limits=Limits(time_s=10))
    assert failure_of(ran) == ("timeout", None)
    assert bench.alive() == []


@pytest.mark.soak
@live("vibe")
def test_terminated_by_somebody_else_it_was_killed(bench: Bench) -> None:
    bench.when_asked("hang", lambda: bench.signal(signal.SIGTERM))
    ran = bench.attempt("[[hang]]")
    assert failure_of(ran) == ("killed", None)


def two_writers(bench: Bench, slowly: str, cancel: Cancel | None = None) -> tuple[Ran, Ran]:
    """A slow turn, and a quick one on the same session while it runs."""
    first = bench.attempt("remember number 456")
    slow: list[Ran] = []
    begun = threading.Event()

    def other() -> None:
        session = first.outcome.session_id
        slow.append(bench.resume(session, f"SLOW {slowly}", cancel=cancel))

    bench.when_asked("SLOW", begun.set, after_s=0)
    thread = threading.Thread(target=other)
    thread.start()
    assert begun.wait(60)
    quick = bench.resume(first.outcome.session_id, "what number?")
    if cancel is not None:
        cancel()
    thread.join(60)
    return slow[0], quick


@pytest.mark.soak
@live("vibe", NEW)
def test_a_second_writer_is_refused_as_busy(bench: Bench) -> None:
    slow, quick = two_writers(bench, "[[hang]]", Cancel())
    assert slow.outcome.status == "cancelled"
    assert failure_of(quick) == ("session_busy", None)
    assert quick.outcome.session_id is None


@pytest.mark.fact
@live("vibe", OLD)
def test_two_runs_in_one_home_cannot_tell_their_sessions_apart(bench: Bench) -> None:
    """Both succeed in forks of their own; the one that saw both appear refuses to guess."""
    slow, quick = two_writers(bench, "[[slow 8 20]][[say one two three four five six seven eight nine ten]]")
    assert (slow.outcome.failure, quick.outcome.failure) == (None, None)
    assert slow.outcome.session_id is None


@live("vibe", OLD)
def test_runs_in_homes_of_their_own_know_their_sessions_and_resume_each_others(
    bench: Bench, tmp_path: Path
) -> None:
    """Although the account's config.toml, as the CLI writes it, names the account's place for sessions."""
    shared = bench.home / "logs" / "session"
    config = bench.home / "config.toml"
    config.write_text(config.read_text() + f'\n[session_logging]\nsave_dir = "{shared}"\n')
    root = tmp_path / "runners"
    with runner_home(root, bench.home) as one:
        first = moved(bench, one).attempt("remember number 456")
        with runner_home(root, bench.home, first.outcome.session_id) as two:
            second = moved(bench, two).resume(first.outcome.session_id, "what number?")
    assert second.outcome.text == "456"
    assert None not in (first.outcome.session_id, second.outcome.session_id)
    assert first.outcome.session_id != second.outcome.session_id
    assert not shared.exists()


def moved(bench: Bench, home: Path) -> Bench:
    runs = bench.runs / home.name
    return replace(bench, home=home, runs=runs, env={**bench.env, "VIBE_HOME": str(home)})


# --- large prompts ---------------------------------------------------------------------------------


@live("vibe", OLD)
def test_the_old_version_takes_what_one_argument_can_hold(bench: Bench) -> None:
    limit = 131_071
    ran = bench.attempt("what number? ".ljust(limit, "x"))
    assert ran.outcome.text == "I do not know any number."
    assert carried(ran, "x" * 131_000) == 1
    with pytest.raises(Misuse, match="131,071"):
        bench.attempt("x" * (limit + 1))
    assert bench.attempt("--version remember number 7").outcome.text == "Noted: 7."


@pytest.mark.soak
@live("vibe", NEW)
def test_the_new_version_takes_a_mebibyte_but_compacts_what_exceeds_its_threshold(bench: Bench) -> None:
    ran = bench.attempt("x " * 100_000)
    assert ran.outcome.failure is None
    assert carried(ran, "x " * 90_000) == 1
    whole = bench.attempt("x" * 1_048_576)
    assert whole.outcome.failure is None
    assert [request.side for request in whole.requests] == [True, False]
    with pytest.raises(Misuse, match="1,048,576"):
        bench.attempt("x" * 1_048_577)
