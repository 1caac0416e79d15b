"""What Codex really does, shown by running it. Each fact is marked with the versions it holds for."""

import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.agents.codex.adapter import AGENT, REHEARSED_MODEL
from segue.core import events as ev
from segue.core.errors import Misuse
from segue.core.request import Posture, Request, Start
from segue.core.tools import DeniedTools
from segue.core.usage import Totals
from segue.runner.attempt import Cancel
from segue.runner.supervisor import Limits
from tests.live import planted
from tests.live.harness import Bench, Ran, live
from tests.live.wire import accounted, carried, last_prompt

NEW, OLD = "0.166.0", "0.104.0"


def rollout(bench: Bench, session: str | None) -> Path:
    (found,) = bench.home.glob(f"sessions/*/*/*/rollout-*-{session}.jsonl")
    return found


def bare(bench: Bench, prompt: str, *args: str) -> subprocess.CompletedProcess[bytes]:
    """The CLI as somebody would call it without Segue, in the same clean environment."""
    argv = [*bench.runtime.command, "exec", *args, "--json", "--skip-git-repo-check", "-"]
    return subprocess.run(
        argv,
        env=bench.env,
        cwd=bench.cwd,
        input=prompt.encode(),
        capture_output=True,
        check=False,
        timeout=60,
    )


def repository(bench: Bench) -> None:
    env = {"PATH": bench.env["PATH"], "HOME": str(bench.home)}
    subprocess.run(["git", "init", "-q", str(bench.cwd)], env=env, check=True, timeout=30)


def failure_of(ran: Ran) -> tuple[str, str | None]:
    assert ran.outcome.failure is not None, ran.stdout.decode()[-2000:]
    assert ran.outcome.text == ""
    return ran.outcome.failure.kind, ran.outcome.failure.reason


# --- one turn and the next -------------------------------------------------------------------------


@live("codex")
def test_a_turn_is_answered_and_its_session_resumed(bench: Bench) -> None:
    first = bench.attempt("remember number 456", record="recall")
    assert first.outcome.failure is None
    assert first.kinds[0] == "session"
    assert uuid.UUID(first.outcome.session_id).version == 7
    assert (first.outcome.model, first.outcome.model_turns) == (REHEARSED_MODEL, 1)
    second = bench.resume(first.outcome.session_id, "what number?", record="resume")
    assert (second.outcome.text, second.outcome.session_id) == ("456", first.outcome.session_id)
    assert carried(second, "remember number 456") == 1
    body = second.requests[-1].body
    assert body is not None
    assert body["prompt_cache_key"] == first.outcome.session_id


@live("codex", NEW, OLD)
@pytest.mark.parametrize("based", [True, False], ids=["stored base", "unknown base"])
def test_usage_is_this_turns_and_equals_the_models_account(bench: Bench, based: bool) -> None:
    """The CLI counts over the whole thread; where no base was stored, the rollout knows it."""
    ran = bench.attempt("remember number 1")
    assert ran.outcome.usage == accounted(ran)
    for prompt in ("[[shell echo one]][[shell echo two]][[say done]]", "remember number 2", "what number?"):
        base = ran.outcome.totals if based else Totals()
        ran = bench.resume(ran.outcome.session_id, prompt, base=base)
        assert ran.outcome.failure is None
        assert ran.outcome.usage == accounted(ran)
        assert ran.outcome.context.used == last_prompt(ran)
        assert ran.outcome.context.window == 258_400
        assert ran.outcome.model_turns == len(ran.requests)
    counted = [line for line in ran.stdout.splitlines() if b"turn.completed" in line][-1]
    assert msgspec.json.decode(counted)["usage"]["output_tokens"] > (ran.outcome.usage.output or 0)


@live("codex", NEW, OLD)
def test_usage_of_a_failed_turn_is_known_from_the_rollout(bench: Bench) -> None:
    first = bench.attempt("remember number 1")
    ran = bench.resume(first.outcome.session_id, "[[shell echo hi]][[error 500]]", base=first.outcome.totals)
    assert failure_of(ran) == ("model_error", None)
    assert ran.outcome.usage == accounted(ran)
    assert (ran.outcome.usage.output or 0) > 0
    after = bench.resume(first.outcome.session_id, "what number?", base=ran.outcome.totals)
    assert after.outcome.usage == accounted(after)


@live("codex", NEW, OLD)
def test_a_compaction_is_counted(bench: Bench) -> None:
    """Only the old version shows it in the stream."""
    small = ("-c", "model_auto_compact_token_limit=5000")
    first = bench.attempt("remember number 1 " + "x" * 20_000, native_args=small)
    ran = bench.resume(first.outcome.session_id, "what number?", base=first.outcome.totals, native_args=small)
    assert any(request.side for request in ran.requests)
    assert ran.outcome.usage == accounted(ran, side=True)
    assert ran.outcome.context.used == last_prompt(ran)
    assert ("compacted" in ran.kinds) is (bench.version == OLD)


