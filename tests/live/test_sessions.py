"""``segue sessions`` on what the real CLIs wrote, old versions and new."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.clis import CLIS
from tests.live.talk import MOST, Talk

FIRST = "remember number 456 for zebra"
SECOND = "[[shell echo from-the-giraffe && seq 100000 100400]] [[say done]]"


def told(talk: Talk, *args: str) -> Any:
    said = talk("sessions", *args, "--json")
    assert said.code == 0, (said.stdout[-1000:], said.stderr[-1000:])
    return msgspec.json.decode(said.stdout)


@pytest.mark.parametrize("talk", MOST, indirect=True)
def test_what_the_cli_wrote_is_found_read_searched_checked_repaired_and_pruned(talk: Talk) -> None:
    agent = talk.env["SEGUE_DEFAULTS_AGENT"]
    talk.run(FIRST, "--permission", "full")
    before = talk.run(SECOND, "--permission", "full")
    session = str(before.turn["session_id"])
    assert before.mode == "resume", (before.failed(), before.turn["attempts"])

    (row,) = [row for row in told(talk, "ls") if row["id"] == session]
    assert (row["agent"], row["conversation"], row["pinned"], row["ours"]) == (agent, "t", True, True)
    assert row["cwd"] == str(talk.cwd)
    assert row["title"]
    assert row["first_prompt"] == FIRST
    assert row["last_prompt"] == SECOND
    assert row["messages"] == 4 or row["messages_estimated"]
    assert row["trouble"] is None
    assert row["last_used"] >= row["created"] > 1_700_000_000_000

    page = told(talk, "show", session)
    said = [event for event in page["events"] if not event.get("inserted")]
    assert [event["text"] for event in said if event["kind"] == "user"] == [FIRST, SECOND]
    (call,) = [event for event in said if event["kind"] == "call"]
    (result,) = [event for event in said if event["kind"] == "result"]
    assert call["call"] == result["call"]
    assert "from-the-giraffe" in result["text"]
    assert "a resume restores: 4 messages, 1 tool call" in talk("sessions", "show", session).stdout

    (hit,) = [hit for hit in told(talk, "search", "zebra", "--in", "text") if hit["session"] == session]
    assert "zebra" in hit["snippet"]
    assert any(hit["session"] == session for hit in told(talk, "search", "giraffe", "--in", "tool"))
    assert "▸" in talk("sessions", "show", session, "--at", hit["place"]).stdout

    (row,) = [row for row in told(talk, "ls") if row["id"] == session]
    assert (row["messages"], row["messages_estimated"]) == (4, False)

    checked = told(talk, "check", session)
    assert checked["sound"] is True, checked["findings"]

    repaired = told(talk, "repair", session, "--trim")
    assert repaired["rehearsed"] is True, repaired
    assert repaired["conversation"] == "t"
    turn = talk.run("what number?")
    assert turn.mode == "resume", turn.failed()
    assert "456" in turn.text
    assert "100399" in before.sent
    assert "100399" not in turn.sent

    assert session not in talk("sessions", "prune", "--yes").stdout
    kept = {row["id"] for row in told(talk, "ls")}
    assert session in kept
    assert told(talk, "prune", "--days", "0", "--json")["deleted"] is False


@pytest.mark.parametrize("talk", MOST, indirect=True)
def test_a_session_that_was_begun_by_hand_is_gone_on_with(talk: Talk) -> None:
    began = talk.run(FIRST, key="by-hand")
    session = str(began.turn["session_id"])
    assert talk("rm", "by-hand").code == 0
    turn = talk("sessions", "continue", session, "what number?", "--json")
    assert turn.code == 0, turn.stderr
    assert (turn.mode, turn.turn["resumed_from"]) == ("resume", session), turn.failed()
    assert "456" in turn.text
    assert turn.sent.count(FIRST) == 1
    key = turn.turn["conversation"]
    assert next(row["text"] for row in talk.log(key)) == FIRST
    assert talk.run("again", key=key).mode == "resume"


LOOKS = """#!/bin/sh
{program} "$@"
code=$?
case "$*" in *--resume*) {python} -c '
import os, urllib.request
key = {{"Authorization": "Bearer " + os.environ["ANTHROPIC_API_KEY"]}}
asked = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/rehearsal/log", headers=key)
print(urllib.request.urlopen(asked).read().decode())
' >> {seen};; esac
exit $code
"""


@pytest.mark.parametrize("talk", [("claude", CLIS["claude"].newest)], indirect=True)
def test_the_rehearsal_of_a_repair_keeps_no_log(talk: Talk, tmp_path: Path) -> None:
    session = str(talk.run(FIRST).turn["session_id"])
    link, seen = Path(talk.env["PATH"].split(os.pathsep)[0]) / "claude", tmp_path / "seen"
    program = link.resolve()
    link.unlink()
    link.write_text(LOOKS.format(program=program, python=sys.executable, seen=seen))
    link.chmod(0o755)
    repaired = told(talk, "repair", session, "--trim")
    assert repaired["rehearsed"] is True, repaired
    assert seen.read_text() == "[]\n"
