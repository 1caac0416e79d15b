"""At a limit the next account takes the message: the real CLIs, each account with a model of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from segue.rehearsal.server import LoopbackModel
from tests.clis import CLIS
from tests.live.talk import Talk, talking
from tests.live.test_account_switch import second_account
from tests.live.test_switching import ready

CLAUDE = CLIS["claude"]
CLAUDES = [
    pytest.param(
        ("claude", version),
        id=f"claude-{version}",
        marks=[pytest.mark.soak] if version == CLAUDE.older else [],
    )
    for version in CLAUDE.versions
]
SLOW = {"gemini", "vibe"}
"""They try again for a long time before they give up."""
OTHERS = [
    pytest.param((agent, cli.newest), id=agent, marks=[pytest.mark.soak] if agent in SLOW else [])
    for agent, cli in CLIS.items()
    if agent != "claude"
]
BLOCK = "What was said before, under another account."
LIMITED = '[[rule]]\ntext = "go on"\ndo = "[[error 429 retry-after 1]]"\n'


class Accounts:
    """``talk`` with the accounts ``a``, ``b`` and ``c``; the models of ``a`` and ``b`` refuse "go on"."""

    def __init__(self, talk: Talk, agent: str, tmp: Path, stack: ExitStack) -> None:
        self.talk = talk
        scenario = tmp / "limited.toml"
        scenario.write_text(LIMITED)
        self.models = {
            "a": stack.enter_context(LoopbackModel(scenario=scenario)),
            "b": stack.enter_context(LoopbackModel(scenario=scenario)),
            "c": stack.enter_context(LoopbackModel()),
        }
        for name, model in self.models.items():
            second_account(talk, agent, name)
            self._point(talk.place / f"{name}-home", model)
        self._remove(agent)
        talk.config('[limits]\non_limit = "switch"\norder = "listed"\n[defaults]\naccount = "a"')

    def _remove(self, name: str) -> None:
        """The account that is there without us."""
        file = self.talk.place / "segue" / "config.toml"
        head, mark, tail = file.read_text().partition(f"[accounts.{name}]")
        assert mark
        file.write_text(head + tail[tail.index("[") :] if "\n[" in tail else head)

    def _point(self, home: Path, model: LoopbackModel) -> None:
        """Replace the address of the common model, in the home and in what was last configured."""
        usual = self.talk.model
        config = self.talk.place / "segue" / "config.toml"
        for file in [config, *(each for each in home.rglob("*") if each.is_file())]:
            text = file.read_bytes()
            head, mark, tail = text.rpartition(b"[accounts.") if file == config else (b"", b"", text)
            for old, new in ((usual.url, model.url), (usual.key, model.key)):
                tail = tail.replace(old.encode(), new.encode())
            file.write_bytes(head + mark + tail)

    def asked(self, name: str) -> list[str]:
        """What the account's model was sent for the conversation itself."""
        sent = [each for each in self.models[name].requests if not each.side]
        return [msgspec.json.encode(each.body).decode() for each in sent]


@pytest.fixture
def accounts(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Accounts]:
    agent, version = request.param
    ready(agent, version)
    with ExitStack() as stack, talking(tmp_path, {agent: version}) as talk:
        yield Accounts(talk, agent, tmp_path, stack)


@pytest.mark.parametrize("accounts", [*CLAUDES, *OTHERS], indirect=True)
def test_if_two_are_limited_the_third_is_asked(accounts: Accounts) -> None:
    accounts.talk.config('[carry]\nrule = "allow"')
    accounts.talk.run("remember number 456")
    said = accounts.talk.run("please go on: what number?")
    assert (said.turn["account"], said.text, len(said.turn["earlier"])) == ("c", "456", 2), said.stderr
    assert all("456" in each for each in (accounts.asked("a")[0], accounts.asked("c")[-1]))
    assert accounts.asked("b"), "it was asked"
    assert accounts.asked("c")[-1].count(BLOCK) == 1
    assert accounts.asked("c")[-1].count("please go on") == 1
    later = accounts.talk.run("what number?")
    assert (later.mode, later.text, later.turn["account"]) == ("resume", "456", "c")
    assert accounts.asked("c")[-1].count(BLOCK) == 1


@pytest.mark.parametrize("accounts", CLAUDES[:1], indirect=True)
def test_without_a_rule_nothing_is_carried_over(accounts: Accounts) -> None:
    accounts.talk.run("remember number 456")
    said = accounts.talk.run("please go on")
    assert (said.turn["account"], said.mode) == ("c", "fresh")
    assert not any("456" in each for name in ("b", "c") for each in accounts.asked(name))
    assert any("not carried over" in notice for notice in said.turn["notices"])