@pytest.mark.fact
@live("codex")
def test_thinking_is_told_apart_from_the_answer(bench: Bench) -> None:
    ran = bench.attempt("[[think let me see]][[say the answer]]", record="thinking")
    assert [event.text for event in ran.of(ev.Thinking)] == ["let me see"]
    assert ran.outcome.text == "the answer"


@live("codex")
def test_no_save_leaves_no_session_and_no_id(bench: Bench) -> None:
    ran = bench.attempt("remember number 1", save=False)
    assert ran.outcome.failure is None
    assert ran.outcome.usage == accounted(ran)
    assert ran.outcome.session_id is None
    assert list(bench.home.glob("sessions/*/*/*/*")) == []


@pytest.mark.fact
@live("codex", NEW)
def test_a_resumed_session_is_written_in_spite_of_ephemeral(bench: Bench) -> None:
    first = bench.attempt("remember number 1")
    session = first.outcome.session_id
    assert session is not None
    size = rollout(bench, session).stat().st_size
    assert bare(bench, "what number?", "resume", session, "--ephemeral").returncode == 0
    assert rollout(bench, session).stat().st_size > size
    with pytest.raises(Misuse, match="--no-save when it resumes"):
        bench.resume(session, "what number?", save=False)


# --- tools and what they may do --------------------------------------------------------------------


@live("codex")
def test_a_tool_call_and_its_result_are_seen(bench: Bench) -> None:
    ran = bench.attempt("[[say first]][[shell echo hello; exit 3]][[say done]]", record="tool")
    (call,), (result,) = ran.of(ev.ToolCall), ran.of(ev.ToolResult)
    assert (call.name, call.id) == ("shell", result.id)
    assert (result.ok, result.exit_code, result.output) == (False, 3, "hello\n")
    assert [event.text for event in ran.of(ev.Text)] == ["first", "done"]
    assert (ran.outcome.text, ran.outcome.tools_run, ran.outcome.tools_denied) == ("done", 1, DeniedTools())


PATCH = """[[shell apply_patch <<'EOF'
*** Begin Patch
*** Add File: new.txt
+hello
*** End Patch
EOF
]][[say done]]"""


@live("codex")
def test_a_patch_is_a_tool_of_its_own_and_refused_where_nothing_may_be_written(bench: Bench) -> None:
    refused = bench.attempt(PATCH)
    assert not (bench.cwd / "new.txt").exists()
    assert (refused.outcome.tools_run, refused.outcome.tools_denied) == (0, DeniedTools(1, ("shell",)))
    ran = bench.attempt(PATCH, permission="edit", record="patch")
    assert (bench.cwd / "new.txt").read_text() == "hello\n"
    assert [(event.name, event.ok) for event in ran.of(ev.ToolResult)] == [("apply_patch", True)]
    assert (ran.outcome.tools_run, ran.outcome.tools_denied) == (1, DeniedTools())


@pytest.fixture
def outside() -> Iterator[Path]:
    """A directory that is neither the working directory nor a temporary one, which Codex lets write."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as path:
        yield Path(path)


@live("codex", NEW, OLD)
@pytest.mark.parametrize(
    ("permission", "inside", "beyond"),
    [("default", False, False), ("read", False, False), ("edit", True, False), ("full", True, True)],
)
def test_a_posture_is_the_same_on_a_resumed_turn(
    bench: Bench, outside: Path, permission: str, inside: bool, beyond: bool
) -> None:
    def turn(name: str) -> str:
        return f"[[shell touch {name}]][[shell touch {outside / name}]][[say done]]"

    first = bench.attempt(turn("first"), permission=permission)
    second = bench.resume(first.outcome.session_id, turn("second"), permission=permission)
    for ran, name in ((first, "first"), (second, "second")):
        assert ran.outcome.text == "done"
        assert ((bench.cwd / name).exists(), (outside / name).exists()) == (inside, beyond)


@pytest.mark.fact
@live("codex")
def test_the_model_of_a_rehearsal_is_one_that_codex_knows(bench: Bench) -> None:
    ran = bench.attempt("remember number 1")
    assert ran.outcome.text == "Noted: 1."
    assert not [event.text for event in ran.of(ev.Notice)]
    assert b"Model metadata" not in ran.stdout


def unseen(bench: Bench, prompt: str, **more: Any) -> Ran:
    """A run whose stream does not show the command: one that fails at once, unless the machine is slow."""
    for _ in range(6):
        ran = bench.attempt(prompt, **more)
        if ran.of(ev.ToolCall) == [] == ran.of(ev.ToolResult):
            return ran
    assert bench.version == NEW, "the stream showed the command each time"
    return ran  # shown as a command that failed: the new version's is known all the same


@live("codex", NEW, OLD)
def test_what_the_sandbox_stops_at_once_is_counted_although_the_stream_is_silent(bench: Bench) -> None:
    ran = unseen(bench, "[[shell touch file]][[say done]]", record="denied")
    assert (ran.outcome.text, ran.outcome.failure) == ("done", None)
    shown = len(ran.of(ev.ToolCall))
    assert (ran.outcome.tools_run, ran.outcome.tools_denied) == (shown, DeniedTools(1, ("shell",)))


@pytest.mark.fact
@live("codex", NEW, OLD)
def test_what_the_sandbox_stops_later_has_run_and_was_refused(bench: Bench) -> None:
    """The old version's sandbox says "Permission denied", as any command might: that is no sign of it."""
    ran = bench.attempt("[[shell sleep 1; touch file]][[say done]]")
    (result,) = ran.of(ev.ToolResult)
    assert (result.ok, result.exit_code) == (False, 1)
    denied = DeniedTools(1, ("shell",)) if bench.version == NEW else DeniedTools()
    assert (ran.outcome.tools_run, ran.outcome.tools_denied) == (1, denied)
    assert not (bench.cwd / "file").exists()


