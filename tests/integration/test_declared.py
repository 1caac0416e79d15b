"""Agents that a user declared: whether their tools ran is not known, and what may have done something is not
run again by our doing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.database import database
from tests.integration.conftest import Program
from tests.integration.talk import Spoke, Talk

TOOL = """\
import json, sys, time
from pathlib import Path

said = lambda **record: print(json.dumps(record), flush=True)
prompt, way = sys.stdin.read(), sys.argv[1:]
with open("heard", "a") as heard:
    heard.write(json.dumps({"way": way, "prompt": prompt}) + "\\n")
order = prompt.splitlines()[-1]
if "gone" in order and way:
    sys.exit("no such session")
said(type="init", session="other" if "elsewhere" in order and way else way[0] if way else "s1")
if "deploy" in order:
    said(type="tool", name="deploy")
    with open("deployed", "a") as deployed:
        deployed.write("x")
if "hang" in order:
    time.sleep(60)
for word, code in {"full": "context", "limit": "limit"}.items():
    if word in order and (way or "always" in order):
        said(type="error", code=code, message="it is " + word)
        sys.exit(1)
said(type="message", text="done")
"""
DECLARED = """\
[defaults]
agent = "mytool"
[agents.mytool]
command = [{program}]
resume_command = [{program}, "{{session_id}}"]
stdin = "prompt"
output = "jsonl"
session_id = {{ path = "$.session", when = {{ type = "init" }} }}
text = {{ path = "$.text", when = {{ type = "message" }} }}
error = [
  {{ path = "$.message", when = {{ code = "context" }}, kind = "context_exceeded" }},
  {{ path = "$.message", when = {{ code = "limit" }}, kind = "rate_limited" }},
  {{ pattern = "no such session", stream = "stderr", kind = "session_rejected" }},
]
"""
TELLS = '[agents.mytool.tool]\npath = "$.name"\nwhen = { type = "tool" }\n'
"""The place where it says which tools it calls."""
UNKNOWN = (
    "it is not known whether it did anything, so it was not run a second time with the conversation as text"
)


class Told(Talk):
    """A conversation with the declared agent, which notes what it hears."""

    @property
    def deployed(self) -> int:
        file = self.segue.cwd / "deployed"
        return len(file.read_text()) if file.exists() else 0

    def heard(self) -> list[dict[str, object]]:
        import msgspec

        return [msgspec.json.decode(line) for line in (self.segue.cwd / "heard").read_bytes().splitlines()]

    def last(self) -> tuple[list[str], str]:
        """How it was called last, and what it was sent."""
        heard = self.heard()[-1]
        assert isinstance(heard["way"], list)
        return heard["way"], str(heard["prompt"])


def talking(segue: Program, tmp_path: Path, more: str = "") -> Told:
    script = tmp_path / "mytool.py"
    script.write_text(TOOL)
    segue.config(DECLARED.format(program=f'"{sys.executable}", "{script}"') + more)
    return Told(segue)


@pytest.fixture
def talk(segue: Program, tmp_path: Path) -> Told:
    return talking(segue, tmp_path)


@pytest.fixture
def telling(segue: Program, tmp_path: Path) -> Told:
    return talking(segue, tmp_path, TELLS)


def modes(spoke: Spoke) -> list[str]:
    return [each["mode"] for each in spoke.turn["attempts"]]


def test_whether_tools_ran_is_not_known_unless_the_declaration_says_where_to_look(
    segue: Program, tmp_path: Path
) -> None:
    assert talking(segue, tmp_path).run("deploy").turn["tools_run"] is None
    told = talking(segue, tmp_path, TELLS)
    assert (told.run("deploy").turn["tools_run"], told.run("hi").turn["tools_run"]) == (1, 0)
    events = told("run", "deploy", "--events").stdout
    assert '"type":"tool-call"' in events
    assert '"name":"deploy"' in events


def test_what_may_have_been_deployed_is_not_deployed_again(talk: Told) -> None:
    talk.run("hi")
    full = talk.run("deploy, full", code=1)
    assert (talk.deployed, modes(full), full.turn["tools_run"]) == (1, ["resume"], None)
    failure = full.turn["failure"]
    assert failure["kind"] == "context_exceeded"
    assert failure["message"] == f"it is full; {UNKNOWN}"
    assert full.turn["next"] == f"segue retry t {full.turn['message']}"
    after = talk.run("what now?")
    assert (after.mode, talk.deployed) == ("replay", 1)
    assert "interrupted, what was done is not known" in talk.last()[1]


def test_what_is_known_to_have_deployed_nothing_steps_down(telling: Told) -> None:
    telling.run("hi")
    full = telling.run("deploy, full", code=1)
    assert (telling.deployed, modes(full), full.turn["tools_run"]) == (1, ["resume"], 1)
    assert UNKNOWN not in full.turn["failure"]["message"]
    telling.run("once more", "--fresh-session")
    stepped = telling.run("say it, full")
    assert (modes(stepped), stepped.turn["tools_run"]) == (["resume", "replay"], 0)


def test_a_refused_session_is_not_run_again_but_the_next_turn_sends_text(talk: Told) -> None:
    talk.run("remember 456")
    gone = talk.run("gone", code=1)
    failure = gone.turn["failure"]
    assert (failure["kind"], modes(gone)) == ("session_rejected", ["resume"])
    assert failure["message"] == f"no such session; {UNKNOWN}"
    assert gone.turn["next"] == f"segue retry t {gone.turn['message']}"
    plain = talk("run", "and now?", "--json")
    assert plain.turn["mode"] == "replay", "the refused session is not tried a second time"
    lost = "mytool refused it when it was last resumed"
    assert plain.turn["notices"] == [f"{lost}; sent the conversation as text instead"]
    assert f"Your earlier session is lost ({lost})" in talk.last()[1]
    assert "remember 456" in talk.last()[1]


def test_the_retry_of_what_was_refused_sends_text(talk: Told) -> None:
    talk.run("remember 456")
    gone = talk.run("gone", code=1)
    assert talk.why()["mode"] == "replay"
    again = talk.retry(gone.turn["message"])
    way, prompt = talk.last()
    assert (again.mode, again.text, way) == ("replay", "done", [])
    assert "remember 456" in prompt
    assert prompt.count("what it did is not known; look before repeating") == 1


def test_a_refused_session_steps_down_where_tools_are_told(telling: Told) -> None:
    telling.run("hi")
    gone = telling.run("gone")
    assert (modes(gone), gone.turn["tools_run"]) == (["resume", "replay"], 0)


def test_an_answer_in_another_session_is_not_run_again(talk: Told) -> None:
    talk.run("hi")
    moved = talk.run("deploy elsewhere", code=1)
    assert (talk.deployed, modes(moved), moved.turn["failure"]["kind"]) == (1, ["resume"], "session_rejected")


def test_a_timeout_keeps_the_session_and_sends_the_message_once_more(talk: Told) -> None:
    talk.run("hi")
    stopped = talk.run("deploy, hang", "--timeout", "3", code=124)
    assert (stopped.turn["tools_run"], stopped.turn["next"]) == (None, 'segue run t "go on"')
    after = talk.run("what now?")
    way, prompt = talk.last()
    assert (after.mode, way) == ("resume", ["s1"])
    assert prompt.count("deploy, hang") == 1, "whether the session kept it is not known"
    assert "interrupted, what was done is not known" in prompt
    assert talk.deployed == 1
    assert talk.run("and now?").mode == "resume"
    assert "deploy" not in talk.last()[1]


def test_a_timeout_of_a_first_turn_keeps_the_session_too(talk: Told) -> None:
    stopped = talk.run("deploy, hang", "--timeout", "3", code=124)
    assert stopped.turn["session_id"] == "s1"
    after = talk.run("what now?")
    way, prompt = talk.last()
    assert (after.mode, way) == ("resume", ["s1"])
    assert prompt.count("deploy, hang") == 1
    assert "interrupted, what was done is not known" in prompt
    assert talk.run("and now?").mode == "resume"
    assert "deploy" not in talk.last()[1]


def test_a_first_turn_that_is_retried_after_a_timeout_hears_its_message_again(talk: Told) -> None:
    stopped = talk.run("hang, remember 456", "--timeout", "3", code=124)
    talk("edit", stopped.turn["message"], "remember 456")
    again = talk.retry(stopped.turn["message"])
    assert again.text == "done"
    assert talk.last()[1].endswith("remember 456")
    talk.run("hang, as before", "--timeout", "3", "--fresh-session", code=124)
    talk.retry("--timeout", "3", code=124)
    way, prompt = talk.last()
    assert way == ["s1"]
    assert prompt.endswith("hang, as before")
    assert "what it did is not known; look before repeating" in prompt


def test_nothing_of_unknown_effect_is_retried_by_itself(talk: Told) -> None:
    ran = talk("run", "deploy, limit always", "--retries", "3", "--json", code=75)
    assert (talk.deployed, ran.turn["earlier"], ran.turn["tools_run"]) == (1, [], None)
    assert "not retried: it is not known whether it did anything" in ran.stderr
    same = talk.run("deploy, limit always", code=75)
    assert (same.turn["retry_of"], same.turn["message"] != ran.turn["message"]) == (None, True)


def test_what_is_known_to_have_done_nothing_is_retried(telling: Told) -> None:
    ran = telling("run", "limit always", "--retries", "1", "--json", code=75)
    assert (len(ran.turn["earlier"]), ran.turn["tools_run"]) == (1, 0)
    assert telling.run("limit always", code=75).turn["retry_of"] == ran.turn["run"]


def test_people_are_told_to_look_first(talk: Told) -> None:
    said = talk("run", "deploy, limit always", code=75).stderr
    assert "What the agent did is not known: check before you retry with: segue retry t " in said
    assert "what it did is not known" in talk("log").stdout


def test_an_answer_in_fragments_is_stored_with_the_messages_only(segue: Program) -> None:
    segue.config('[defaults]\nagent = "plain"\n[agents.plain]\ncommand = ["cat"]\nstdin = "prompt"\n')
    assert Talk(segue).run("one\ntwo").text == "one\ntwo"
    with database(segue.home / "segue.db") as store:
        events = [event for (event,) in store.execute("SELECT event FROM events")]
    assert [event for event in events if '"type":"text"' in event] == []


def test_an_untrusted_file_cannot_give_an_option_as_the_model(segue: Program, tmp_path: Path) -> None:
    """Some programs read ``--model --yolo`` as two options."""
    tool = tmp_path / "tool"
    tool.write_text('#!/bin/sh\ncat >/dev/null\necho "got: $*"\n')
    tool.chmod(0o755)
    segue.config(f'[agents.tool]\ncommand = ["{tool}", ["--model", "{{model}}"]]\nstdin = "prompt"\n')
    (segue.cwd / "segue.toml").write_text('[defaults]\nmodel = "--yolo"\n')
    ran = segue("run", "t", "hello", "--agent", "tool")
    assert (ran.code, "--yolo" in ran.stdout) == (0, False), ran.stderr
    assert "[defaults] model is ignored, because this directory is not trusted" in ran.stderr
