"""What Gemini CLI really does, shown by running it. Each fact is marked with the versions it holds for."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from segue.agents.gemini.adapter import AGENT
from segue.core import events as ev
from segue.core.outcome import Failure
from segue.core.request import Request, Start
from segue.core.tools import DeniedTools
from segue.core.usage import Usage
from segue.runner.attempt import Cancel
from segue.runner.supervisor import Limits
from tests.clis import CLIS, install
from tests.live import planted
from tests.live.harness import Bench, Ran, live
from tests.live.wire import accounted, carried, last_prompt, said

NEW, OLD = "0.61.0", "0.29.0"
MODEL = "gemini-2.5-pro"
"""A plain model: for its default, "auto", Gemini first asks a small one which to take."""


def ask(bench: Bench, prompt: str, **more: Any) -> Ran:
    """An attempt on the plain model; Gemini's reports of failures go where they are cleaned up."""
    env = {"TMPDIR": str(bench.runs)} | more.pop("env", {})
    return bench.attempt(prompt, **{"model": MODEL, "env": env} | more)


def go_on(bench: Bench, ran: Ran, prompt: str, **more: Any) -> Ran:
    assert ran.outcome.session_id is not None
    return ask(bench, prompt, start=Start("resume", ran.outcome.session_id), **more)


def failure(ran: Ran) -> Failure:
    assert ran.outcome.failure is not None, ran.stdout.decode()[-2000:]
    assert ran.outcome.text == ""
    return ran.outcome.failure


def bare(
    bench: Bench, prompt: str, *args: str, version: str | None = None, **variables: str
) -> tuple[int, list[dict[str, Any]], str]:
    """The CLI as it is, without our adapter: exit code, records, stderr."""
    program = CLIS["gemini"].program(version or bench.installed)
    argv = [str(program), "--output-format=stream-json", f"--model={MODEL}", *args]
    env = bench.env | {"GEMINI_CLI_NO_RELAUNCH": "1", "TMPDIR": str(bench.runs)} | variables
    done = subprocess.run(
        argv, input=prompt.encode(), cwd=bench.cwd, env=env, capture_output=True, timeout=90, check=False
    )
    records = [json.loads(line) for line in done.stdout.splitlines() if line.endswith(b"}")]
    return done.returncode, records, done.stderr.decode()


def set_up(bench: Bench, **sections: dict[str, Any]) -> None:
    """Change the user's settings."""
    path = bench.home / ".gemini/settings.json"
    settings = json.loads(path.read_text())
    for name, section in sections.items():
        settings[name] = settings.get(name, {}) | section
    path.write_text(json.dumps(settings))


def session_files(bench: Bench, ran: Ran) -> list[Path]:
    assert ran.outcome.session_id is not None
    return sorted(bench.home.glob(f".gemini/tmp/*/chats/session-*-{ran.outcome.session_id[:8]}.json*"))


# --- one turn and the next -------------------------------------------------------------------------


@live("gemini", NEW, OLD)
def test_a_turn_is_answered_and_its_session_resumed(bench: Bench) -> None:
    """On its default model, with the small request that chooses one: that one is paid for too."""
    first = bench.attempt("remember number 456", record="recall")
    assert first.outcome.failure is None
    assert "456" in first.outcome.text
    assert first.outcome.usage == accounted(first, side=True)
    second = bench.resume(first.outcome.session_id, "what number?", record="resume")
    assert second.outcome.text == "456"
    assert second.outcome.session_id == first.outcome.session_id
    assert second.outcome.usage == accounted(second, side=True)
    assert second.outcome.context.used == last_prompt(second)
    assert carried(second, "remember number 456") == 1


@live("gemini")
def test_usage_is_this_turns_and_equals_the_models_account(bench: Bench) -> None:
    ran = ask(bench, "[[think let me see, a longer thought]][[say an answer]]")
    assert ran.outcome.usage == accounted(ran)
    assert (ran.outcome.usage.output, ran.outcome.text) == (accounted(ran).output, "an answer")
    for prompt, turns in (
        ("[[shell echo a]][[shell echo b]][[say ok]]", 3),
        ("hello", 1),
        ("what number?", 1),
    ):
        ran = go_on(bench, ran, prompt, permission="full")
        assert ran.outcome.failure is None
        assert ran.outcome.usage == accounted(ran)
        assert (ran.outcome.context.used, ran.outcome.model) == (last_prompt(ran), MODEL)
        assert len(ran.requests) == turns
        known = bench.version != OLD or turns == 1  # it notes calls that follow each other as one
        assert ran.outcome.model_turns == (turns if known else None)


