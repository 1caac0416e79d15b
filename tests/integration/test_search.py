"""``segue sessions search`` on sessions of two agents, from outside."""

from __future__ import annotations

import os
import pty
import subprocess
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.integration.conftest import SEGUE, Program, Result

SESSION = "11111111-2222-4333-8444-555555555555"


def claude(home: Path, cwd: Path, *messages: tuple[str, Any], session: str = SESSION) -> Path:
    """A session of Claude as its CLI writes it, in its default home."""
    folder = home / ".claude" / "projects" / "-some-folder"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{session}.jsonl"
    path.write_bytes(b"".join(record(cwd, number, *each) for number, each in enumerate(messages)))
    return path


def record(cwd: Path, number: int, role: str, content: Any) -> bytes:
    own, parent = (f"00000000-0000-4000-8000-{each:012}" for each in (number + 1, number))
    fields = {
        "parentUuid": parent if number else None,
        "isSidechain": False,
        "cwd": str(cwd),
        "sessionId": SESSION,
        "version": "2.1.325",
        "type": role,
        "message": {"role": role, "content": content},
        "uuid": own,
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - 3600 + number)),
    }
    return msgspec.json.encode(fields) + b"\n"


def call(command: str) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": command}}]


def returned(output: str) -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": "toolu_1", "content": output}]


def found(result: Result) -> list[dict[str, Any]]:
    assert result.code == 0, result.stderr
    decoded: list[dict[str, Any]] = msgspec.json.decode(result.stdout)
    return decoded


@pytest.fixture
def talked(segue: Program) -> Program:
    """Two agents, one matter."""
    claude(
        segue.home.parent,
        segue.cwd,
        ("user", "please fix the expired token"),
        ("assistant", call("grep -rn refresh_token src")),
        ("user", returned("src/auth.py:12: def refresh_token(self)")),
        ("assistant", [{"type": "text", "text": "The token of Zoë is refreshed now."}]),
    )
    done = segue("run", "k", "what about the token", "--agent", "rehearsal", "--quiet")
    assert done.code == 0, done.stderr
    return segue


def test_all_agents_are_searched(talked: Program) -> None:
    hits = found(talked("sessions", "search", "token", "--json"))
    assert {hit["agent"] for hit in hits} == {"claude", "rehearsal"}
    for hit in hits:
        assert list(hit) == [
            *("agent", "account", "session", "path", "cwd", "place", "kind"),
            *("at", "snippet", "highlights", "score"),
        ]
        assert {hit["snippet"][a:b].lower() for a, b in hit["highlights"]} <= {"token", "refresh_token"}
        assert hit["cwd"] == str(talked.cwd)
        assert Path(hit["path"]).exists()


def test_a_match_leads_to_its_message(talked: Program) -> None:
    (hit,) = found(talked("sessions", "search", '"token of zoe"', "--json"))
    shown = talked("sessions", "show", hit["session"], "--at", hit["place"], "--json")
    assert shown.code == 0, shown.stderr
    events = msgspec.json.decode(shown.stdout.splitlines()[0])["events"]
    assert events[-1]["text"] == "The token of Zoë is refreshed now."


def test_the_lines_say_how_to_get_there(talked: Program) -> None:
    done = talked("sessions", "search", "expired", "token")
    assert done.code == 0, done.stderr
    assert "please fix the [expired] [token]" in done.stdout
    assert "segue sessions show 11111111 --at 0.0" in done.stdout
    assert done.stdout.startswith("claude · 11111111 · ")
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("options", "agents"),
    [
        (["--agent", "claude"], {"claude"}),
        (["--agent", "rehearsal"], {"rehearsal"}),
        (["--agent", "rehearsal", "--agent", "claude"], {"claude", "rehearsal"}),
        (["--in", "tool"], {"claude"}),
        (["--here"], {"claude", "rehearsal"}),
        (["--since", "10min"], {"rehearsal"}),
        (["--since", "7d"], {"claude", "rehearsal"}),
        (["--since", "2999-01-01"], set()),
    ],
)
def test_narrowing_down(talked: Program, options: list[str], agents: set[str]) -> None:
    hits = found(talked("sessions", "search", "token", "--json", *options))
    assert {hit["agent"] for hit in hits} == agents


def test_here_is_not_elsewhere(talked: Program) -> None:
    talked.cwd = talked.cwd.parent / "elsewhere"
    talked.cwd.mkdir()
    assert found(talked("sessions", "search", "token", "--json", "--here")) == []


def test_what_is_not_indexed_yet(talked: Program) -> None:
    assert found(talked("sessions", "search", "token", "--json", "--no-index")) == []
    assert found(talked("sessions", "search", "token", "--json"))
    session = next((talked.home.parent / ".claude" / "projects").rglob("*.jsonl"))
    with session.open("ab") as file:
        file.write(record(talked.cwd, 4, "user", "and a brandnew word"))
    assert found(talked("sessions", "search", "brandnew", "--json", "--no-index")) == []
    (hit,) = found(talked("sessions", "search", "brandnew", "--json"))
    assert hit["snippet"] == "and a brandnew word"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["…"], "no words to search for"),
        (["x", "--since", "yesterday"], "--since yesterday"),
        (["x", "--agent", "nobody"], 'no agent "nobody"'),
        (["x", "--in", "air"], "air"),
        (["x", "--limit", "0"], "0"),
    ],
)
def test_misuse_is_one_line(segue: Program, args: list[str], said: str) -> None:
    done = segue("sessions", "search", *args)
    assert done.code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_nothing_found_is_no_failure(segue: Program) -> None:
    done = segue("sessions", "search", "whatever")
    assert (done.code, done.stdout) == (0, "")
    assert "Nothing found" in done.stderr
    assert found(segue("sessions", "search", "whatever", "--json")) == []


def test_a_damaged_index_is_no_failure(talked: Program) -> None:
    assert found(talked("sessions", "search", "token", "--json"))
    (talked.home / "index.db").write_bytes(b"no database" * 1_000)
    assert found(talked("sessions", "search", "token", "--json"))


def test_the_list_of_two_searches_at_once_is_whole(talked: Program) -> None:
    running = [talked.start("sessions", "search", "token", "--json") for _ in range(4)]
    answers = [process.communicate(timeout=60) for process in running]
    for process, (stdout, stderr) in zip(running, answers, strict=True):
        assert process.returncode == 0, stderr
        assert {hit["agent"] for hit in msgspec.json.decode(stdout)} == {"claude", "rehearsal"}


def test_matches_are_bold_on_a_terminal(talked: Program) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*SEGUE, "sessions", "search", "expired"],
        cwd=talked.cwd,
        env={**talked.env, "TERM": "xterm-256color"},
        stdin=subprocess.DEVNULL,
        stdout=slave,
        stderr=subprocess.PIPE,
    )
    _, stderr = process.communicate(timeout=60)
    os.close(slave)
    shown = os.read(master, 65536).decode()
    os.close(master)
    assert process.returncode == 0, stderr
    assert "please fix the \x1b[1mexpired\x1b[0m token" in shown
