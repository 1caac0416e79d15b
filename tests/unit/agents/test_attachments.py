"""How each CLI is given a file that goes with a message."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.images import pdf, png

from segue.agents import registry
from segue.agents.base import Agent
from segue.config.schema import Config
from segue.core.errors import Misuse
from segue.core.request import AttachedFile, Command, Request, RunPlace, Runtime, Start

SESSION = "11111111-2222-4333-8444-555555555555"
STARTS = (Start(), Start("resume", SESSION))
SAID = {
    "claude": ("2.1.325 (Claude Code)\n", "--resume --input-format --system-prompt-snapshot"),
    "codex": ("codex-cli 0.166.0\n", "Commands:\n  resume  Resume\n\nOptions:\n  -i, --image <FILE>...\n"),
    "gemini": ("0.61.0\n", "--resume --policy --include-directories"),
    "vibe": ("vibe 3.0.2\n", "--resume --output-dir --disabled-tools"),
}


def agent_of(name: str) -> tuple[Agent, Runtime]:
    agent = registry.get(name, Config())
    return agent, agent.runtime((f"/bin/{name}",), SAID[name])


def command(name: str, start: Start, *files: AttachedFile) -> Command:
    agent, runtime = agent_of(name)
    request = Request(prompt="look", cwd=Path("/work"), start=start, attachments=files)
    return agent.command(request, runtime, RunPlace(Path("/run/1")))


def attached(folder: Path, name: str, data: bytes, media_type: str) -> AttachedFile:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return AttachedFile(path, name, media_type)


@pytest.mark.parametrize("start", STARTS)
def test_claude_gets_blocks_before_the_text(tmp_path: Path, start: Start) -> None:
    files = (
        attached(tmp_path, "a.png", png(), "image/png"),
        attached(tmp_path, "b.pdf", pdf(), "application/pdf"),
        attached(tmp_path, "c.md", b"# notes", "text/plain"),
    )
    line: dict[str, Any] = msgspec.json.decode(command("claude", start, *files).stdin)
    image, document, text, prompt = line["message"]["content"]
    data = b64encode(png()).decode()
    assert image == {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    assert (document["type"], document["title"], document["source"]["type"]) == (
        "document",
        "b.pdf",
        "base64",
    )
    assert text["source"] == {"type": "text", "media_type": "text/plain", "data": "# notes"}
    assert prompt == {"type": "text", "text": "look"}


@pytest.mark.parametrize("start", STARTS)
def test_codex_gets_one_option_for_each_image(tmp_path: Path, start: Start) -> None:
    files = [attached(tmp_path, f"{n}.png", png(n), "image/png") for n in (1, 2)]
    argv = command("codex", start, *files).argv
    assert [word for word in argv if word.startswith("--image")] == [f"--image={f.path}" for f in files]
    with pytest.raises(Misuse, match="comma"):
        command("codex", start, attached(tmp_path / "a,b", "1.png", png(), "image/png"))


@pytest.mark.parametrize("start", STARTS)
def test_gemini_gets_the_directory_and_mentions(tmp_path: Path, start: Start) -> None:
    file = attached(tmp_path / "my runs", "1-a.png", png(), "image/png")
    made = command("gemini", start, file)
    assert f"--include-directories={tmp_path / 'my runs'}" in made.argv
    assert made.stdin.decode() == f"look\n\n@{str(file.path).replace(' ', chr(92) + ' ')}"


def test_what_each_takes() -> None:
    takes = {name: agent_of(name)[1].capabilities.attachments for name in SAID}
    assert {name: "image/png" in types for name, types in takes.items()} == {
        "claude": True,
        "codex": True,
        "gemini": True,
        "vibe": False,
    }
    assert {name: "text/plain" in types for name, types in takes.items()} == {
        "claude": True,
        "codex": False,
        "gemini": True,
        "vibe": False,
    }
    old = agent_of("claude")[0].runtime(
        ("/bin/claude",), ("2.1.50 (Claude Code)\n", "--resume --input-format")
    )
    assert (old.capabilities.attachments, old.capabilities.keeps_attachments) == (takes["claude"], False)