@pytest.mark.soak
@live("gemini", NEW)
def test_the_id_can_be_chosen_but_not_twice(bench: Bench) -> None:
    mine = str(uuid.uuid4())
    first = ask(bench, "remember number 1", start=Start(new_id=mine))
    assert first.outcome.session_id == mine
    again = failure(ask(bench, "remember number 2", start=Start(new_id=mine)))
    assert (again.kind, again.reason) == ("session_rejected", "unknown")
    assert "already exists" in again.message


@live("gemini")
def test_a_tool_is_seen_and_it_sees_the_users_own_home(bench: Bench) -> None:
    """Gemini's home is moved by its own variable; HOME stays what the agent's tools know."""
    own = bench.runs / "own"
    own.mkdir()
    command = "[[shell echo I live in $HOME]][[slow 0.3 4]][[say done one two three four five]]"
    ran = ask(bench, command, permission="full", env={"HOME": str(own)}, record="tool")
    (call,), (result,) = ran.of(ev.ToolCall), ran.of(ev.ToolResult)
    assert (call.name, call.id) == ("run_shell_command", result.id)
    assert (result.ok, result.output.strip()) == (True, f"I live in {own}")
    assert (ran.outcome.text, ran.outcome.tools_run) == ("done one two three four five", 1)
    assert len(ran.of(ev.TextDelta)) > 1
    assert list(own.iterdir()) == []
    assert len(session_files(bench, ran)) == 1


# --- what a prompt may look like -------------------------------------------------------------------


@pytest.mark.soak
@live("gemini")
def test_a_prompt_is_taken_as_text_whatever_it_begins_with(bench: Bench) -> None:
    first = ask(bench, "--help me -p and remember number 456")
    assert carried(first, "--help me -p and remember number 456") == 1
    cleared = go_on(bench, first, "/clear is a word. what number?")
    assert cleared.outcome.text == "456"
    assert carried(cleared, "/clear is a word") == 1


@pytest.mark.fact
@live("gemini", NEW)
def test_a_bare_prompt_that_begins_like_a_command_wipes_the_history(bench: Bench) -> None:
    """Why a leading slash is kept from the CLI: nothing but the prompt would be left."""
    first = ask(bench, "remember number 456")
    code, records, _ = bare(bench, "/clear the number", f"--resume={first.outcome.session_id}")
    assert (code, records[-1]["status"]) == (0, "success")
    assert "remember number 456" not in json.dumps(bench.model.requests[-1].body)


@pytest.mark.soak
@live("gemini")
def test_a_file_named_with_an_at_sign_is_added_to_the_message(bench: Bench) -> None:
    """It is looked for by any part of its name, and other such words are pulled apart."""
    (bench.cwd / "deep").mkdir()
    (bench.cwd / "deep/notes.txt").write_text("CONTENT-OF-NOTES")
    ran = ask(bench, "see @notes and mail me@example.org")
    assert carried(ran, "CONTENT-OF-NOTES") == 1
    assert carried(ran, "see @deep/notes.txt and mail me @example.org") == 1


# --- permissions -----------------------------------------------------------------------------------


def touching(name: str) -> str:
    """A prompt that writes one file and runs a command that makes another, offered or not."""
    write = f'[[tool write_file {{"file_path":"{name}.txt","content":"x"}}]]'
    return write + f'[[tool run_shell_command {{"command":"touch {name}"}}]][[say done]]'


POSTURES = [
    pytest.param("default", False, False, marks=pytest.mark.soak),
    ("read", False, False),
    pytest.param("edit", True, False, marks=pytest.mark.soak),
    ("full", True, True),
]


