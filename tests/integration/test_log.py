"""``segue log`` and ``segue ls``: the dialogue and the list, for people and for programs."""

from __future__ import annotations

import re
from pathlib import Path

import anyio
import msgspec

from segue.app.segue import Segue
from tests.integration.conftest import Program
from tests.integration.talk import OTHER, Talk, rehearsing
from tests.integration.terminals import beside_our_own, left_on_screen, on_terminal
from tests.integration.test_robust import declare


def test_the_objects(segue: Program) -> None:
    talk = rehearsing(segue, OTHER)
    talk.run("remember number 1", "--role", "coder")
    talk.run("what number?", "--agent", "other", "--role", "none")
    talk.run("[[error 401]]", code=1)
    first, answer, third, fourth, failed = talk.log()
    keys = (
        "id n from agent role account text revision edited created blank kind run mode status model usage "
        "cost_usd cost_estimated saved_usd sent state recovery failure attachments duration_ms tools_run "
        "notices notice_clauses context predicted_usd versions"
    )
    assert set(first) == set(keys.split())
    assert [row["n"] for row in talk.log()] == [1, 2, 3, 4, 5]
    assert (first["from"], first["agent"], first["role"], first["mode"]) == (
        "user",
        "rehearsal",
        "coder",
        None,
    )
    assert (answer["from"], answer["mode"], answer["status"]) == ("assistant", "fresh", "ok")
    assert answer["usage"]["cache_write"] > 0
    assert answer["sent"]["text_messages"] == 1
    assert len(answer["run"]) == 26
    assert (third["agent"], third["role"]) == ("other", None)
    assert (fourth["text"], fourth["mode"]) == ("1", "replay")
    assert (failed["status"], failed["failure"]["message"]) == ("failed", "the model answered 401")


def test_the_lines(segue: Program) -> None:
    talk = rehearsing(segue, OTHER)
    talk.run("remember number 1")
    talk.run("what number?")
    talk("edit", "#3", "what numbers?")
    talk.run("[[say branched]]")
    talk.run("hello", "--agent", "other")
    talk.run("[[error 401]]", code=1)
    lines = talk("log").stdout.splitlines()
    starts = [" ".join(line.split()[:4]) for line in lines]
    assert starts[:6] == [
        "#1 you remember number",
        "#2 rehearsal fresh Noted:",
        "#3 you what numbers?",
        "#4 rehearsal resume 1",
        "#5 you [[say branched]]",
        "#6 rehearsal branch branched",
    ]
    assert "(edited)" in lines[2]
    assert "↳ from #2" in lines[5]
    assert lines[6].startswith("#7  you → other")
    assert lines[9] == "    ✗ the model answered 401; what it did is not known"
    assert lines[-1].strip().startswith("total ")
    assert {len(line) for line in lines if line.endswith("just now")} == {120}, "the right edge is straight"


def test_what_nothing_is_left_of_was_paid_for_all_the_same(segue: Program) -> None:
    talk = rehearsing(segue)
    talk.run("remember number 1")
    paid = talk("log").stdout.splitlines()[-1].split()
    assert paid[0] == "total"
    talk("truncate", "#1")
    ran = talk("log")
    assert ran.stdout.split() == ["dropped:", "1", "turn", "·", *paid[1:]]
    assert "t has no messages yet" in ran.stderr
    talk.run("remember number 2")
    _, answer, total, dropped = talk("log").stdout.splitlines()
    assert total.split()[0] == "total"
    assert f" {total.split()[1]} " in answer, "the only row is all there is to sum up"
    assert dropped.split() == ran.stdout.split()


def test_a_cost_that_is_estimated_says_so_everywhere(segue: Program, tmp_path: Path) -> None:
    script = """echo '{"type":"text","text":"hi","in":1000000,"out":1000000,"model":"made-1"}'\n"""
    more = 'usage = { input = "$.in", output = "$.out" }\n[prices."made-*"]\ninput = 2.0\noutput = 8.0\n'
    declare(segue, tmp_path, script, more)
    segue("run", "sure", 'say "cost_estimated":true', "--agent", "rehearsal")
    segue("run", "mixed", "hi", "--agent", "rehearsal")
    segue("run", "mixed", "hi", "--agent", "made", "--model", "made-1")
    mixed, sure = (line.split() for line in segue("ls").stdout.splitlines()[1:])
    assert [mixed[0], mixed[4]] == ["mixed", "~$10.00"]
    assert "~" not in " ".join(sure)
    told = {row["key"]: row["cost_estimated"] for row in msgspec.json.decode(segue("ls", "--json").stdout)}
    assert told == {"mixed": True, "sure": False}
    assert " · ~$10.000" in segue("export", "mixed").stdout
    lines = msgspec.json.decode(segue("export", "mixed", "--json").stdout)["messages"]
    assert [line["cost_estimated"] for line in lines] == [None, False, None, True]
    assert segue("log", "mixed").stdout.splitlines()[-1].strip().startswith("total 2M · ~$10.0")


