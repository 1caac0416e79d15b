"""The real CLIs the live tests run: which versions, where they are cached, and how they get there.

``python -m tests.clis`` installs what is missing and prints one line per version; ``--latest`` installs
what is newest in the registries instead. The cache lies outside the work tree (``SEGUE_TEST_CACHE``).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LATEST = "latest"


@dataclass(frozen=True)
class Cli:
    """One CLI in the package registries."""

    agent: str
    package: str
    newest: str
    older: str

    @property
    def versions(self) -> tuple[str, str]:
        return self.newest, self.older

    def folder(self, version: str) -> Path:
        return cache() / f"{self.agent}-{version}"

    def program(self, version: str) -> Path:
        inside = "bin" if self.agent == "vibe" else "node_modules/.bin"
        return self.folder(version) / inside / self.agent


CLIS = {
    "claude": Cli("claude", "@anthropic-ai/claude-code", "2.1.325", "2.1.50"),
    "codex": Cli("codex", "@openai/codex", "0.166.0", "0.104.0"),
    "gemini": Cli("gemini", "@google/gemini-cli", "0.61.0", "0.29.0"),
    "vibe": Cli("vibe", "mistral-vibe", "3.0.2", "2.18.4"),
}


def cache() -> Path:
    chosen = os.environ.get("SEGUE_TEST_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(chosen) if chosen else base / "segue-tests" / "clis"


def install(cli: Cli, version: str) -> str:
    """Install one version unless it is there; the reason when it cannot be had, else an empty string."""
    folder = cli.folder(version)
    if (folder / ".installed").exists() and cli.program(version).exists():
        return ""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    steps = _python_steps(cli, version) if cli.agent == "vibe" else _npm_steps(cli, version)
    if isinstance(steps, str):
        return steps
    for step in steps:
        done = subprocess.run(step, cwd=folder, capture_output=True, text=True, check=False, timeout=900)
        if done.returncode != 0:
            return f"{' '.join(step[:3])} failed: {(done.stderr or done.stdout).strip()[-300:]}"
    (folder / ".installed").write_text(version)
    return ""


def _npm_steps(cli: Cli, version: str) -> list[list[str]] | str:
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
    return [[npm, "install", "--prefix", ".", *quiet, f"{cli.package}@{version}"]]


def _python_steps(cli: Cli, version: str) -> list[list[str]] | str:
    wanted = cli.package if version == LATEST else f"{cli.package}=={version}"
    python = next(_pythons(), None)
    if python is not None:
        return [[python, "-m", "venv", "."], ["bin/pip", "install", "--quiet", wanted]]
    uv = [sys.executable, "-m", "uv"]  # brings an interpreter of its own
    return [
        [sys.executable, "-m", "pip", "install", "--quiet", "uv"],
        [*uv, "venv", "--quiet", "--allow-existing", "--python", "3.12", "."],
        [*uv, "pip", "install", "--quiet", "--python", "bin/python", wanted],
    ]


def _pythons() -> Iterator[str]:
    """Interpreters new enough for Vibe: on PATH, or kept by pyenv."""
    for minor in (12, 13, 14):
        found = shutil.which(f"python3.{minor}")
        if found is not None and _runs(found):
            yield found
    kept = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for folder in sorted(kept.glob("3.*")):
        if re.match(r"3\.(1[2-9])\.", folder.name) and (folder / "bin/python").exists():
            yield str(folder / "bin/python")


def _runs(python: str) -> bool:
    """A shim on PATH may name a version that is not active."""
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def _ready(cli: Cli, version: str) -> str:
    return f"is {published(cli)}, tested with {cli.newest}" if version == LATEST else "ready"


def published(cli: Cli) -> str:
    """The version that ``latest`` turned out to be."""
    if cli.agent == "vibe":
        (info,) = cli.folder(LATEST).glob("lib/python*/site-packages/mistral_vibe-*.dist-info")
        return info.name.removeprefix("mistral_vibe-").removesuffix(".dist-info")
    package = cli.folder(LATEST) / "node_modules" / cli.package / "package.json"
    return str(json.loads(package.read_text())["version"])


def main() -> int:
    failed = 0
    for cli in CLIS.values():
        for version in (LATEST,) if "--latest" in sys.argv else cli.versions:
            if version == LATEST:
                shutil.rmtree(cli.folder(version), ignore_errors=True)
            reason = install(cli, version)
            failed += bool(reason)
            print(f"{cli.agent:7} {version:8} {reason or _ready(cli, version)}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