@live("gemini")
@pytest.mark.parametrize(("permission", "wrote", "ran_command"), POSTURES)
def test_a_posture_holds_on_a_fresh_and_on_a_resumed_turn(
    bench: Bench, permission: str, wrote: bool, ran_command: bool
) -> None:
    first = ask(bench, touching("one"), permission=permission)
    assert (first.outcome.failure, first.outcome.text) == (None, "done")
    assert first.outcome.tools_run == wrote + ran_command
    refused = [(wrote, "write_file"), (ran_command, "run_shell_command")]
    names = tuple(name for allowed, name in refused if not allowed)
    assert first.outcome.tools_denied == DeniedTools(len(names), names)
    go_on(bench, first, touching("two"), permission=permission)
    made = {path.name for path in bench.cwd.iterdir()}
    assert made == {name for name in ("one.txt", "two.txt") if wrote} | {
        n for n in ("one", "two") if ran_command
    }


ESCALATION = (
    '[[tool enter_plan_mode {"reason":"x"}]][[tool write_file {"file_path":"plan.md","content":"do it"}]]'
    '[[tool exit_plan_mode {"plan_filename":"plan.md"}]][[shell touch escaped]][[say done]]'
)


@live("gemini", NEW)
def test_the_model_cannot_raise_its_own_permissions(bench: Bench) -> None:
    ran = ask(
        bench,
        ESCALATION.replace(
            "[[shell touch escaped]]", '[[tool run_shell_command {"command":"touch escaped"}]]'
        ),
    )
    assert not (bench.cwd / "escaped").exists()
    tools = ("enter_plan_mode", "write_file", "exit_plan_mode", "run_shell_command")
    assert (ran.outcome.tools_run, ran.outcome.tools_denied) == (0, DeniedTools(4, tools))


@pytest.mark.fact
@live("gemini", NEW)
def test_the_bare_cli_lets_the_model_raise_its_own_permissions(bench: Bench) -> None:
    """Without a terminal, leaving plan mode is approved by itself and switches to yolo."""
    bare(bench, ESCALATION)
    assert (bench.cwd / "escaped").exists()


@live("gemini")
def test_an_allowed_tool_runs_and_others_do_not(bench: Bench) -> None:
    prompt = "[[shell touch yes]][[shell rm -f yes]][[say done]]"
    ran = ask(bench, prompt, allow_tools=("run_shell_command(touch)",))
    assert [result.ok for result in ran.of(ev.ToolResult)] == [True, False]
    assert (bench.cwd / "yes").exists()


@live("gemini", NEW)
def test_a_denied_tool_does_not_run_even_with_full_permission(bench: Bench) -> None:
    ran = ask(bench, '[[tool run_shell_command {"command":"touch no"}]][[say done]]', permission="full",
              deny_tools=("run_shell_command",), record="denied")  # fmt: skip
    assert not (bench.cwd / "no").exists()
    assert (ran.outcome.tools_run, ran.outcome.tools_denied) == (0, DeniedTools(1, ("run_shell_command",)))


@pytest.mark.soak
@live("gemini", NEW)
def test_the_users_own_policies_still_hold(bench: Bench) -> None:
    rule = '[[rule]]\ntoolName = "run_shell_command"\ndecision = "allow"\npriority = 100\n'
    policies = bench.home / ".gemini/policies"
    policies.mkdir()
    (policies / "mine.toml").write_text(rule)
    ask(bench, "[[shell touch mine]][[say done]]")
    assert (bench.cwd / "mine").exists()
    ask(bench, '[[tool run_shell_command {"command":"touch read"}]][[say done]]', permission="read")
    assert not (bench.cwd / "read").exists()


LS = ("run_shell_command(ls)",)
BEYOND = ("ls; touch a", "ls && touch b", "ls > c", "ls | tee d", "ls\ntouch e", "touch f", "X=1 ls", "lsof")
"""Commands that a rule for ``ls`` does not allow."""


def runs(command: str) -> str:
    return f"[[tool run_shell_command {json.dumps({'command': command})}]]"