@live("codex", NEW, OLD)
def test_a_command_that_wrote_before_it_was_stopped_has_run(bench: Bench, outside: Path) -> None:
    """The stream is silent about it, as if nothing had happened."""
    ran = unseen(bench, f"[[shell touch file; touch {outside}/x]][[say done]]", permission="edit")
    assert (bench.cwd / "file").exists()
    assert (ran.outcome.tools_run, ran.outcome.tools_denied) == (1, DeniedTools(1, ("shell",)))


@pytest.mark.fact
@live("codex")
def test_nobody_is_asked_for_more_than_the_sandbox_allows(bench: Bench) -> None:
    wish = '{"cmd":"touch file","sandbox_permissions":"require_escalated","justification":"please"}'
    ran = bench.attempt(f"[[tool exec_command {wish}]][[result]]")
    assert "approval policy is Never" in ran.outcome.text
    assert not (bench.cwd / "file").exists()
    assert (ran.outcome.tools_run, ran.outcome.tools_denied) == (0, DeniedTools(1, ("shell",)))


@live("codex")
def test_native_arguments_do_not_widen_the_sandbox(bench: Bench) -> None:
    wide = ("-c", 'sandbox_mode="danger-full-access"')
    first = bench.attempt("[[shell touch one]][[say done]]", native_args=wide)
    bench.resume(first.outcome.session_id, "[[shell touch two]][[say done]]", native_args=wide)
    assert list(bench.cwd.iterdir()) == []


@live("codex", OLD)
@pytest.mark.parametrize("native", [(), ("--profile", "wide"), ("-c", 'profile="wide"')], ids=" ".join)
def test_a_profile_does_not_widen_the_sandbox(bench: Bench, native: tuple[str, ...]) -> None:
    """The new version takes no profile from these settings."""
    config = bench.home / "config.toml"
    chosen = "" if native else 'profile = "wide"\n'
    wide = '[profiles.wide]\nsandbox_mode = "danger-full-access"\n'
    config.write_text(f"{chosen}{config.read_text()}\n{wide}")
    first = bench.attempt("[[shell touch one]][[say done]]", permission="read", native_args=native)
    bench.resume(first.outcome.session_id, "[[shell touch two]][[say done]]", native_args=native)
    assert list(bench.cwd.iterdir()) == []
    again = bench.resume(first.outcome.session_id, "[[shell touch three]][[say done]]", permission="edit")
    assert (again.outcome.failure, [each.name for each in bench.cwd.iterdir()]) == (None, ["three"])


@live("codex", NEW, OLD)
def test_a_trusted_repository_stays_read_only_unless_asked(bench: Bench) -> None:
    """The new version trusts a git repository once it was let write there, and then lets itself write."""
    repository(bench)
    first = bench.attempt("[[shell touch made]][[say done]]", permission="edit")
    trusted = 'trust_level = "trusted"' in (bench.home / "config.toml").read_text()
    assert trusted is (bench.version == NEW)
    bare(bench, "[[shell touch unasked]][[say done]]")
    assert (bench.cwd / "unasked").exists() is trusted
    bench.attempt("[[shell touch fresh]][[say done]]")
    bench.resume(first.outcome.session_id, "[[shell touch resumed]][[say done]]")
    assert sorted(path.name for path in bench.cwd.iterdir()) == [".git", "made"] + ["unasked"] * trusted


# --- what its own files would add ------------------------------------------------------------------

