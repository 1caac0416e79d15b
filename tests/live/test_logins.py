"""An ordinary installation of Claude, without CLAUDE_CONFIG_DIR: who is logged in is a wall there, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from segue.agents.claude.adapter import AGENT
from segue.core.request import ModelAddress
from tests import clis
from tests.live.talk import Said, Talk, talking
from tests.live.test_switching import ready


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    newest = clis.CLIS["claude"].newest
    ready("claude", newest)
    with talking(tmp_path, {"claude": newest}) as made:
        pointing = AGENT.rehearse(ModelAddress(made.model.url, made.model.key, 1), tmp_path)
        assert pointing is not None
        env = pointing.env
        del env["CLAUDE_CONFIG_DIR"], made.env["CLAUDE_CONFIG_DIR"]
        pairs = ", ".join(f"{name} = {msgspec.json.encode(value).decode()}" for name, value in env.items())
        config = f'[accounts.claude]\nagent = "claude"\nenv = {{ {pairs} }}\n[defaults]\nagent = "claude"\n'
        (made.place / "segue" / "config.toml").write_text(config)
        yield made


def log_in(talk: Talk, name: str) -> None:
    """As Claude itself notes it; what else it keeps in its file stays."""
    file = Path(talk.env["HOME"]) / ".claude.json"
    known = msgspec.json.decode(file.read_bytes()) if file.exists() else {}
    known["oauthAccount"] = {
        "accountUuid": name,
        "organizationUuid": "org",
        "emailAddress": f"{name}@x.invalid",
    }
    file.write_bytes(msgspec.json.encode(known))


def knows_nothing(said: Said) -> None:
    assert said.mode == "fresh", said.failed()
    assert "number 1234" not in said.sent


def test_another_login_of_claude_is_not_shown_what_was_said(talk: Talk) -> None:
    log_in(talk, "ann")
    talk.run("remember number 1234")
    assert talk.run("what number?").text == "1234"
    assert list((Path(talk.env["HOME"]) / ".claude" / "projects").rglob("*.jsonl")), (
        "an ordinary installation"
    )
    log_in(talk, "bob")
    knows_nothing(talk.run("what number?", "--role", "reviewer"))
    assert talk.why("--role", "none")["mode"] == "replay", "of the reviewer's own turn alone"
    log_in(talk, "ann")
    back = talk.run("what number?", "--role", "none")
    assert (back.mode, back.text, back.turn["sent"]["text_messages"]) == ("resume", "1234", 1)
