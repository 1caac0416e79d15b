"""A conversation under another account: nothing crosses without consent, and what does crosses once."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from tests.clis import CLIS
from tests.live.api import serving
from tests.live.talk import CLAUDES, SLOWEST, Said, Talk, talking
from tests.live.test_switching import ready

OTHERS = [
    pytest.param(
        (agent, cli.newest), id=f"{agent}-{cli.newest}", marks=[pytest.mark.soak] if agent in SLOWEST else []
    )
    for agent, cli in CLIS.items()
    if agent != "claude"
]
NEWEST = [pytest.param(("claude", CLIS["claude"].newest), id="claude")]
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*Z?|\b1\d{12}\b")
OMITTED = "…[earlier turns omitted]…"


@pytest.fixture
def talk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Talk]:
    agent, version = request.param
    ready(agent, version)
    with talking(tmp_path, {agent: version}) as made:
        second_account(made, agent)
        made.agent = agent
        yield made


def second_account(talk: Talk, agent: str, name: str = "other") -> None:
    """Another account of the same agent, with a home of its own, that points at the same model."""
    file = talk.place / "segue" / "config.toml"
    known = tomllib.loads(file.read_text())["accounts"][agent]
    home = Path(known["home"]).with_name(f"{name}-home")
    source = Path(known["home"])
    if source.is_dir():  # what points the CLI at the model
        import shutil

        shutil.copytree(source, home, ignore=shutil.ignore_patterns("projects", "sessions", "tmp"))
    env = ", ".join(f"{key} = {msgspec.json.encode(value).decode()}" for key, value in known["env"].items())
    env = env.replace(str(source), str(home))
    talk.config(f'[accounts.{name}]\nagent = "{agent}"\nhome = "{home}"\nenv = {{ {env} }}')


def switched(talk: Talk, account: str, *options: str, key: str = "t") -> dict[str, Any]:
    said = talk("account", "switch", key, account, *options, "--json")
    assert said.code == 0, (said.stdout, said.stderr)
    return msgspec.json.decode(said.stdout.splitlines()[-1], type=dict[str, Any])


def told(talk: Talk) -> None:
    talk.run("remember number 456", "--agent", talk.agent, "--account", talk.agent)
    assert talk.run("what number?").text == "456"


def block_count(said: Said) -> int:
    return said.sent.count("What was said before, under another account.")


def comparable(said: Said) -> list[str]:
    """What the model was sent, but for what differs from one session to the next: ids and times."""
    asked = [each.body for each in said.requests if not each.side]
    bodies = [msgspec.json.encode(body, order="sorted").decode() for body in asked]
    return [MOMENT.sub("MOMENT", UUID.sub("ID", body)) for body in bodies]


@pytest.mark.parametrize("talk", [*CLAUDES, *OTHERS], indirect=True)
def test_with_consent_the_new_account_recalls_from_one_block(talk: Talk) -> None:
    told(talk)
    carried = switched(talk, "other", "--carry")["carried"]
    assert (carried["mode"], carried["turns"], carried["omitted"], carried["why"]) == ("raw", 2, False, "")
    first = talk.run("what number?")
    assert (first.mode, first.text, first.turn["account"]) == ("recap", "456", "other"), first.failed()
    assert block_count(first) == 1
    for _ in range(2):
        later = talk.run("what number?")
        assert (later.mode, later.text, block_count(later)) == ("resume", "456", 1)
        assert later.turn["sent"]["text_messages"] == 1
    switched(talk, talk.agent)
    back = talk.run("what number?")
    assert (back.mode, back.text, block_count(back)) == ("resume", "456", 0)
    (row,) = msgspec.json.decode(talk("account", "audit", "--json").stdout)
    assert (row["from_account"], row["to_account"], row["mode"]) == (talk.agent, "other", "raw")
    assert (row["bytes"], row["asked_by"]) == (carried["bytes"], "command line")


@pytest.mark.parametrize("talk", CLAUDES, indirect=True)
def test_the_block_is_sent_once_also_after_the_daemon_restarts(talk: Talk) -> None:
    with serving(talk):
        told(talk)
        assert switched(talk, "other", "--carry")["carried"]["mode"] == "raw"
        first = talk.run("what number?")
        assert (first.mode, first.text, block_count(first)) == ("recap", "456", 1), first.failed()
        assert talk.run("what number?").mode == "resume"
    with serving(talk):
        for _ in range(2):
            later = talk.run("what number?")
            assert (later.turn["transport"], later.mode, later.text) == ("daemon", "resume", "456")
            assert (block_count(later), later.turn["sent"]["text_messages"]) == (1, 1)


@pytest.mark.parametrize("talk", [*CLAUDES, *OTHERS], indirect=True)
def test_without_consent_the_new_model_sees_nothing(talk: Talk) -> None:
    told(talk)
    plain = talk.run("hello there", "--agent", talk.agent, "--account", "other", key="never")
    assert switched(talk, "other")["carried"] is None
    first = talk.run("hello there")
    assert first.mode == "fresh"
    assert "number 456" not in first.sent
    assert comparable(first) == comparable(plain), "as a first turn would be"
    assert any("not carried over" in notice for notice in first.turn["notices"])


@pytest.mark.parametrize("talk", NEWEST, indirect=True)
def test_naming_the_account_of_a_turn_is_a_switch_without_carry(talk: Talk) -> None:
    told(talk)
    first = talk.run("what number?", "--account", "other")
    assert (first.mode, "number 456" in first.sent) == ("fresh", False)
    assert any("segue account switch" in notice for notice in first.turn["notices"]), first.turn["notices"]
    back = talk.run("what number?", "--account", talk.agent)
    assert (back.mode, back.text) == ("resume", "456")
    talk.run("hello", "--account", "other")
    assert switched(talk, "other", "--carry")["carried"]["mode"] == "raw", "as the notice said"
    late = talk.run("what number?")
    assert (late.mode, late.text, block_count(late)) == ("resume", "456", 1)


@pytest.mark.parametrize("talk", NEWEST, indirect=True)
def test_what_was_edited_or_dropped_does_not_cross(talk: Talk) -> None:
    told(talk)
    talk.run("remember word zebra")
    talk.run("remember word okapi")
    assert talk("edit", "t", "#5", "remember word gazelle").code == 0
    assert talk("truncate", "t", "#7").code == 0
    switched(talk, "other", "--carry")
    first = talk.run("what did I say?")
    assert [word in first.sent for word in ("456", "gazelle", "zebra", "okapi")] == [True, True, False, False]


@pytest.mark.parametrize("damage", ["gone", "empty", "garbage"])
@pytest.mark.parametrize("talk", NEWEST, indirect=True)
def test_a_damaged_session_does_not_keep_anybody_from_switching(talk: Talk, damage: str) -> None:
    told(talk)
    (file,) = talk.home(talk.agent).rglob("projects/**/*.jsonl")
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(b"" if damage == "empty" else bytes(range(256)) * 400)
    carried = switched(talk, "other", "--carry")["carried"]
    assert (carried["mode"], carried["bytes"]) == ("none", 0)
    assert carried["why"]
    first = talk.run("what number?")
    assert (first.mode, "number 456" in first.sent) == ("fresh", False)


@pytest.mark.parametrize("talk", NEWEST, indirect=True)
def test_a_long_session_is_cut_to_the_limit_with_a_mark(talk: Talk) -> None:
    told(talk)
    for n in range(6):
        talk.run(f"[[say {'x' * 5000} end of {n}]]")
    carried = switched(talk, "other", "--carry")["carried"]
    assert carried["omitted"]
    assert 15_000 < carried["bytes"] <= 24_000
    first = talk.run("go on")
    assert (first.sent.count(OMITTED), "end of 5" in first.sent, "number 456" in first.sent) == (
        1,
        True,
        False,
    )


@pytest.mark.parametrize("talk", NEWEST, indirect=True)
def test_a_rule_forbids_it(talk: Talk) -> None:
    told(talk)
    talk.config('[carry]\nnever = [["claude", "other"]]')
    refused = talk("account", "switch", "t", "other", "--carry")
    assert (refused.code, refused.stdout) == (2, "")
    assert "never carried over" in refused.stderr
    assert talk.why()["account"] == "claude", "nothing was changed"
    switched(talk, "other")
    assert talk.run("what number?").mode == "fresh"


@pytest.mark.parametrize("talk", NEWEST, indirect=True)
def test_a_summary_is_written_under_the_old_account(talk: Talk) -> None:
    told(talk)
    before = sorted(talk.home(talk.agent).rglob("projects/**/*.jsonl"))
    done = talk("account", "switch", "t", "other", "--carry", "summary", "--json")
    carried = msgspec.json.decode(done.stdout)["carried"]
    assert (done.code, carried["mode"], carried["why"]) == (0, "summary", ""), done.stderr
    asked = [request for request in done.requests if not request.side]
    assert len(asked) == 1
    assert "Write only the summary" in msgspec.json.encode(asked[0].body).decode()
    assert sorted(talk.home(talk.agent).rglob("projects/**/*.jsonl")) == before, "it is not saved"
    assert [row["key"] for row in msgspec.json.decode(talk("ls", "--json").stdout)] == ["t"]
    first = talk.run("what number?")
    assert (first.mode, block_count(first), "[summary]" in first.sent) == ("recap", 1, True)


@pytest.mark.parametrize("talk", NEWEST, indirect=True)
def test_without_a_summary_the_turns_are_carried_over(talk: Talk) -> None:
    told(talk)
    assert talk("run", "t", "[[error 429]]").code == 75
    assert talk("truncate", "t", "#5").code == 0
    carried = switched(talk, "other", "--carry", "summary")["carried"]
    assert (carried["mode"], carried["cost_usd"]) == ("raw", None)
    assert "limited" in carried["why"]
    assert talk.run("what number?").text == "456"


def test_a_rule_holds_between_agents(tmp_path: Path) -> None:
    versions = {agent: CLIS[agent].newest for agent in ("claude", "codex")}
    for agent, version in versions.items():
        ready(agent, version)
    with talking(tmp_path, versions) as talk:
        talk.run("remember number 456", "--agent", "claude")
        assert talk.why("--agent", "codex")["mode"] == "replay"
        talk.config('[carry]\nnever = [["claude", "codex"]]')
        other = talk.run("what number?", "--agent", "codex")
        assert (other.mode, "number 456" in other.sent) == ("fresh", False)
        assert any("not carried over" in notice for notice in other.turn["notices"])
        back = talk.run("what number?", "--agent", "claude")
        assert (back.mode, back.text, back.turn["sent"]["text_messages"]) == ("resume", "456", 1)


@pytest.mark.parametrize("talk", CLAUDES, indirect=True)
@pytest.mark.parametrize(
    ("said", "numbers", "end"),
    [
        (f"remember number 456 {'x ' * 33_000} remember number 789", "456, 789", "remember number 789"),
        ("remember number 456 [[huge 29000]][[say THE END]]", "456", "THE END"),
    ],
    ids=["message", "answer"],
)
def test_one_turn_that_is_too_long_is_carried_without_its_middle(
    talk: Talk, said: str, numbers: str, end: str
) -> None:
    talk.run(said, "--agent", talk.agent, "--account", talk.agent)
    carried = switched(talk, "other", "--carry")["carried"]
    assert (carried["mode"], carried["turns"], carried["omitted"], carried["why"]) == ("raw", 1, False, "")
    assert 23_900 < carried["bytes"] <= 24_000
    first = talk.run("what numbers?")
    assert (first.mode, first.text, first.turn["account"]) == ("recap", numbers, "other"), first.failed()
    lost = f"[{carried['left_out']:,} bytes left out]"
    assert (block_count(first), first.sent.count(lost), end in first.sent) == (1, 1, True)
    later = talk.run("what numbers?")
    assert (later.mode, later.text, block_count(later)) == ("resume", numbers, 1)


@pytest.mark.soak
@pytest.mark.parametrize("talk", NEWEST, indirect=True)
def test_a_session_of_60_mb_is_cut_to_the_limit(talk: Talk) -> None:
    told(talk)
    (file,) = talk.home(talk.agent).rglob("projects/**/*.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    records = [msgspec.json.decode(line) for line in lines]
    pair = [each for each in records if each["type"] in ("user", "assistant")][:2]
    with file.open("wb") as long:
        for n in range(600):
            for each in pair:
                content = [{"type": "text", "text": f"{n} {'x' * 50_000}"}]
                copy = {**each, "uuid": str(uuid4()), "message": {**each["message"], "content": content}}
                long.write(msgspec.json.encode(copy) + b"\n")
        long.writelines(lines)
    assert file.stat().st_size > 60_000_000
    carried = switched(talk, "other", "--carry")["carried"]
    assert (carried["mode"], carried["turns"], carried["omitted"]) == ("raw", 2, True)
    assert carried["bytes"] <= 24_000
    first = talk.run("what number?")
    assert (first.text, first.sent.count(OMITTED)) == ("456", 1)
