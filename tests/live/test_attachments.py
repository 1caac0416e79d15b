"""Attachments on the wire: a file that goes with a message arrives as what it is, once; and again where the
session is not continued."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from tests.clis import CLIS
from tests.images import pdf, png
from tests.live.talk import Said, Talk

FORGETFUL = "claude-2.1.50"
"""When it resumes, it sends the word ``[image]`` for each image of an earlier message."""


def versions(*agents: str) -> pytest.MarkDecorator:
    params = [
        pytest.param(
            (agent, version),
            id=f"{agent}-{version}",
            marks=[pytest.mark.soak] if version == CLIS[agent].older else [],
        )
        for agent in agents
        for version in CLIS[agent].versions
    ]
    return pytest.mark.parametrize("talk", params, indirect=True)


def files(said: Said) -> list[str]:
    """The contents (base64) of all files in the last request of the conversation itself, in order."""
    body = [request for request in said.requests if not request.side][-1].body
    found: list[str] = []
    _collect(body, found)
    return found


def _collect(value: Any, found: list[str]) -> None:
    match value:
        case {"type": "image" | "document", "source": {"type": "base64", "data": str(data)}}:
            found.append(data)
        case {"type": "input_image", "image_url": str(url)}:
            found.append(url.partition("base64,")[2])
        case {"inlineData": {"data": str(data), "mimeType": str()}}:
            found.append(data)
        case dict():
            for each in value.values():
                _collect(each, found)
        case list():
            for each in value:
                _collect(each, found)


def encoded(*contents: bytes) -> list[str]:
    return [b64encode(each).decode() for each in contents]


@versions("claude", "codex", "gemini")
def test_an_image_arrives_fresh_resumed_and_replayed(talk: Talk, request: pytest.FixtureRequest) -> None:
    keeps = FORGETFUL not in request.node.name
    (talk.cwd / "first one.png").write_bytes(png(1))
    (talk.cwd / "second.png").write_bytes(png(2))
    fresh = talk.run("look at this", "--attach", "first one.png")
    assert (fresh.mode, files(fresh)) == ("fresh", encoded(png(1)))
    resumed = talk.run("and at this", "--attach", "second.png")
    assert resumed.mode == "resume"
    assert files(resumed) == (encoded(png(1), png(2)) if keeps else encoded(png(2)))
    assert any("no longer sees" in each for each in resumed.turn["notices"]) is not keeps
    replayed = talk.run("compare them", "--fresh-session")
    assert (replayed.mode, files(replayed)) == ("replay", encoded(png(1), png(2)))
    assert replayed.sent.count("attached: second.png, file 2 of those sent with this") == 1
    assert not list((talk.place / "segue" / "runs").glob("*/attachments"))


@pytest.mark.soak
@versions("claude", "gemini")
def test_a_document_and_a_text_arrive(talk: Talk) -> None:
    (talk.cwd / "paper.pdf").write_bytes(pdf())
    (talk.cwd / "notes.md").write_text("the number is 456")
    said = talk.run("read these", "-a", "paper.pdf", "-a", "notes.md")
    assert files(said) == encoded(pdf())
    assert said.sent.count("the number is 456") == 1


@pytest.mark.soak
@versions("vibe")
def test_vibe_takes_none_and_is_told_so_of_earlier_ones(talk: Talk) -> None:
    (talk.cwd / "a.png").write_bytes(png())
    refused = talk("run", "t", "look", "--attach", "a.png")
    assert refused.code == 2
    assert "does not take a.png (image/png)" in refused.stderr
    assert "agents that do: claude, codex, gemini" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert "there is no conversation t" in talk("log", "t").stderr
    shown = talk.run("look", "--attach", "a.png", "--agent", "rehearsal")
    assert shown.turn["status"] == "ok"
    switched = talk.run("what did I show?", "--agent", "vibe")
    assert "attachment a.png, 99 bytes, was not sent again: Vibe does not take image/png" in switched.sent
    assert any("a.png" in each for each in switched.turn["notices"])