RULES = 'prefix_rule(pattern=["touch"], decision="allow")\n'
PLANT = "[[tool mcp__planted/plant {}]][[tool mcp__planted__plant {}]]"
"""A call of the planted server's tool, as the new version names it and as the old one does."""


def add_settings(bench: Bench, text: str) -> None:
    config = bench.home / "config.toml"
    config.write_text(f"{config.read_text()}\n{text}\n")


def server_settings(bench: Bench) -> str:
    program, *arguments = planted.server(bench.cwd)
    command = f"command = {msgspec.json.encode(program).decode()}"
    return f"[mcp_servers.planted]\n{command}\nargs = {msgspec.json.encode(arguments).decode()}\n"


def trust(bench: Bench, folder: Path) -> None:
    add_settings(bench, f'[projects."{folder}"]\ntrust_level = "trusted"')


def plant_rules(bench: Bench, where: str) -> Path:
    """Rules that let ``touch`` run outside the sandbox: the user's own, or those of a trusted directory."""
    folder = bench.home / "rules" if where == "home" else bench.cwd / ".codex" / "rules"
    folder.mkdir(parents=True)
    (folder / "planted.rules").write_text(RULES)
    if where == "project":
        repository(bench)
        trust(bench, bench.cwd)
    return folder / "planted.rules"


def left(bench: Bench) -> set[str]:
    return {path.name for path in bench.cwd.iterdir() if not path.name.startswith(".")}


@pytest.mark.fact
@live("codex", NEW, OLD)
@pytest.mark.parametrize("where", ["home", "project"])
def test_rules_would_run_a_command_outside_the_sandbox(bench: Bench, where: str) -> None:
    plant_rules(bench, where)
    bare(bench, "[[shell touch planted]][[say done]]", "--sandbox=read-only")
    assert left(bench) == {"planted"}


@live("codex", NEW)
@pytest.mark.parametrize("permission", ["default", "read"])
@pytest.mark.parametrize("where", ["home", "project"])
def test_rules_do_not_widen_a_read_only_sandbox(bench: Bench, where: str, permission: str) -> None:
    plant_rules(bench, where)
    turn = "[[shell touch {}]][[shell cat *.txt]][[result]]"
    (bench.cwd / "look.txt").write_text("seen")
    first = bench.attempt(turn.format("first"), permission=permission)
    second = bench.resume(first.outcome.session_id, turn.format("second"), permission=permission)
    assert ["seen" in ran.outcome.text for ran in (first, second)] == [True, True]
    assert left(bench) == {"look.txt"}


@live("codex", OLD)
@pytest.mark.parametrize("where", ["home", "project"])
def test_the_old_version_is_not_started_where_rules_would_widen_its_sandbox(bench: Bench, where: str) -> None:
    """It has no option to ignore them, and follows a directory's rules even if it is not trusted."""
    file = plant_rules(bench, where)
    refusals: tuple[tuple[Posture, bool], ...] = (("default", True), ("read", True), ("edit", False))
    for permission, refused in refusals:
        request = Request(prompt="hi", cwd=bench.cwd, permission=permission)
        reason = AGENT.not_in_force(request, bench.runtime, bench.home, bench.env)
        assert (str(file) in (reason or "")) is refused
    file.write_text("# nothing\n")
    request = Request(prompt="hi", cwd=bench.cwd, permission="read")
    assert AGENT.not_in_force(request, bench.runtime, bench.home, bench.env) is None


@live("codex", NEW, OLD)
@pytest.mark.parametrize("permission", ["default", "read"])
def test_settings_of_a_trusted_directory_and_those_above_it_are_not_read(
    bench: Bench, permission: str
) -> None:
    repository(bench)
    below = bench.cwd / "a" / "b"
    for folder in (bench.cwd, below):
        (folder / ".codex").mkdir(parents=True)
        (folder / ".codex" / "config.toml").write_text(server_settings(bench))
    trust(bench, bench.cwd)
    bare(bench, f"{PLANT}[[say done]]")
    assert planted.STARTED in left(bench), "what Codex by itself would do"
    (bench.cwd / planted.STARTED).unlink()
    (bench.cwd / planted.WROTE).unlink(missing_ok=True)
    first = bench.attempt(f"{PLANT}[[say done]]", permission=permission, cwd=below)
    bench.resume(first.outcome.session_id, f"{PLANT}[[say done]]", permission=permission, cwd=below)
    assert (first.outcome.text, left(bench)) == ("done", {"a"})


@live("codex", NEW, OLD)
def test_the_users_own_servers_are_not_there_under_read(bench: Bench) -> None:
    add_settings(bench, server_settings(bench))
    bench.attempt(f"{PLANT}[[say done]]")
    assert left(bench) == {planted.STARTED, planted.WROTE}, "the user's settings allow it by default"
    for name in left(bench):
        (bench.cwd / name).unlink()
    ran = bench.attempt(f"{PLANT}[[say done]]", permission="read")
    assert (ran.outcome.text, left(bench)) == ("done", set())


