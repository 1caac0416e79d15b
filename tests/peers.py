"""Packages of others that Segue is compared with, each choice of them in a venv of its own in the cache."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.clis import cache

SDK = "claude-agent-sdk==0.2.182"


def installed(*packages: str) -> Path:
    """The directory of their programs, Python among them; they are installed if they are not there."""
    folder = cache() / "-".join(["peers", *(package.replace("==", "-") for package in packages)])
    if not (folder / ".installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *packages]
        subprocess.run(pip, check=True, stderr=subprocess.DEVNULL)
        (folder / ".installed").write_text("\n".join(packages))
    return folder / "bin"


if __name__ == "__main__":
    installed(SDK)
    print(f"{SDK}  ready")