def widen(bench: Bench, *, policy: int | None = 999) -> None:
    """Plant what would let the shell, writing and a server's tool run: settings and policies of the user and
    of the directory."""
    program, *arguments = planted.server(bench.cwd)
    server = {"command": program, "args": arguments, "trust": True}
    tools = {"allowed": ["run_shell_command", "write_file"], "autoAccept": True}
    set_up(bench, tools=tools, mcpServers={"planted": server})
    own = {"general": {"defaultApprovalMode": "auto_edit"}, "tools": tools, "mcpServers": {"planted": server}}
    (bench.cwd / ".gemini" / "policies").mkdir(parents=True)
    (bench.cwd / ".gemini" / "settings.json").write_text(json.dumps(own))
    if policy is not None:
        plant_policy(bench, bench.cwd, policy)
        plant_policy(bench, bench.home, policy)


def plant_policy(bench: Bench, folder: Path, priority: int, decision: str = "allow") -> Path:
    policies = folder / ".gemini" / "policies"
    policies.mkdir(parents=True, exist_ok=True)
    names = '["run_shell_command", "write_file", "mcp_planted_plant"]'
    rule = f'[[rule]]\ntoolName = {names}\ndecision = "{decision}"\npriority = {priority}\n'
    (policies / "planted.toml").write_text(rule)
    return policies / "planted.toml"


def left(bench: Bench) -> set[str]:
    return {path.name for path in bench.cwd.iterdir() if not path.name.startswith(".")}


@live("gemini")
def test_under_read_a_rule_runs_its_commands_and_nothing_else_whatever_is_planted(bench: Bench) -> None:
    """A user's own policy widens the old version: there, it is refused instead."""
    widen(bench, policy=999 if bench.version == NEW else None)
    (bench.cwd / "seen.txt").touch()
    plants = "[[tool mcp_planted_plant {}]][[tool plant {}]]"
    write = '[[tool write_file {"file_path":"written.txt","content":"x"}]]'
    prompt = plants + write + "".join(map(runs, BEYOND)) + runs("ls") + "[[result]]"
    ran = ask(bench, prompt, permission="read", allow_tools=LS)
    assert "seen.txt" in ran.outcome.text
    assert left(bench) == {"seen.txt"}
    assert [result.ok for result in ran.of(ev.ToolResult)] == [False] * (3 + len(BEYOND)) + [True]
    go_on(bench, ran, prompt, permission="read")
    assert left(bench) == {"seen.txt"}


@live("gemini")
def test_under_read_without_a_rule_nothing_planted_runs(bench: Bench) -> None:
    widen(bench, policy=999 if bench.version == NEW else None)
    plants = "[[tool mcp_planted_plant {}]][[tool plant {}]]"
    inner = json.dumps({"agent_name": "generalist", "prompt": runs("touch sub")})
    ran = ask(bench, f"{plants}{runs('touch a')}[[tool invoke_agent {inner}]][[say done]]", permission="read")
    assert (ran.outcome.text, left(bench)) == ("done", set())


@pytest.mark.soak
@live("gemini", NEW)
def test_what_the_users_own_policies_refuse_stays_refused(bench: Bench) -> None:
    plant_policy(bench, bench.home, 1, "deny")
    ran = ask(bench, f"{runs('ls')}[[say done]]", permission="read", allow_tools=LS)
    assert [result.ok for result in ran.of(ev.ToolResult)] == [False]


@live("gemini", OLD)
def test_the_old_version_is_not_started_where_a_policy_would_widen_what_is_read_only(bench: Bench) -> None:
    def why(**more: Any) -> str:
        request = Request(prompt="hi", cwd=bench.cwd, **{"permission": "read", **more})
        return AGENT.not_in_force(request, bench.runtime, bench.home, bench.env) or ""

    assert why() == ""
    file = plant_policy(bench, bench.home, 1)
    assert (str(file) in why(), why(permission="default")) == (True, "")
    plant_policy(bench, bench.home, 1, "deny")
    assert why() == ""
    assert "planted__plant" in why(allow_tools=("planted__plant",))


