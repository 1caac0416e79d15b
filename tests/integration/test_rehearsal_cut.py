"""The rehearsal agent's sessions as Segue looks at them and cuts them, by its real process."""

import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from segue.agents.base import CutRequest, StoredSession
from segue.agents.rehearsal.adapter import AGENT
from segue.agents.rehearsal.format import FORMAT
from segue.core.request import Command, Request, RunPlace, Start
from segue.rehearsal.agent.store import Message, new_id

RUNTIME = AGENT.runtime(AGENT.facts.builtin, ())
SECONDS = 60
TOOL = "[[shell echo tool-ran]] [[say done]]"


@dataclass
class Talk:
    """A conversation in one native session, led as Segue leads it; ``anchors`` are the ends of its turns."""

    root: Path
    session: str = ""
    anchors: list[str] = field(default_factory=list)

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def found(self) -> StoredSession:
        found = FORMAT.find(self.home, self.session, self.root)
        assert found is not None
        return found

    @property
    def end(self) -> str:
        end = FORMAT.end(self.found)
        assert end is not None
        return end

    @property
    def texts(self) -> list[str]:
        """What the session holds, which is what the model is sent."""
        return [message.text for message in messages(self.found.path)]

    def command(self, prompt: str, start: Start) -> Command:
        request = Request(prompt=prompt, cwd=self.root, start=start, permission="full")
        return AGENT.command(request, RUNTIME, RunPlace(self.root))

    def run(self, prompt: str, start: Start, code: int = 0) -> str:
        made = self.command(prompt, start)
        ran = subprocess.run(
            made.argv, input=made.stdin, cwd=self.root, env=self.env, capture_output=True, timeout=SECONDS
        )
        assert ran.returncode == code, ran.stderr
        return str(msgspec.json.decode(ran.stdout.splitlines()[-1]).get("text", ""))

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": "/usr/bin:/bin", "REHEARSAL_HOME": str(self.home)}

    def say(self, prompt: str, code: int = 0) -> str:
        start = Start("resume", self.session) if self.session else Start(new_id=new_id())
        if self.session:
            FORMAT.make_resumable(self.found, RUNTIME)
        answer = self.run(prompt, start, code)
        self.session = self.session or start.new_id or ""
        self.anchors.append(self.end)
        return answer

    def branch(self, turn: int, prompt: str) -> tuple["Talk", str]:
        """Cut behind a turn (0 is the first) and go on from there; the original must stay as it is."""
        whole = self.found.path.read_bytes()
        request, new = Request(prompt="", cwd=self.root), new_id()
        anchor = self.anchors[turn]
        start = FORMAT.cut(
            self.found,
            CutRequest(anchor=anchor, new_id=new, home=self.home, request=request, runtime=RUNTIME),
        )
        assert start is not None
        answer = self.run(prompt, start)
        other = Talk(self.root, new, self.anchors[: turn + 1])
        assert FORMAT.continues(other.found, anchor)
        assert self.found.path.read_bytes() == whole
        other.anchors.append(other.end)
        return other, answer


def messages(path: Path) -> list[Message]:
    return [msgspec.json.decode(line, type=Message) for line in path.read_bytes().splitlines()[1:]]


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    return Talk(tmp_path)


def test_every_turn_moves_the_end_and_nothing_else_does(talk: Talk) -> None:
    for prompt in ("remember number 1", TOOL, "remember number 3"):
        talk.say(prompt)
        assert talk.end == talk.end == talk.anchors[-1]
    assert len(set(talk.anchors)) == 3
    talk.say("[[error 400]]", code=1)
    assert talk.end not in talk.anchors[:3]
    assert talk.branch(2, "what numbers?")[1] == "1, 3"


def test_a_branch_knows_what_was_kept_and_nothing_that_was_cut(talk: Talk) -> None:
    for prompt in ("remember number 111", TOOL, "remember number 333", "remember number 444"):
        talk.say(prompt)
    assert talk.branch(0, "what numbers?")[1] == "111"
    other, _ = talk.branch(1, "remember number 555")
    assert other.say("what numbers?") == "111, 555"
    assert other.texts[:6] == talk.texts[:6]
    assert other.texts.count("tool-ran") == 1
    again, answer = other.branch(0, "what numbers?")
    assert (answer, again.say("[[recall number \\d+]]")) == ("111", "number 111")
    assert other.branch(2, "what numbers?")[1] == "111, 555"


def test_ten_turns_with_tools_hold_each_call_and_each_result_once(talk: Talk) -> None:
    for turn in range(10):
        talk.say(f"[[shell echo tool-{turn}-ran]] [[say done]]")
    held = messages(talk.found.path)
    calls = [message for message in held if message.kind == "call"]
    results = [message.text for message in held if message.kind == "result"]
    assert (len(calls), results) == (10, [f"tool-{turn}-ran" for turn in range(10)])


@pytest.mark.parametrize(
    ("work", "kind"), [("[[shell echo tool-ran]] [[hang]]", "result"), ("[[shell sleep 60]]", "call")]
)
def test_killed_in_mid_turn_its_end_is_a_place_to_go_on_from(talk: Talk, work: str, kind: str) -> None:
    talk.say("remember number 111")
    made = talk.command(work, Start("resume", talk.session))
    pipe = subprocess.PIPE
    with subprocess.Popen(made.argv, cwd=talk.root, env=talk.env, stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None
        try:
            process.stdin.write(made.stdin)
            process.stdin.flush()
            for _ in range(SECONDS * 20):
                if messages(talk.found.path)[-1].kind == kind:
                    break
                time.sleep(0.05)
        finally:
            process.kill()
    held = messages(talk.found.path)
    assert held[-1].kind == kind
    talk.anchors.append(talk.end)
    other, answer = talk.branch(1, "what number?")
    assert (answer, other.texts[: len(held)]) == ("111", talk.texts)
    assert other.say("what number?") == "111"
    clean, answer = talk.branch(0, "what number?")
    assert (answer, work in clean.texts) == ("111", False)
    assert talk.say("what number?") == "111"
    assert talk.texts.count(work) == 1


def test_a_fork_that_was_not_cut_is_seen(talk: Talk) -> None:
    talk.say("remember number 1")
    talk.say("remember number 2")
    fork = Talk(talk.root, new_id())
    talk.run("what numbers?", Start("fork", talk.session, new_id=fork.session))
    assert [FORMAT.continues(fork.found, anchor) for anchor in talk.anchors] == [False, True]


def test_a_torn_last_line_does_not_count(talk: Talk) -> None:
    talk.say("remember number 1")
    with talk.found.path.open("ab") as file:
        file.write(b'{"type":"message","id":"torn')
    assert talk.end == talk.anchors[0]
    assert talk.branch(0, "what number?")[1] == "1"
    assert talk.say("what number?") == "1"


def test_a_long_session_is_looked_at_as_fast_as_a_shorter_one(talk: Talk) -> None:
    """The agent itself reads all of it; looking reads the end."""
    talk.say("remember number 1")
    path = talk.found.path
    header, *lines = path.read_bytes().splitlines(keepends=True)

    def looks(before: int) -> float:
        old = [Message(new_id(), "text", "user", "x" * 20) for _ in range(before)]
        path.write_bytes(b"".join([header, *(msgspec.json.encode(line) + b"\n" for line in old), *lines]))
        assert talk.end == talk.anchors[0]
        times = []
        for _ in range(100):
            began = time.perf_counter()
            FORMAT.find(talk.home, talk.session, talk.root)
            times.append(time.perf_counter() - began)
        return min(times)

    assert looks(10_000) < looks(500) * 3
    assert talk.branch(0, "what number?")[1] == "1"
