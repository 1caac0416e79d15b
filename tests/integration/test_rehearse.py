"""``segue rehearse`` from outside: bad input, signals, and that no road leads to a real provider."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import tomllib
import urllib.request
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from tests.integration.conftest import SEGUE, Program
from tests.integration.terminals import on_terminal

PYTHON = sys.executable


@pytest.fixture
def temporary(tmp_path: Path, segue: Program) -> Path:
    """Where rehearsals put their temporary directories, and where a crash would leave its details."""
    place = tmp_path / "temporary"
    place.mkdir()
    segue.env["TMPDIR"] = str(place)
    return place


def wait_for(path: Path, seconds: float = 20) -> str:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if path.exists() and path.read_text():
            return path.read_text()
        time.sleep(0.02)
    raise AssertionError(f"{path.name} did not come")


def gone(pid: int, seconds: float = 10) -> bool:
    """Whether the process ends; one that only waits to be reaped counts."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        listing = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False)
        if listing.stdout.strip()[:1] in (b"", b"Z"):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("s.toml", "[[rule\n", "s.toml"),
        ("s.json", "{", "s.json"),
        ("s.toml", '[[rule]]\ndo = "[[say x]]"\nwhen = 1\n', "when"),
        ("s.toml", '[[rule]]\ndo = "[[say x]]"\nnth = "two"\n', "nth"),
        ("s.toml", '[[rule]]\ndo = "[[say x]]"\nnth = 0\n', "nth"),
        ("s.toml", '[[rule]]\ndo = "[[say x]]"\nprotocol = "morse"\n', "morse"),
        ("s.toml", '[[rule]]\ndo = "[[say x]]"\npattern = "("\n', "rule 1: bad pattern"),
        ("s.toml", '[[rule]]\ndo = "say x"\n', "no directive"),
        ("s.toml", b"\xff\xfe", "s.toml"),
        ("s.toml", None, "No such file"),
    ],
)
def test_a_bad_scenario_is_one_line_and_exit_2(
    segue: Program, tmp_path: Path, name: str, text: str | bytes | None, says: str
) -> None:
    scenario = tmp_path / name
    if text is not None:
        scenario.write_bytes(text if isinstance(text, bytes) else text.encode())
    ran = segue("rehearse", "--scenario", str(scenario), "--", "true")
    assert (ran.code, ran.stderr.count("\n")) == (2, 1), ran.stderr
    assert ran.stderr.startswith("segue: ")
    assert says in ran.stderr
    assert "should not" not in ran.stderr


def test_a_port_in_use_is_one_line_and_exit_2(segue: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = segue("rehearse", "--port", str(port), "--", "true")
    assert (ran.code, ran.stderr.count("\n")) == (2, 1)
    assert f"segue: cannot listen on port {port}: Address already in use" in ran.stderr


@pytest.mark.parametrize("option", ["--log", "--home"])
def test_a_place_that_cannot_be_written_is_one_line_and_exit_2(
    segue: Program, tmp_path: Path, option: str
) -> None:
    (tmp_path / "file").write_text("")
    ran = segue("rehearse", option, str(tmp_path / "file" / "x"), "--", "true")
    assert (ran.code, ran.stderr.count("\n")) == (2, 1)
    assert "cannot be written" in ran.stderr


@pytest.mark.parametrize(("argv", "says"), [([], "no command after --"), (["no-such"], '"no-such" on PATH')])
def test_a_command_that_cannot_be_started(segue: Program, argv: list[str], says: str) -> None:
    ran = segue("rehearse", "--", *argv)
    assert ran.code == 2
    assert says in ran.stderr


def test_the_exit_code_is_the_commands(segue: Program, temporary: Path) -> None:
    assert segue("rehearse", "--", "sh", "-c", "exit 7").code == 7
    assert segue("rehearse", "--", "sh", "-c", "kill -9 $$").code == 137
    assert list(temporary.iterdir()) == []


HANDLER = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"

SLEEPER = """
import pathlib, sys, time
try:
    pathlib.Path("{mark}").write_text("yes")
    time.sleep(30)
except KeyboardInterrupt:
    sys.exit(23)
"""


def test_the_command_hears_ctrl_c_and_its_exit_code_comes_back(
    segue: Program, temporary: Path, tmp_path: Path
) -> None:
    """Python takes over SIGINT only where it is not ignored, as any program with manners does."""
    assert segue("rehearse", "--", PYTHON, "-c", HANDLER).stdout == "True\n"
    mark = tmp_path / "runs"
    process = segue.start("rehearse", "--", PYTHON, "-c", SLEEPER.format(mark=mark))
    wait_for(mark)
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=20)
    assert (process.returncode, stderr) == (23, b"")
    assert list(temporary.iterdir()) == []