@pytest.mark.soak
@live("gemini")
def test_a_directory_whose_settings_run_commands_is_not_looked_at(bench: Bench) -> None:
    """Gemini runs them when it starts, before any rule is asked."""
    file = bench.cwd / ".gemini" / "settings.json"
    file.parent.mkdir()
    request = Request(prompt="hi", cwd=bench.cwd, permission="read")
    hook = {"hooks": [{"type": "command", "name": "h", "command": f"touch {bench.cwd}/hooked"}]}
    discovery = {"discoveryCommand": f"touch {bench.cwd}/discovered"}
    for settings in ({"hooks": {"SessionStart": [hook]}}, {"tools": discovery}):
        file.write_text(json.dumps(settings))
        assert str(file) in (AGENT.not_in_force(request, bench.runtime, bench.home, bench.env) or "")
        bare(bench, "hello")
    assert {"hooked", "discovered"} <= left(bench)
    file.write_text("{} // nothing")
    assert AGENT.not_in_force(request, bench.runtime, bench.home, bench.env) is None


@pytest.mark.soak
@live("gemini", NEW)
def test_a_directorys_settings_do_not_choose_the_mode(bench: Bench) -> None:
    widen(bench, policy=None)
    write = '[[tool replace {"file_path":"seen.txt","old_string":"a","new_string":"b","instruction":"x"}]]'
    (bench.cwd / "seen.txt").write_text("a")
    ask(bench, f"{write}[[say done]]")
    assert (bench.cwd / "seen.txt").read_text() == "a"


@pytest.mark.soak
@live("gemini", NEW)
def test_command_substitution_is_blocked_even_with_full_permission(bench: Bench) -> None:
    ran = ask(bench, "[[shell touch $(echo made)]][[say done]]", permission="full")
    assert not (bench.cwd / "made").exists()
    assert "substitution" in ran.of(ev.ToolResult)[0].output or "injection" in ran.of(ev.ToolResult)[0].output


@pytest.mark.soak
@live("gemini", NEW)
def test_a_directory_that_is_not_trusted_is_refused(bench: Bench) -> None:
    set_up(bench, security={"folderTrust": {"enabled": True}})
    refused = ask(bench, "hello")
    assert (failure(refused).kind, refused.requests) == ("untrusted", [])
    assert "--skip-trust" in failure(refused).message
    assert ask(bench, "hello", native_args=("--skip-trust",)).outcome.failure is None


# --- options ---------------------------------------------------------------------------------------


@pytest.mark.soak
@live("gemini")
def test_a_limit_of_turns_in_its_settings_ends_the_turn_as_a_limit(bench: Bench) -> None:
    set_up(bench, model={"maxSessionTurns": 1})
    ran = ask(bench, "[[read nothing.txt]][[read nothing.txt]][[say done]]", record="turn-limit")
    assert (failure(ran).kind, len(ran.requests)) == ("timeout", 1)
    assert ran.outcome.usage == accounted(ran)


@pytest.mark.soak
@live("gemini")
def test_the_variable_for_a_system_prompt_replaces_geminis_own(bench: Bench, tmp_path: Path) -> None:
    """Why there is no option for it: Gemini would lose all it is told about its tools."""
    (tmp_path / "system.md").write_text("SYSTEM-MINE")
    ran = ask(bench, "hello", env={"GEMINI_SYSTEM_MD": str(tmp_path / "system.md")})
    assert ran.requests[-1].body is not None
    system = ran.requests[-1].body["systemInstruction"]["parts"][0]["text"]
    assert system.startswith("SYSTEM-MINE")
    assert len(system) < 1000


# --- sessions that are refused ---------------------------------------------------------------------


@live("gemini")
def test_a_session_that_is_not_there_is_rejected_and_no_id_is_adopted(bench: Bench, tmp_path: Path) -> None:
    unknown = ask(bench, "what number?", start=Start("resume", str(uuid.uuid4())))
    assert (failure(unknown).kind, failure(unknown).reason) == ("session_rejected", "not_found")
    assert (unknown.outcome.session_id, unknown.requests) == (None, [])
    first = ask(bench, "remember number 456")
    elsewhere = go_on(bench, first, "what number?", cwd=tmp_path)
    assert (failure(elsewhere).kind, failure(elsewhere).reason) == ("session_rejected", "wrong_cwd")
    session_files(bench, first)[0].write_bytes(b"")
    emptied = go_on(bench, first, "what number?")
    assert (failure(emptied).kind, failure(emptied).reason) == ("session_rejected", "corrupt")
    for file in session_files(bench, first):
        file.unlink()
    deleted = go_on(bench, first, "what number?")
    assert (failure(deleted).kind, failure(deleted).reason) == ("session_rejected", "not_found")


