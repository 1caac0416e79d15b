"""What the page's checks need from npm: the TypeScript compiler and axe-core, in the cache of the tests.

``python -m tests.page.tools`` installs what is missing and checks the types of the page's JavaScript.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.clis import cache

PACKAGES = {"typescript": "7.0.2", "axe-core": "4.14.0"}
FOLDER = cache().parent / "page"
AXE = FOLDER / "node_modules/axe-core/axe.min.js"
TSC = FOLDER / "node_modules/.bin/tsc"


def install() -> str:
    """Install what is missing; the reason if that cannot be done, else an empty string."""
    wanted = " ".join(f"{name}@{version}" for name, version in PACKAGES.items())
    mark = FOLDER / ".installed"
    if mark.exists() and mark.read_text() == wanted:
        return ""
    npm = shutil.which("npm")
    if npm is None:
        return "npm is not installed"
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    command = [
        npm,
        "install",
        "--prefix",
        ".",
        "--no-audit",
        "--no-fund",
        "--loglevel=error",
        *wanted.split(),
    ]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False, timeout=600)
    if done.returncode != 0:
        return f"npm install failed: {(done.stderr or done.stdout).strip()[-300:]}"
    mark.write_text(wanted)
    return ""


def main() -> int:
    if reason := install():
        print(reason, file=sys.stderr)
        return 1
    return subprocess.run(
        [str(TSC), "-p", str(Path(__file__).with_name("tsconfig.json"))], check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
