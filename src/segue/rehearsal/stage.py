"""Sets the stage for a rehearsal: homes for the CLIs, and a SEGUE_HOME whose accounts point at the model."""

from __future__ import annotations

from pathlib import Path

import msgspec

from segue.rehearsal.setup import point

AGENTS = ("claude", "codex", "gemini", "vibe")


class Staged(msgspec.Struct, frozen=True):
    """The variables for everything together, and for each CLI alone."""

    env: dict[str, str]
    by_agent: dict[str, dict[str, str]]


def stage(url: str, place: Path) -> Staged:
    """Write the homes under ``place``; nothing of the user's own is touched."""
    by_agent: dict[str, dict[str, str]] = {}
    accounts = []
    for agent in AGENTS:
        home = place / agent
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        pointing = point(agent, url, home)
        pointing.write(home)
        by_agent[agent] = pointing.env
        accounts.append(_account(agent, home, pointing.env))
    segue = place / "segue"
    segue.mkdir(exist_ok=True, mode=0o700)
    (segue / "config.toml").write_text("\n".join(accounts), encoding="utf-8")
    merged = {name: value for env in by_agent.values() for name, value in env.items()}
    return Staged({**merged, "SEGUE_HOME": str(segue)}, by_agent)


def _account(agent: str, home: Path, env: dict[str, str]) -> str:
    """An account of the agent's own name is the one it uses unless told otherwise."""
    pairs = ", ".join(f"{name} = {_quoted(value)}" for name, value in env.items())
    return f"[accounts.{agent}]\nagent = {_quoted(agent)}\nhome = {_quoted(str(home))}\nenv = {{ {pairs} }}\n"


def _quoted(text: str) -> str:
    """A JSON string is a TOML string."""
    return msgspec.json.encode(text).decode()