@pytest.mark.soak
@live("gemini", NEW)
def test_a_torn_last_line_and_a_broken_one_do_no_harm(bench: Bench) -> None:
    first = ask(bench, "remember number 456")
    (file,) = session_files(bench, first)
    header, *rest = file.read_text().splitlines()
    file.write_text("\n".join([header, "{ garbage", *rest, '{"id":"torn","type":"us']))
    assert go_on(bench, first, "what number?").outcome.text == "456"


@live("gemini", OLD)
def test_a_torn_file_is_corrupt(bench: Bench) -> None:
    first = ask(bench, "remember number 456")
    (file,) = session_files(bench, first)
    file.write_text(file.read_text()[:-20])
    ran = go_on(bench, first, "what number?")
    assert (failure(ran).kind, failure(ran).reason) == ("session_rejected", "corrupt")


# --- the model service fails -----------------------------------------------------------------------

FAILURES = [
    ("[[error 401]]", "auth", 401),
    ("[[error 429 retry-after 1]]", "rate_limited", 429),
    ("[[context-full]]", "context_exceeded", 400),
]
MORE = [
    ("[[error 500]]", "model_error", 500),
    ("[[drop]]", "network", None),
    ("[[malformed]]", "model_error", None),
    ("[[empty]]", "model_error", None),
    ("[[error 400]]", "model_error", 400),
    ("[[error 403]]", "auth", 403),
    ("[[error 404]]", "model_error", 404),
    ("[[error 503]]", "model_error", 503),
    ("[[error 529]]", "model_error", 529),
]


@pytest.mark.fact
@live("gemini")
@pytest.mark.parametrize(
    ("prompt", "kind", "status"),
    [*FAILURES, *(pytest.param(*each, marks=pytest.mark.soak) for each in MORE)],
)
def test_each_failure_of_the_model_has_its_kind(
    bench: Bench, prompt: str, kind: str, status: int | None
) -> None:
    ran = ask(bench, prompt, record=f"fail-{prompt.strip('[]').replace(' ', '-')}")
    assert (failure(ran).kind, failure(ran).status) == (kind, status), ran.outcome.failure
    assert (failure(ran).until is not None) is (kind == "rate_limited")
    broken_off = prompt in ("[[drop]]", "[[malformed]]")
    assert ran.outcome.usage == (Usage() if broken_off else accounted(ran))


@pytest.mark.soak
@live("gemini")
def test_nobody_listening_is_a_network_failure(bench: Bench) -> None:
    ran = ask(bench, "hello", env={"GOOGLE_GEMINI_BASE_URL": "http://127.0.0.1:9"})
    assert (failure(ran).kind, failure(ran).retryable) == ("network", True)


@pytest.mark.soak
@live("gemini")
def test_without_a_key_the_login_fails_as_auth(bench: Bench) -> None:
    ran = ask(bench, "hello", env={"GEMINI_API_KEY": ""})
    assert (failure(ran).kind, ran.requests) == ("auth", [])
    assert "GEMINI_API_KEY" in failure(ran).message


@pytest.mark.fact
@live("gemini", NEW)
def test_a_failed_prompt_is_dropped_from_the_session(bench: Bench) -> None:
    first = ask(bench, "remember number 1")
    failure(go_on(bench, first, "POISON [[error 400]]"))
    assert carried(go_on(bench, first, "what number?"), "POISON") == 0


@live("gemini", OLD)
def test_a_failed_prompt_stays_in_the_session(bench: Bench) -> None:
    first = ask(bench, "remember number 1")
    failure(go_on(bench, first, "POISON [[error 400]]"))
    assert carried(go_on(bench, first, "what number?"), "POISON") == 1


# --- the process is ended --------------------------------------------------------------------------


