"""``segue run`` on real CLIs where a file is planted that would widen what the closing line says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clis import CLIS
from tests.live.talk import Talk

CODEX = CLIS["codex"]
RULES = 'prefix_rule(pattern=["touch"], decision="allow")\n'


def plant(talk: Talk) -> Path:
    rules = talk.home("codex") / "rules"
    rules.mkdir(parents=True)
    (rules / "planted.rules").write_text(RULES)
    return rules / "planted.rules"


@pytest.mark.parametrize(
    "talk", [pytest.param(("codex", CODEX.older), id=f"codex-{CODEX.older}")], indirect=True
)
def test_where_a_rule_would_win_nothing_is_started_and_the_file_is_named(talk: Talk) -> None:
    talk.run("remember number 456")
    file = plant(talk)
    for options in ((), ("--permission", "read")):
        ran = talk("run", "t", "[[shell touch made]]", *options)
        assert (ran.code, ran.stderr.count("\n"), ran.requests) == (2, 1, []), ran.stderr
        assert f"the rules in {file} let Codex {CODEX.older} run commands outside" in ran.stderr
    assert list(talk.cwd.iterdir()) == []
    file.unlink()
    assert talk.run("what number?").text == "456"


@pytest.mark.parametrize(
    "talk", [pytest.param(("codex", CODEX.newest), id=f"codex-{CODEX.newest}")], indirect=True
)
def test_where_a_rule_can_be_ignored_the_turn_is_what_its_closing_line_says(talk: Talk) -> None:
    plant(talk)
    (talk.cwd / "AGENTS.md").write_text("the word is quince")
    ran = talk("run", "t", "[[shell touch made]][[shell cat AGENTS.md]][[result]]", "--permission", "read")
    assert (ran.code, "quince" in ran.stdout, " · read · " in ran.stderr) == (0, True, True), ran.stderr
    assert [path.name for path in talk.cwd.iterdir()] == ["AGENTS.md"]
    config = talk.home("codex") / "config.toml"
    config.write_text(f'{config.read_text()}\n[projects."{talk.cwd}"]\ntrust_level = "trusted"\n')
    again = talk.run("hello", "--permission", "read", key="u")
    assert f"Codex does not read {talk.cwd / 'AGENTS.md'}" in again.turn["notices"][0]
    assert "the word is quince" not in again.sent