def test_ctrl_c_at_a_terminal_is_the_commands(segue: Program, temporary: Path, tmp_path: Path) -> None:
    mark = tmp_path / "runs"
    command = ("rehearse", "--", PYTHON, "-c", SLEEPER.format(mark=mark))
    code, output = on_terminal(segue, *command, keys=((mark, b"\x03"),))
    assert (code, output.replace("^C", "").strip()) == (23, "")
    assert list(temporary.iterdir()) == []


def test_the_command_may_read_from_the_terminal(segue: Program) -> None:
    code, output = on_terminal(
        segue, "rehearse", "--", "sh", "-c", "read x; echo got $x", keys=((0, b"it\n"),)
    )
    assert code == 0
    assert "got it" in output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_term_and_hup_end_the_command_and_all_it_started(
    segue: Program, temporary: Path, tmp_path: Path, number: signal.Signals
) -> None:
    mark = tmp_path / "pids"
    script = f"sleep 60 & echo $SEGUE_HOME $$ $! > {mark}; wait; exit 0"
    process = segue.start("rehearse", "--", "sh", "-c", script)
    home, *pids = wait_for(mark).split()
    assert Path(home).is_relative_to(temporary)
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == 128 + number
    assert all(gone(int(pid)) for pid in pids)
    assert list(temporary.iterdir()) == [], "the homes are thrown away"


def test_a_command_that_does_not_listen_is_killed_after_the_grace(
    segue: Program, temporary: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "pid"
    script = f"trap '' TERM; echo $$ > {mark}; while :; do sleep 0.1; done"
    process = segue.start("rehearse", "--", "sh", "-c", script)
    pid = int(wait_for(mark))
    try:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=20)
        assert process.returncode == 137
        assert gone(pid)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert list(temporary.iterdir()) == []


AWAY = {
    **{f"CLAUDE_CODE_USE_{cloud}": "1" for cloud in ("BEDROCK", "VERTEX", "FOUNDRY", "MANTLE", "GATEWAY")},
    "ANTHROPIC_AUTH_TOKEN": "real",
    "ANTHROPIC_CUSTOM_HEADERS": "x: y",
    "ANTHROPIC_UNIX_SOCKET": "/run/x",
    "CLAUDE_CODE_OAUTH_TOKEN": "real",
    "CLAUDE_CODE_API_BASE_URL": "https://real.invalid",
    "AWS_BEARER_TOKEN_BEDROCK": "real",
    "OPENAI_BASE_URL": "https://real.invalid",
    "OPENAI_API_KEY": "real",
    "CODEX_API_KEY": "real",
    "CODEX_ACCESS_TOKEN": "real",
    "CODEX_OSS_BASE_URL": "https://real.invalid",
    "GOOGLE_API_KEY": "real",
    "GOOGLE_APPLICATION_CREDENTIALS": "/real.json",
    "GEMINI_DEFAULT_AUTH_TYPE": "vertex-ai",
    "GEMINI_CLI_SYSTEM_SETTINGS_PATH": "/real.json",
    "VIBE_PROVIDERS": "[]",
    "VIBE_ACTIVE_MODEL": "real",
    "HTTP_PROXY": "http://proxy.invalid",
    "https_proxy": "http://proxy.invalid",
    "All_Proxy": "http://proxy.invalid",
    "SEGUE_ACCOUNTS_WORK_AGENT": "claude",
    "SEGUE_STORE_URL": "postgresql://real.invalid/db",
    "CLAUDECODE": "1",
}
TURNED = {
    "ANTHROPIC_BASE_URL": "https://real.invalid",
    "ANTHROPIC_API_KEY": "real",
    "GOOGLE_GENAI_USE_VERTEXAI": "true",
    "GOOGLE_GENAI_USE_GCA": "true",
    "GOOGLE_VERTEX_BASE_URL": "https://real.invalid",
    "CODE_ASSIST_ENDPOINT": "https://real.invalid",
    "NO_PROXY": "real.invalid",
}
STAYS = {
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "900",
    "ANTHROPIC_MODEL": "mine",
    "SEGUE_DEFAULTS_MODEL": "mine",
    "AWS_PROFILE": "mine",
    "MY_SETTING": "mine",
}