@live("gemini")
def test_a_cancelled_turn_ends_at_once_and_leaves_nothing_running(bench: Bench) -> None:
    cancel = Cancel()
    began: list[float] = []

    def on_event(event: ev.Event) -> None:
        if isinstance(event, ev.Session):
            began.append(time.monotonic())
            asyncio.get_running_loop().call_later(0.3, cancel)

    ran = ask(bench, "[[hang]]", cancel=cancel, on_event=on_event)
    assert ran.outcome.status == "cancelled"
    assert time.monotonic() - began[0] < 10
    assert bench.alive() == []


@pytest.mark.soak
@live("gemini")
def test_a_time_limit_ends_the_turn_as_a_timeout(bench: Bench) -> None:
    ran = ask(bench, "[[hang]]", limits=Limits(time_s=3))
    assert failure(ran).kind == "timeout"
    assert bench.alive() == []


@pytest.mark.fact
@live("gemini")
def test_killed_in_mid_turn_it_is_killed_and_what_it_did_is_kept(bench: Bench) -> None:
    first = ask(bench, "remember number 456")

    def on_event(event: ev.Event) -> None:
        if isinstance(event, ev.TextDelta):
            bench.signal(signal.SIGKILL)

    prompt = "UNANSWERED [[shell echo ran]][[slow 20 20]][[say one two three four five six seven]]"
    ran = go_on(bench, first, prompt, permission="full", on_event=on_event)
    assert (failure(ran).kind, ran.outcome.tools_run) == ("killed", 1)
    tool_request = ran.requests[0].usage
    assert ran.outcome.usage.output == tool_request.output
    after = go_on(bench, first, "what number?")
    assert after.outcome.text == "456"
    assert carried(after, "UNANSWERED") == 1


@pytest.mark.fact
@live("gemini")
def test_two_writers_lose_nothing_but_interleave(bench: Bench) -> None:
    first = ask(bench, "remember number 1")
    slow: list[Ran] = []
    thread = threading.Thread(
        target=lambda: slow.append(go_on(bench, first, "SLOW-TURN [[slow 6 12]][[say slow answer]]"))
    )
    thread.start()
    time.sleep(3)
    quick = go_on(bench, first, "QUICK-TURN [[say quick answer]]")
    thread.join()
    assert (quick.outcome.failure, slow[0].outcome.failure) == (None, None)
    after = go_on(bench, first, "what number?")
    assert (said(after, "quick answer"), said(after, "slow answer")) == (1, 1)


@pytest.mark.fact
@live("gemini")
def test_a_signal_to_the_launcher_alone_leaves_the_worker_running(bench: Bench) -> None:
    """Left to itself Gemini starts a second process that does the work: one reason to tell it not to."""
    argv = [*bench.runtime.command, "--output-format=stream-json", f"--model={MODEL}", "-p", "[[hang]]"]
    nothing, cwd, env = subprocess.DEVNULL, bench.cwd, bench.env | {"TMPDIR": str(bench.runs)}
    process = subprocess.Popen(
        argv, cwd=cwd, env=env, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True
    )
    try:
        asked_by = time.monotonic() + 60
        while not bench.model.requests and time.monotonic() < asked_by:
            time.sleep(0.1)
        assert len(bench.alive()) == 2
        process.terminate()
        time.sleep(3)
        assert bench.alive() != []
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# --- size ------------------------------------------------------------------------------------------


@pytest.mark.soak
@live("gemini")
def test_a_prompt_arrives_whole_up_to_the_window_and_is_too_long_above(bench: Bench) -> None:
    """Above it the CLI ends with "success" and exit 0, and has sent nothing."""
    ran = ask(bench, "x" * 3_900_000 + " remember number 7")
    assert ran.outcome.text == "Noted: 7."
    assert carried(ran, "x" * 3_900_000) == 1
    over = ask(bench, "x" * 4_500_000)
    assert (failure(over).kind, over.requests) == ("context_exceeded", [])


# --- what 0.61 does to sessions it resumed ---------------------------------------------------------