@pytest.mark.fact
@live("codex", NEW, OLD)
def test_only_the_new_version_reads_no_instructions_where_trust_is_taken_back(bench: Bench) -> None:
    """So it is taken back only where the user's settings give it."""
    (bench.cwd / "AGENTS.md").write_text("the word is quince")
    assert carried(bench.attempt("hello"), "quince") == 1
    trust(bench, bench.cwd)
    assert carried(bench.attempt("hello"), "quince") == (bench.version == OLD)


# --- options ---------------------------------------------------------------------------------------


@live("codex")
def test_the_model_is_chosen_read_back_and_not_kept(bench: Bench) -> None:
    first = bench.attempt("remember number 1", model="gpt-5-mini")
    assert (first.requests[-1].model, first.outcome.model) == ("gpt-5-mini", "gpt-5-mini")
    second = bench.resume(first.outcome.session_id, "what number?", model="gpt-5-nano")
    assert (second.requests[-1].model, second.outcome.model) == ("gpt-5-nano", "gpt-5-nano")
    third = bench.resume(first.outcome.session_id, "what number?")
    assert (third.requests[-1].model, third.outcome.text) == (REHEARSED_MODEL, "1")


@live("codex", NEW, OLD)
def test_the_system_prompt_stays_with_the_session(bench: Bench) -> None:
    """A later one is ignored by the new version and added by the old one; so it goes with the first turn."""
    text = 'SYSTEM-ONE "quoted" \\ 🎵\n\tand more\x7f'
    first = bench.attempt("remember number 1", system_prompt=text)
    assert carried(first, msgspec.json.encode(text).decode()[1:-1]) == 1
    second = bench.resume(first.outcome.session_id, "what number?", system_prompt=text)
    assert carried(second, "SYSTEM-ONE") == 1
    later = ("-c", 'developer_instructions="SYSTEM-TWO"')
    third = bench.resume(first.outcome.session_id, "what number?", native_args=later)
    assert carried(third, "SYSTEM-ONE") == 1
    assert carried(third, "SYSTEM-TWO") == (bench.version == OLD)


@pytest.mark.fact
@live("codex", NEW, OLD)
def test_only_the_old_version_repeats_its_instructions_on_every_resume(bench: Bench) -> None:
    first = bench.attempt("remember number 1")
    second = bench.resume(first.outcome.session_id, "what number?")
    assert carried(second, "<environment_context>") == (2 if bench.version == OLD else 1)


@pytest.mark.fact
@live("codex")
def test_a_tool_can_be_switched_off_by_a_setting(bench: Bench) -> None:
    def declared(ran: Ran) -> bool:
        body = ran.requests[-1].body
        assert body is not None
        return any("web_search" in (tool.get("type"), tool.get("name")) for tool in body["tools"])

    first = bench.attempt("remember number 1")
    second = bench.resume(
        first.outcome.session_id, "what number?", native_args=("-c", 'web_search="disabled"')
    )
    assert (declared(first), declared(second)) == (True, False)


@pytest.mark.fact
@live("codex", NEW, OLD)
def test_an_output_schema_is_taken_fresh_and_on_resume_by_the_new_version_only(bench: Bench) -> None:
    schema = bench.runs / "schema.json"
    schema.write_bytes(
        msgspec.json.encode(
            {
                "type": "object",
                "properties": {"n": {"type": "integer"}},
                "required": ["n"],
                "additionalProperties": False,
            }
        )
    )
    option = ("--output-schema", str(schema))
    first = bench.attempt("give me something", native_args=option)
    assert isinstance(msgspec.json.decode(first.outcome.text)["n"], int)
    second = bench.resume(first.outcome.session_id, "once more", native_args=option)
    if bench.version == NEW:
        assert isinstance(msgspec.json.decode(second.outcome.text)["n"], int)
    else:
        assert failure_of(second) == ("crashed", None)
        assert second.requests == []


# --- fork ------------------------------------------------------------------------------------------


@live("codex", NEW)
def test_a_fork_has_the_history_under_a_new_id_and_counts_its_own_usage_only(bench: Bench) -> None:
    first = bench.attempt("remember number 456")
    before = rollout(bench, first.outcome.session_id).read_bytes()
    fork = bench.attempt("what number?", start=Start("fork", first.outcome.session_id))
    assert fork.outcome.text == "456"
    assert fork.outcome.session_id not in (None, first.outcome.session_id)
    assert fork.outcome.usage == accounted(fork)
    assert rollout(bench, first.outcome.session_id).read_bytes() == before
    body = fork.requests[-1].body
    assert body is not None
    assert body["prompt_cache_key"] == fork.outcome.session_id
    after = bench.resume(fork.outcome.session_id, "what number?", base=fork.outcome.totals)
    assert after.outcome.usage == accounted(after)


