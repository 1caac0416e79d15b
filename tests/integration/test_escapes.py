"""Nothing that somebody else wrote, wherever it stands, moves the cursor, sets a title or hides a word."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import msgspec
import pytest

from tests.integration.conftest import Program
from tests.integration.terminals import on_terminal

EVIL = (
    "\x1b]0;owned\x07\x1b[2J\x1b[8mhid\x9b5A\x9d0;t\x9c\x08\x7f\u202eturned\u2066\u200f\u061c\u200b\U000e0041"
)
OBEYED = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e0fff]"
)
IN_TOML = "".join(f"\\U{ord(char):08x}" for char in EVIL)
CLAUDE = "c1a0de00-1111-4222-8333-444455556666"
REHEARSAL = "abcdef12-1111-4222-8333-444455556666"


def obeyed(output: str) -> list[str]:
    """What is left of the output that a terminal would obey, beside how we draw and colour."""
    return OBEYED.findall(re.sub(r"\x1b\[((0|1|2|31|32|33)m|K|A|C|J)|\r", "", output))


@pytest.fixture
def evil(segue: Program, tmp_path: Path) -> Program:
    """A home with a conversation and sessions whose every word is foreign."""
    ran = segue("run", "talk", f"[[say {EVIL}]] {EVIL}", "--agent", "rehearsal", "--json", "--role", "r")
    assert ran.code == 0, ran.stderr
    (listed,) = msgspec.json.decode(segue("sessions", "ls", "--json").stdout)
    made = Path(listed["path"])
    copy = made.read_text().replace(ran.turn["session_id"], REHEARSAL)
    call = {
        "type": "message",
        "id": EVIL,
        "kind": "tool_call",
        "role": "assistant",
        "name": EVIL,
        "input": EVIL,
    }
    damaged = msgspec.json.encode(call).decode() + f'\n{{"broken {EVIL}\n'
    made.with_name(f"{REHEARSAL}.jsonl").write_text(copy + damaged)
    folder = tmp_path / ".claude" / "projects" / str(segue.cwd).replace("/", "-").replace(".", "-")
    folder.mkdir(parents=True)
    about = {"sessionId": CLAUDE, "cwd": str(segue.cwd), "gitBranch": EVIL, "version": EVIL}
    lines = [
        {
            "type": "user",
            "uuid": "u1",
            "parentUuid": None,
            "message": {"role": "user", "content": f"hi {EVIL}"},
            **about,
        },
        {
            "type": "assistant",
            "uuid": EVIL,
            "parentUuid": "u1",
            "message": {
                "role": "assistant",
                "model": EVIL,
                "content": [
                    {"type": "text", "text": EVIL},
                    {"type": "tool_use", "id": EVIL, "name": EVIL, "input": {"command": EVIL}},
                ],
            },
            **about,
        },
        {"type": EVIL, EVIL: EVIL, **about},
        {"type": "custom-title", "customTitle": EVIL, "sessionId": CLAUDE},
    ]
    (folder / f"{CLAUDE}.jsonl").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return segue


READING = [
    ("log", "talk"),
    ("log", "talk", "--full"),
    ("log", "talk", "--json"),
    ("ls",),
    ("ls", "--json"),
    ("why", "talk"),
    ("sessions", "ls"),
    ("sessions", "ls", "--all", "--json"),
    ("sessions", "show", CLAUDE),
    ("sessions", "show", CLAUDE, "--full"),
    ("sessions", "show", CLAUDE, "--json"),
    ("sessions", "show", REHEARSAL, "--full"),
    ("sessions", "check", CLAUDE),
    ("sessions", "check", REHEARSAL),
    ("sessions", "check", REHEARSAL, "--json"),
    ("sessions", "repair", CLAUDE),
    ("sessions", "search", "hid"),
    ("sessions", "search", "hid", "--json"),
    ("sessions", "restore"),
    ("sessions", "prune", "--days", "0", "--all-sessions"),
    ("sessions", "prune", "--days", "0", "--all-sessions", "--yes"),
    ("sessions", "prune", "--days", "0", "--all-sessions", "--json"),
]


def test_no_command_passes_on_what_agents_and_sessions_hold(evil: Program) -> None:
    for args in READING:
        ran = evil(*args)
        assert ran.stdout or ran.stderr, args
        assert obeyed(ran.stdout + ran.stderr) == [], args


def test_on_a_terminal_not_even_the_answer_or_an_export_is_obeyed(evil: Program) -> None:
    for args in (
        ("export", "talk"),
        ("export", "talk", "--json"),
        ("log", "talk", "--json"),
        ("sessions", "show", CLAUDE, "--full"),
        ("run", "talk", f"[[say {EVIL}]]"),
        ("run", "talk", f"[[say {EVIL}]]", "--quiet"),
        ("run", "talk", f"[[say {EVIL}]]", "--events"),
    ):
        _, output = on_terminal(evil, *args)
        assert "owned" in output or "hid" in output, args
        assert obeyed(output) == [], args


def test_what_goes_into_a_pipe_is_the_answer_byte_for_byte(evil: Program) -> None:
    told = f"one {EVIL} two"
    assert evil("run", "talk", f"[[say {told}]]", "--quiet").stdout == told + "\n"
    assert f"\n{told}\n" in evil("export", "talk").stdout
    as_json = evil("run", "talk", f"[[say {told}]]", "--json").turn
    assert as_json["text"] == told


ARGUMENTS = [
    (EVIL,),
    (f"--{EVIL}",),
    ("run", EVIL, "hi"),
    ("run", "k", "hi", "--agent", EVIL),
    ("run", "k", "hi", "--agent", "rehearsal", "--account", EVIL),
    ("run", "k", "hi", "--agent", "rehearsal", "--model", EVIL),
    ("run", "k", "hi", "--agent", "rehearsal", "--model", "m", "--role", EVIL),
    ("run", "k", "hi", "--agent", "rehearsal", "--cwd", f"/nowhere{EVIL}"),
    ("run", "k", "hi", "--agent", "rehearsal", "--permission", EVIL),
    ("run", "k", "hi", "--agent", "rehearsal", "--allow-tool", EVIL),
    ("run", "k", "hi", "--agent", "rehearsal", "--system-prompt-file", EVIL),
    ("run", "k", "hi", "--agent", "rehearsal", "--adopt", EVIL),
    ("run", "k", "hi", "--timeout", EVIL),
    ("run", "k", "hi", "--agent", "rehearsal", "--", f"--{EVIL}"),
    ("run", "k", "hi", EVIL),
    ("run", "k", "hi", "--json", "--agent", EVIL),
    ("why", EVIL),
    ("why", "talk", "--role", EVIL),
    ("log", EVIL),
    ("retry", "talk", EVIL),
    ("edit", "talk", EVIL, "text"),
    ("edit", "talk", "1", EVIL),
    ("truncate", "talk", EVIL),
    ("fork", "talk", EVIL),
    ("fork", "talk", "--at", EVIL),
    ("export", EVIL),
    ("import", EVIL),
    ("rm", EVIL),
    ("trust", EVIL),
    ("completion", EVIL),
    ("rehearse", "--scenario", EVIL),
    ("rehearse", "--", EVIL),
    ("sessions", EVIL),
    ("sessions", "show", EVIL),
    ("sessions", "show", REHEARSAL, "--before", EVIL),
    ("sessions", "search", EVIL),
    ("sessions", "search", "x", "--since", EVIL),
    ("sessions", "ls", "--agent", EVIL),
    ("sessions", "repair", REHEARSAL, "--since", EVIL),
    ("sessions", "restore", EVIL),
    ("sessions", "continue", f"12345678{EVIL}"),
    ("sessions", "continue", CLAUDE, "hi", "--key", EVIL),
    ("sessions", "prune", "--days", "0", "--all-sessions", "--yes", "--confirm", EVIL),
]


def test_no_complaint_passes_on_what_the_caller_gave(evil: Program) -> None:
    for args in ARGUMENTS:
        ran = evil(*args)
        assert ran.stderr or ran.code == 0, args
        assert obeyed(ran.stdout + ran.stderr) == [], args


CONFIGS = [
    f'[agents.rehearsal]\nmodel = "{IN_TOML}"\n',
    f'[continuity]\ngraft = "{IN_TOML}"\n',
    f'[continuity]\n"{IN_TOML}" = 1\n',
    f'["{IN_TOML}"]\nx = 1\n',
    f'[run]\ninstructions = "{IN_TOML}"\n',
    f'[accounts."{IN_TOML}"]\nagent = "claude"\nhome = "/nowhere"\n',
    f'[accounts.work]\nagent = "{IN_TOML}"\n',
    f'[accounts.work]\nagent = "claude"\nhome = "/nowhere{IN_TOML}"\npass_env = ["{IN_TOML}"]\n',
    f'[agents.claude]\ncommand = ["/nowhere{IN_TOML}"]\n',
    f'broken = "{EVIL}"\n',
    f"broken{EVIL}\n",
]


@pytest.mark.parametrize("text", CONFIGS)
@pytest.mark.parametrize("whose", ["project", "user"])
def test_no_configuration_speaks_to_the_terminal(segue: Program, text: str, whose: str) -> None:
    if whose == "user":
        segue.config(text)
    else:
        (segue.cwd / "segue.toml").write_text(text)
    for args in (
        ("why", "k", "--agent", "rehearsal"),
        ("doctor",),
        *([("agents",)] if "claude" in text else []),
    ):
        ran = segue(*args)
        assert ran.stdout or ran.stderr
        assert obeyed(ran.stdout + ran.stderr) == [], args


def test_no_environment_and_no_import_do(segue: Program, tmp_path: Path) -> None:
    place = tmp_path / f"home{EVIL}"
    for args in (("doctor",), ("ls",), ("log", "none")):
        ran = segue(*args, SEGUE_HOME=str(place), SEGUE_CONTINUITY_GRAFT=EVIL)
        assert obeyed(ran.stdout + ran.stderr) == [], args
    export = {
        "schema": 1,
        "key": EVIL,
        "messages": [{"from": "user", "text": "x", "agent": EVIL, "role": EVIL}],
    }
    for text in (msgspec.json.encode(export), EVIL.encode(), msgspec.json.encode({EVIL: EVIL})):
        ran = segue("import", "-", stdin=text)
        assert ran.code == 2
        assert obeyed(ran.stderr) == []


BREAKS = f"""
import sys, threading
from segue.cli import agents, main
def fails():
    raise ValueError({EVIL!r})

def broken(*_, **__):
    thread = threading.Thread(target=fails)
    thread.start()
    thread.join()
    raise KeyError({EVIL!r})
agents.command.callback = broken
sys.argv = ["segue", "agents"]
main.main()
"""


def test_no_failure_of_our_own_does(segue: Program) -> None:
    """Neither one of the command nor one of a thread beside it."""
    ran = Program(segue.home, segue.cwd, segue.env, [sys.executable, "-c", BREAKS])()
    assert ran.code == 1
    assert ran.stderr.count("internal error") == 2
    assert ("KeyError" in ran.stderr, "ValueError" in ran.stderr) == (True, True)
    assert obeyed(ran.stdout + ran.stderr) == []


def test_only_one_module_writes() -> None:
    """Where it is written in one place, no command can forget to make it harmless."""
    cli = Path(__file__).parents[2] / "src" / "segue" / "cli"
    written = re.compile(
        r"(?<![\w.])print\(|\becho\(|std(?:out|err)(?:\.buffer)?\.write|\bConsole\(|\.confirm\(|\.prompt\("
    )
    doors = [path.name for path in cli.rglob("*.py") if written.search(path.read_text())]
    assert doors == ["output.py"]