def let_time_pass(bench: Bench, ran: Ran) -> None:
    """Give the session's file the name of an earlier minute: a resume in its own minute does no harm."""
    (file,) = session_files(bench, ran)
    file.rename(file.with_name(f"session-2026-01-01T00-00-{file.name[-14:]}"))


@pytest.mark.fact
@live("gemini", NEW)
def test_the_bare_cli_deletes_a_resumed_session_when_another_starts(bench: Bench) -> None:
    first = ask(bench, "remember number 456")
    let_time_pass(bench, first)
    bare(bench, "what number?", f"--resume={first.outcome.session_id}")
    assert len(session_files(bench, first)) == 2
    bare(bench, "another session")
    assert session_files(bench, first) == []


@pytest.mark.soak
@live("gemini", NEW)
def test_a_session_resumed_by_us_survives_the_start_of_another(bench: Bench) -> None:
    first = ask(bench, "remember number 456")
    let_time_pass(bench, first)
    go_on(bench, first, "hello")
    assert len(session_files(bench, first)) == 1
    bare(bench, "another session")
    assert go_on(bench, first, "what number?").outcome.text == "456"


@pytest.mark.soak
@live("gemini", NEW)
def test_the_same_when_a_minute_really_passes(bench: Bench) -> None:
    first = ask(bench, "remember number 456")
    time.sleep(61 - time.time() % 60)
    bare(bench, "what number?", f"--resume={first.outcome.session_id}")
    assert len(session_files(bench, first)) == 2
    bare(bench, "another session")
    assert session_files(bench, first) == []


@pytest.mark.fact
@live("gemini", OLD)
def test_the_older_version_deletes_nothing(bench: Bench) -> None:
    first = ask(bench, "remember number 456")
    (file,) = session_files(bench, first)
    file.rename(file.with_name(f"session-2026-01-01T00-00-{file.name[-13:]}"))
    bare(bench, "hello", f"--resume={first.outcome.session_id}")
    bare(bench, "another session")
    assert go_on(bench, first, "what number?").outcome.text == "456"


@pytest.mark.fact
@live("gemini", NEW)
def test_system_settings_that_others_could_write_are_skipped(bench: Bench) -> None:
    """Nor are those that do not belong to root: why retention is not switched off there."""
    folder = bench.home / "shared"
    folder.mkdir()
    folder.chmod(0o777)
    (folder / "settings.json").write_text('{"security": {"disableYoloMode": true}}')
    settings = str(folder / "settings.json")
    code, _, stderr = bare(bench, "hello", "--approval-mode=yolo", GEMINI_CLI_SYSTEM_SETTINGS_PATH=settings)
    assert (code, "Skipping system settings file" in stderr) == (0, True)


@pytest.mark.fact
@live("gemini", OLD)
def test_an_update_keeps_sessions_and_going_back_loses_them(bench: Bench) -> None:
    assert install(CLIS["gemini"], NEW) == ""
    first = ask(bench, "remember number 456")
    resume = f"--resume={first.outcome.session_id}"
    _, records, _ = bare(bench, "what number?", resume, version=NEW)
    assert [record["content"] for record in records if record.get("role") == "assistant"] == ["456"]
    code, records, _ = bare(bench, "remember number 789", version=NEW)
    assert code == 0
    assert bare(bench, "what number?", f"--resume={records[0]['session_id']}")[0] == 42


def tool_traffic(ran: Ran) -> tuple[int, int]:
    body = json.dumps(ran.requests[-1].body)
    return body.count('"functionCall"'), body.count('"functionResponse"')


@pytest.mark.fact
@live("gemini", NEW)
def test_a_resume_repeats_the_results_of_earlier_tools(bench: Bench) -> None:
    first = ask(bench, "[[shell echo once]][[say done]]", permission="full")
    assert tool_traffic(first) == (1, 1)
    assert tool_traffic(go_on(bench, first, "hello")) == (1, 2)


@pytest.mark.fact
@live("gemini", OLD)
def test_the_older_version_repeats_no_results(bench: Bench) -> None:
    first = ask(bench, "[[shell echo once]][[say done]]", permission="full")
    assert [tool_traffic(go_on(bench, first, "hello")) for _ in range(2)] == [(1, 1), (1, 1)]