@pytest.mark.fact
@live("codex", OLD)
def test_the_old_version_cannot_fork(bench: Bench) -> None:
    first = bench.attempt("remember number 456")
    assert not bench.runtime.capabilities.fork
    with pytest.raises(Misuse, match="cannot fork"):
        bench.attempt("what number?", start=Start("fork", first.outcome.session_id))


# --- sessions that are refused, and those that are not ---------------------------------------------


@pytest.mark.fact
@live("codex", NEW, OLD)
def test_an_unknown_session_is_rejected_and_no_id_is_adopted(bench: Bench) -> None:
    """The old version answers it with a new thread and exit 0: the announced id gives it away."""
    ran = bench.resume(
        str(uuid.uuid4()), "what number?", base=bench.attempt("hi").outcome.totals, record="unknown"
    )
    assert failure_of(ran) == ("session_rejected", "not_found")
    assert ran.outcome.session_id is None
    assert len(ran.requests) == (1 if bench.version == OLD else 0)
    if bench.version == OLD:
        assert ran.outcome.usage == accounted(ran)


@pytest.mark.fact
@live("codex", NEW, OLD)
def test_a_deleted_session_is_rejected(bench: Bench) -> None:
    first = bench.attempt("remember number 456")
    rollout(bench, first.outcome.session_id).unlink()
    ran = bench.resume(first.outcome.session_id, "what number?")
    assert failure_of(ran) == ("session_rejected", "not_found")
    assert ran.outcome.session_id is None


@pytest.mark.fact
@live("codex", NEW)
def test_an_unknown_session_cannot_be_forked(bench: Bench) -> None:
    ran = bench.attempt("what number?", start=Start("fork", str(uuid.uuid4())))
    assert failure_of(ran) == ("session_rejected", "not_found")


@live("codex")
def test_what_is_no_uuid_would_begin_a_new_thread_so_it_is_refused(bench: Bench) -> None:
    ran = bare(bench, "hello", "resume", "not-a-uuid")
    assert ran.returncode == 0
    assert b"turn.completed" in ran.stdout
    with pytest.raises(Misuse, match="uuid"):
        bench.resume("not-a-uuid", "hello")


@live("codex")
def test_another_directory_resumes(bench: Bench, tmp_path: Path) -> None:
    first = bench.attempt("remember number 456")
    ran = bench.resume(first.outcome.session_id, "what number?", cwd=tmp_path)
    assert ran.outcome.text == "456"


@pytest.mark.fact
@live("codex", NEW, OLD)
def test_an_emptied_session_is_rejected_as_corrupt(bench: Bench) -> None:
    first = bench.attempt("remember number 456")
    rollout(bench, first.outcome.session_id).write_bytes(b"")
    ran = bench.resume(first.outcome.session_id, "what number?")
    assert failure_of(ran) == ("session_rejected", "corrupt")
    assert ran.requests == []


@pytest.mark.fact
@live("codex", NEW, OLD)
def test_damage_in_the_middle_or_at_the_end_is_survived_at_the_beginning_by_the_old_only(
    bench: Bench,
) -> None:
    first = bench.attempt("remember number 456")
    path = rollout(bench, first.outcome.session_id)
    lines = path.read_bytes().splitlines(keepends=True)
    for damaged in ([*lines[:-1], lines[-1][:-40]], [*lines[:5], b"gar{bage\n", *lines[5:]]):
        path.write_bytes(b"".join(damaged))
        assert bench.resume(first.outcome.session_id, "what number?").outcome.text == "456"
    path.write_bytes(b"".join([b"garbage\n", *lines]))
    ran = bench.resume(first.outcome.session_id, "what number?")
    if bench.version == OLD:
        assert ran.outcome.text == "456"
    else:
        assert failure_of(ran) == ("session_rejected", "corrupt")


@pytest.mark.fact
@live("codex")
def test_another_home_rejects_it_until_the_rollout_is_copied_there(bench: Bench, tmp_path: Path) -> None:
    first = bench.attempt("remember number 456")
    path = rollout(bench, first.outcome.session_id)
    home = tmp_path / "other-home"
    home.mkdir()
    (home / "config.toml").write_bytes((bench.home / "config.toml").read_bytes())
    other = replace(bench, home=home, env={**bench.env, "CODEX_HOME": str(home)})
    ran = other.resume(first.outcome.session_id, "what number?")
    assert failure_of(ran) == ("session_rejected", "not_found")
    copy = home / path.relative_to(bench.home)
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(path.read_bytes())
    assert other.resume(first.outcome.session_id, "what number?").outcome.text == "456"