def environment_of(stdout: str) -> dict[str, str]:
    decoded: dict[str, str] = msgspec.json.decode(stdout)
    return decoded


def test_no_way_to_a_real_provider_is_left_in_the_environment(segue: Program) -> None:
    show = (PYTHON, "-c", "import json, os; print(json.dumps(dict(os.environ)))")
    ran = segue("rehearse", "--", *show, more={**AWAY, **STAYS, **TURNED})
    seen = environment_of(ran.stdout)
    assert not seen.keys() & AWAY.keys()
    assert seen.items() >= STAYS.items()
    assert seen["NO_PROXY"] == seen["no_proxy"] == "127.0.0.1,localhost"
    for name in ("ANTHROPIC_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "CODE_ASSIST_ENDPOINT"):
        assert seen[name].startswith("http://127.0.0.1:")
    assert seen["GOOGLE_GENAI_USE_VERTEXAI"] == seen["GOOGLE_GENAI_USE_GCA"] == "false"
    assert not [value for value in seen.values() if "invalid" in value or value == "real"]


def test_what_is_printed_can_be_pasted(segue: Program, tmp_path: Path) -> None:
    home = tmp_path / "it's a $HOME `with` spaces"
    away = {"CLAUDE_CODE_USE_BEDROCK": "1", "HTTPS_PROXY": "http://proxy.invalid"}
    process = subprocess.Popen(
        [*SEGUE, "rehearse", "--home", str(home)],
        cwd=segue.cwd,
        env={**segue.env, **away},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("export VIBE_HOME"):
            break
    try:
        pasted = "".join(lines) + f"\n{PYTHON} -c 'import json, os; print(json.dumps(dict(os.environ)))'"
        shell = {**segue.env, **away}
        done = subprocess.run(["sh", "-c", pasted], env=shell, capture_output=True, text=True, check=True)
    finally:
        process.send_signal(signal.SIGHUP)
        process.communicate(timeout=20)
    assert (process.returncode, done.stderr) == (0, "")
    seen = environment_of(done.stdout)
    assert seen["SEGUE_HOME"] == str(home / "segue")
    assert seen["CLAUDE_CONFIG_DIR"] == str(home / "claude")
    assert not seen.keys() & away.keys()
    assert seen["NO_PROXY"] == "127.0.0.1,localhost"


ASK = """
import json, os, urllib.request
url, key = os.environ["ANTHROPIC_BASE_URL"], os.environ["REHEARSAL_API_KEY"]
def ask(path, body=None):
    headers = {"Authorization": f"Bearer {key}"}
    return urllib.request.urlopen(urllib.request.Request(url + path, body, headers)).read()
for n in range(3):
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": f"hello {n}"}]}
    ask("/v1/messages", json.dumps(body).encode())
print(ask("/rehearsal/log").decode())
"""


def test_bodies_are_written_to_the_log_and_not_kept_in_memory(segue: Program, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    ran = segue("rehearse", "--log", str(log), "--", PYTHON, "-c", ASK)
    written = [msgspec.json.decode(line) for line in log.read_bytes().splitlines()]
    assert [one["body"]["messages"][0]["content"] for one in written] == ["hello 0", "hello 1", "hello 2"]
    kept = msgspec.json.decode(ran.stdout)
    assert [(one["n"], one["body"], one["last_user_text"]) for one in kept] == [
        (n + 1, None, f"hello {n}") for n in range(3)
    ]


def test_a_bounded_log_forgets_the_oldest(tmp_path: Path) -> None:
    from segue.rehearsal.server import LoopbackModel

    log = tmp_path / "log.jsonl"
    with LoopbackModel(log=log, kept=2) as model:
        for n in range(5):
            urllib.request.urlopen(f"{model.url}/anything/{n}?key={model.key}").read()
        assert [(request.n, request.path) for request in model.requests] == [
            (4, "/anything/3"),
            (5, "/anything/4"),
        ]
    assert len(log.read_text().splitlines()) == 5


def test_a_turn_of_the_rehearsal_agent_works_on_the_stage(segue: Program, temporary: Path) -> None:
    run = (*SEGUE, "run", "t1", "remember number 456", "--agent", "rehearsal")
    ran = segue("rehearse", "--", *run, more=AWAY)
    assert (ran.code, ran.stdout) == (0, "Noted: 456.\n")
    assert list(temporary.iterdir()) == []
    assert not segue.home.exists(), "nothing of the user's own is touched"
    assert not list(Path(segue.env["HOME"]).rglob("segue-rehearsal")), "nor where the agent lives otherwise"


OWN = """
[defaults]
account = "work"
model = "mine-1"
instructions = "Be brief. \\"Quoted\\" and ünïcode."

[store]
url = "postgresql://real.invalid/db"

[accounts.work]
agent = "rehearsal"
home = "{outside}/work"
env = {{ MY_SETTING = "stays", MY_TOKEN = "real-secret", OPENAI_API_KEY = "real-secret" }}
pass_env = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"]

[accounts.again]
agent = "rehearsal"
home = "{outside}/work"

[accounts.company]
agent = "claude"
home = "{outside}/company"
env = {{ ANTHROPIC_BASE_URL = "https://real.invalid", ANTHROPIC_AUTH_TOKEN = "real-secret" }}

[accounts.theirs]
agent = "tool"
home = "{outside}/tool"

[accounts.theirs.env]
OPENAI_BASE_URL = "https://real.invalid/v1"
OPENAI_API_KEY = "real-secret"
TOOL_PASSWORD = "real-secret"
TOOL_COLOUR = "blue"

[agents.tool]
command = ["sh", "-c", "cat >/dev/null; env", ["--model", "{{model}}"]]
stdin = "prompt"
home_env = "TOOL_HOME"

[prices."mine-*"]
input = 1.0
output = 2
dated = 2026-01-01
"""


@pytest.fixture
def own(segue: Program, tmp_path: Path) -> Path:
    """A user with a configuration, whose accounts live in a place that must stay as it is."""
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    segue.config(OWN.format(outside=outside))
    return outside


def test_the_users_accounts_and_defaults_come_along(segue: Program, own: Path, tmp_path: Path) -> None:
    stage = tmp_path / "stage"
    script = " && ".join(
        f"{' '.join(SEGUE)} {command}"
        for command in (
            "run t '[[say $MY_SETTING]] remember number 5' --json",
            "run u 'what number?' --account again --json",
            "sessions ls --json",
        )
    )
    ran = segue("rehearse", "--home", str(stage), "--", "sh", "-c", script)
    assert ran.code == 0, ran.stderr
    first, second, listed = (msgspec.json.decode(line) for line in ran.stdout.splitlines())
    assert (first["account"], first["agent"], first["model"]) == ("work", "rehearsal", "mine-1")
    assert second["account"] == "again"
    homes = {Path(session["path"]).parents[1] for session in listed}
    assert homes == {stage / "accounts" / "work"}, "what shares a home outside shares one on the stage"
    assert (stage / "segue" / "segue.db").exists(), "the store is the rehearsal's own"
    assert (segue.home / "config.toml").exists()
    assert {path.name for path in segue.home.iterdir()} == {"config.toml"}


def test_nothing_of_the_users_accounts_leads_outside(segue: Program, own: Path, tmp_path: Path) -> None:
    stage = tmp_path / "stage"
    show = "cat $SEGUE_HOME/config.toml; " + " ".join([*SEGUE, "run", "t", "hi", "--account", "theirs"])
    ran = segue(
        "rehearse", "--home", str(stage), "--", "sh", "-c", show, more={"ANTHROPIC_API_KEY": "real-secret"}
    )
    assert ran.code == 0, ran.stderr
    assert not [word for word in ("real", str(own), "pass_env", "postgresql") if word in ran.stdout]
    seen = dict(line.split("=", 1) for line in ran.stdout.splitlines() if "=" in line and " = " not in line)
    assert seen["OPENAI_BASE_URL"].startswith("http://127.0.0.1:")
    assert seen["OPENAI_BASE_URL"].endswith("/v1")
    assert (seen["TOOL_COLOUR"], seen["TOOL_HOME"]) == ("blue", str(stage / "accounts" / "theirs"))
    config = tomllib.loads((stage / "segue" / "config.toml").read_text())
    company = config["accounts"]["company"]
    assert company["home"] == company["env"]["CLAUDE_CONFIG_DIR"] == str(stage / "accounts" / "company")
    assert company["env"]["ANTHROPIC_BASE_URL"] == config["accounts"]["claude"]["env"]["ANTHROPIC_BASE_URL"]
    assert "ANTHROPIC_AUTH_TOKEN" not in company["env"]
    mine = tomllib.loads((segue.home / "config.toml").read_text())
    assert [config[name] for name in ("defaults", "agents", "prices")] == [
        mine[name] for name in ("defaults", "agents", "prices")
    ]


def test_accounts_by_variable_come_along_too(segue: Program) -> None:
    run = (*SEGUE, "run", "t1", "hi", "--json")
    more = {"SEGUE_ACCOUNTS_SIDE_AGENT": "rehearsal", "SEGUE_DEFAULTS_ACCOUNT": "side"}
    assert segue("rehearse", "--", *run, more=more).turn["account"] == "side"


def test_a_configuration_that_is_wrong_is_one_line_and_exit_2(segue: Program) -> None:
    segue.config("[defaults]\nagnt = 1\n")
    ran = segue("rehearse", "--", "true")
    assert (ran.code, ran.stderr.count("\n")) == (2, 1)
    assert "config.toml:2" in ran.stderr


SCENARIO = """
[[rule]]
text = "deploy"
nth = 2
do = "[[say once is enough]]"
[[rule]]
text = "deploy"
do = "[[say deployed]]"
[[rule]]
text = "deploy"
protocol = "anthropic"
do = "[[say never here]]"
"""


def test_the_rehearsal_agent_follows_the_scenario_from_turn_to_turn(segue: Program, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(SCENARIO)
    turn = " ".join([*SEGUE, "run", "t", "'deploy it'", "--agent", "rehearsal"])
    ran = segue(
        "rehearse", "--scenario", "../s.toml", "--", "sh", "-c", f"{turn}; {turn} --fresh-session; {turn}"
    )
    assert ran.stdout.splitlines() == ["deployed", "once is enough", "deployed"], ran.stderr


def test_nobody_else_reads_the_key_or_the_log_wherever_they_were_put(segue: Program, tmp_path: Path) -> None:
    """Also where directories and files were there before, and open to all."""
    stage, log = tmp_path / "stage", tmp_path / "log.jsonl"
    for place in (stage, *(stage / name for name in ("segue", "claude", "codex", "gemini", "vibe"))):
        place.mkdir()
        place.chmod(0o755)
    for file in (stage / "segue" / "config.toml", stage / "codex" / "config.toml", log):
        file.touch()
        file.chmod(0o644)
    ran = segue("rehearse", "--home", str(stage), "--log", str(log), "--", "printenv", "REHEARSAL_API_KEY")
    key = ran.stdout.strip()
    holding = [
        each for each in stage.rglob("*") if each.is_file() and key in each.read_text("utf-8", "replace")
    ]
    assert key, ran.stderr
    assert stage / "segue" / "config.toml" in holding
    assert [each.name for each in (*holding, log) if each.stat().st_mode & 0o077] == []


def test_a_home_is_for_one_rehearsal_at_a_time(segue: Program, tmp_path: Path) -> None:
    home, mark = tmp_path / "stage", tmp_path / "runs"
    first = segue.start("rehearse", "--home", str(home), "--", "sh", "-c", f"echo yes > {mark}; sleep 60")
    try:
        wait_for(mark)
        config = (home / "segue" / "config.toml").read_text()
        second = segue("rehearse", "--home", f"{home}/../stage", "--", "true")
        assert (second.code, second.stderr.count("\n")) == (75, 1)
        assert "another rehearsal is running in" in second.stderr
        assert (home / "segue" / "config.toml").read_text() == config, "the first one's is left alone"
    finally:
        first.send_signal(signal.SIGTERM)
        first.communicate(timeout=20)
    assert segue("rehearse", "--home", str(home), "--", "true").code == 0