def test_the_whole_text_stands_below_with_full(segue: Program) -> None:
    talk = rehearsing(segue)
    talk.run("first line\n\n  second line")
    lines = talk("log", "--full").stdout.splitlines()
    assert lines[1:4] == ["    first line", "", "      second line"]


def test_a_terminal_obeys_nothing_that_was_said(segue: Program) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x9b5A\x08bell\x07\u202eturned [[say \x1b[31mred\x1b[0m]]"
    talk = rehearsing(segue)
    talk.run(evil)
    for args in (("log", "t"), ("log", "t", "--full"), ("ls",), ("export", "t"), ("why", "t")):
        code, output = on_terminal(segue, *args)
        assert code == 0
        assert beside_our_own(output.replace("\x1b[1m", "")) == [], args


def test_a_narrow_terminal_gets_lines_that_fit(segue: Program) -> None:
    talk = rehearsing(segue)
    talk.run("日本語" * 60)
    talk.run("x" * 300)
    for columns in (200, 80, 60, 44):
        for command in ("log", "ls"):
            args = (command, "t") if command == "log" else (command,)
            _, output = on_terminal(segue, *args, columns=columns)
            widths = [sum(2 if ord(c) > 0x2E80 else 1 for c in line) for line in left_on_screen(output)]
            assert max(widths) <= columns, (command, columns, output)


def conversations(segue: Program, count: int) -> None:
    """So many conversations, made by the library: quicker than so many programs."""

    async def go() -> None:
        async with Segue(home=segue.home, env=segue.env) as door:
            line = {"from": "user", "agent": "rehearsal"}
            for number in range(count):
                export = {"schema": 1, "key": f"k/{number}", "messages": [{**line, "text": f"say {number}"}]}
                await door.import_(msgspec.json.encode(export))

    anyio.run(go)


def test_three_hundred_conversations_are_a_list(segue: Program) -> None:
    conversations(segue, 300)
    rows = msgspec.json.decode(segue("ls", "--json").stdout)
    assert len(rows) == 300
    used = [row["last_used"] for row in rows]
    assert used == sorted(used, reverse=True), "the last used first"
    assert set(rows[0]) == {
        *("key", "title", "agents", "agent", "account", "model", "role", "cwd", "messages", "status"),
        *("created", "last_used", "tokens", "cost_usd", "cost_estimated", "saved_usd", "forked_from"),
        *("state", "recovery", "starred", "unread", "allowed_tools", "asks", "until", "failure", "context"),
        "queued",
    }
    lines = segue("ls").stdout.splitlines()
    assert len(lines) == 301
    assert lines[0].split() == ["conversation", "agents", "messages", "cost", "last", "used", "title"]
    assert lines[1].startswith(rows[0]["key"])
    assert lines[1].endswith(rows[0]["title"])


def test_an_empty_list_says_how_to_begin(segue: Program) -> None:
    ran = segue("ls")
    assert (ran.code, ran.stdout) == (0, "")
    assert ran.stderr == 'No conversations yet. Start one: segue run hello "hi"\n'
    assert segue("ls", "--json").stdout == "[]\n"


def test_the_list_marks_what_failed(segue: Program) -> None:
    talk = rehearsing(segue)
    talk.run("[[error 401]]", code=1)
    Talk(segue, "good").run("hi")
    lines = segue("ls").stdout.splitlines()
    assert [("✗" in line) for line in lines] == [False, False, True]
    assert msgspec.json.decode(segue("ls", "--json").stdout)[1]["status"] == "failed"


def test_every_field_is_written_down(segue: Program) -> None:
    page = (Path(__file__).parents[2] / "docs" / "output.md").read_text()
    talk = rehearsing(segue)
    turn = talk.run("remember number 1").turn
    listed = msgspec.json.decode(segue("ls", "--json").stdout)[0]
    exported = msgspec.json.decode(talk("export", "--json").stdout)
    fields = {*turn, *talk.why(), *talk.log()[0], *listed, *exported, *exported["messages"][0]}
    assert not [name for name in sorted(fields) if not re.search(rf"\b{name}\b", page)]