# --- the model service fails -----------------------------------------------------------------------

FAILURES = [
    ("[[error 400]]", "model_error", 400),
    ("[[error 401]]", "auth", 401),
    ("[[error 403]]", "auth", 403),
    ("[[error 404]]", "model_error", 404),
    ("[[error 429 retry-after 1]]", "rate_limited", 429),
    ("[[error 500]]", "model_error", 500),
    ("[[error 503]]", "model_error", 503),
    ("[[error 529]]", "model_error", 529),
    ("[[context-full]]", "context_exceeded", 400),
    ("[[context-full stream]]", "context_exceeded", None),
    ("[[drop]]", "network", None),
    ("[[malformed]]", "model_error", None),
    ("[[empty]]", "model_error", None),
]


@pytest.mark.fact
@live("codex", NEW, OLD)
def test_each_failure_of_the_model_has_its_kind_and_its_prompt_stays(bench: Bench) -> None:
    """One session for all: none of them makes it unusable, and each refused prompt stays in it."""
    session = bench.attempt("remember number 456").outcome.session_id
    for prompt, kind, status in FAILURES:
        ran = bench.resume(session, f"FAILED {prompt}", record="fail-" + prompt.strip("[]").replace(" ", "-"))
        assert failure_of(ran)[0] == kind, (prompt, ran.outcome.failure)
        assert ran.outcome.failure is not None
        assert ran.outcome.failure.status == status, prompt
        assert ran.outcome.session_id == session
    after = bench.resume(session, "what number?")
    assert after.outcome.text == "456"
    assert carried(after, "FAILED") == len(FAILURES)


@pytest.mark.fact
@live("codex", NEW, OLD)
@pytest.mark.parametrize("retries", [2])
def test_how_often_it_tries_again(bench: Bench) -> None:
    tries = {"[[error 400]]": 1, "[[error 401]]": 3, "[[drop]]": 3, "[[malformed]]": 3, "[[context-full]]": 1}
    tries["[[error 429 retry-after 1]]"] = 3 if bench.version == NEW else 1
    for prompt, times in tries.items():
        assert len(bench.attempt(prompt).requests) == times, prompt
    ran = bench.attempt("[[error 529]]", record="retries")
    assert len(ran.requests) == 9
    assert [(event.attempt, event.limit) for event in ran.of(ev.Retry)] == [(1, 2), (2, 2)]


@pytest.mark.fact
@live("codex")
def test_a_service_that_recovers_is_no_failure(bench: Bench) -> None:
    ran = bench.attempt("[[error 500 times 2]][[say fine]]", record="recovered")
    assert (ran.outcome.text, ran.outcome.failure) == ("fine", None)
    assert len(ran.of(ev.Retry)) == 1


NOBODY = ("-c", 'model_providers.rehearsal.base_url="http://127.0.0.1:9/v1"')


@pytest.mark.fact
@live("codex", OLD)
def test_nobody_listening_is_a_network_failure(bench: Bench) -> None:
    ran = bench.attempt("hello", native_args=NOBODY)
    assert failure_of(ran) == ("network", None)
    assert ran.outcome.failure is not None
    assert ran.outcome.failure.retryable


@pytest.mark.fact
@live("codex", NEW)
def test_nobody_listening_is_waited_for_until_the_time_limit(bench: Bench) -> None:
    ran = bench.attempt("hello", native_args=NOBODY, limits=Limits(time_s=4))
    assert failure_of(ran) == ("timeout", None)
    assert ran.outcome.failure is not None
    assert "waiting for network" in ran.outcome.failure.message


@pytest.mark.fact
@live("codex")
def test_without_a_key_the_login_fails_as_auth(bench: Bench) -> None:
    keyless = {name: value for name, value in bench.env.items() if name != "REHEARSAL_API_KEY"}
    ran = replace(bench, env=keyless).attempt("hello", record="no-key")
    assert failure_of(ran) == ("auth", None)
    assert ran.outcome.failure is not None
    assert "REHEARSAL_API_KEY" in ran.outcome.failure.message


@pytest.mark.fact
@live("codex")
def test_a_broken_config_is_a_crash_in_its_own_words(bench: Bench) -> None:
    (bench.home / "config.toml").write_text("[broken")
    ran = bench.resume(str(uuid.uuid4()), "hello")
    assert failure_of(ran) == ("crashed", None)


# --- the process is ended --------------------------------------------------------------------------


@live("codex")
def test_a_cancelled_turn_ends_at_once_and_leaves_nothing_running(bench: Bench) -> None:
    cancel = Cancel()

    def on_event(event: ev.Event) -> None:
        if isinstance(event, ev.ToolCall):
            threading.Timer(0.3, cancel).start()

    began = time.monotonic()
    ran = bench.attempt(
        "[[shell sleep 60]][[say done]]", cancel=cancel, on_event=on_event, record="cancelled"
    )
    assert (ran.outcome.status, ran.outcome.tools_run) == ("cancelled", 1)
    assert ran.outcome.session_id is not None
    assert time.monotonic() - began < 20
    assert bench.alive() == []


@live("codex")
def test_a_time_limit_ends_the_turn_as_a_timeout(bench: Bench) -> None:
    ran = bench.attempt("[[hang]]", limits=Limits(time_s=2))
    assert failure_of(ran) == ("timeout", None)
    assert bench.alive() == []


@pytest.mark.fact
@live("codex", NEW, OLD)
def test_killed_in_mid_turn_it_resumes_at_once_and_the_message_stays(bench: Bench) -> None:
    first = bench.attempt("remember number 456")

    def on_event(event: ev.Event) -> None:
        if isinstance(event, ev.ToolCall):
            bench.signal(signal.SIGKILL)

    prompt = "UNANSWERED [[shell sleep 30]][[say done]]"
    ran = bench.resume(first.outcome.session_id, prompt, on_event=on_event)
    assert failure_of(ran) == ("killed", None)
    assert ran.outcome.tools_run == 1
    after = bench.resume(first.outcome.session_id, "what number?")
    assert after.outcome.text == "456"
    assert carried(after, "UNANSWERED") == 1


@pytest.mark.fact
@live("codex", NEW, OLD)
def test_terminated_by_somebody_else_the_old_version_exits_0_without_an_answer(bench: Bench) -> None:
    def on_event(event: ev.Event) -> None:
        if isinstance(event, ev.Session):
            threading.Timer(0.5, bench.signal, (signal.SIGTERM,)).start()

    ran = bench.attempt("[[hang]]", on_event=on_event)
    assert failure_of(ran) == ("protocol" if bench.version == OLD else "killed", None)


def two_writers(bench: Bench) -> tuple[Ran, Ran, Ran]:
    """A slow turn, a quick one on the same session meanwhile, and the turn after both."""
    session = bench.attempt("remember number 456").outcome.session_id
    slow: list[Ran] = []
    began = threading.Event()

    def other() -> None:
        def on_event(event: ev.Event) -> None:
            began.set()

        slow.append(bench.resume(session, "SLOW [[slow 3 6]][[say slow answer]]", on_event=on_event))

    thread = threading.Thread(target=other)
    thread.start()
    assert began.wait(20)
    time.sleep(1)
    quick = bench.resume(session, "QUICK [[say quick answer]]")
    thread.join()
    return slow[0], quick, bench.resume(session, "what number?")


@live("codex", NEW)
def test_a_second_writer_is_refused_as_busy(bench: Bench) -> None:
    slow, quick, after = two_writers(bench)
    assert failure_of(quick) == ("session_busy", None)
    assert slow.outcome.text == "slow answer"
    assert (carried(after, "SLOW"), carried(after, "QUICK"), after.outcome.text) == (1, 0, "456")


@pytest.mark.fact
@live("codex", OLD)
def test_a_second_writer_interleaves_its_turn(bench: Bench) -> None:
    slow, quick, after = two_writers(bench)
    assert (slow.outcome.text, quick.outcome.text) == ("slow answer", "quick answer")
    body = msgspec.json.encode(after.requests[-1].body).decode()
    at = [body.index(text) for text in ("SLOW", "QUICK", '"quick answer"', '"slow answer"')]
    assert at == sorted(at)


# --- size ------------------------------------------------------------------------------------------


@live("codex")
def test_a_prompt_of_a_million_characters_arrives_whole(bench: Bench) -> None:
    prompt = "é" * 1_000_000 + " remember number 7"
    ran = bench.attempt(prompt)
    assert ran.outcome.failure is None
    assert carried(ran, "é" * 1_000_000) == 1


@pytest.mark.fact
@live("codex", NEW)
def test_the_new_version_takes_no_more_than_its_limit(bench: Bench) -> None:
    with pytest.raises(Misuse, match="1,048,576"):
        bench.attempt("x" * 1_048_577)
    free = msgspec.structs.replace(bench.runtime.capabilities, prompt_limit=None)
    unaware = replace(bench, runtime=msgspec.structs.replace(bench.runtime, capabilities=free))
    ran = unaware.attempt("x" * 1_048_577)
    assert failure_of(ran) == ("context_exceeded", None)
    assert ran.requests == []
    assert unaware.attempt("x" * 1_048_576).outcome.failure is None


@pytest.mark.fact
@live("codex", OLD)
def test_the_old_version_takes_ten_megabytes(bench: Bench) -> None:
    ran = bench.attempt("x" * 10_000_000)
    assert ran.outcome.failure is None
    assert ran.requests[-1].bytes > 10_000_000
