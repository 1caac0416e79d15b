"""Other machines and containers, made of namespaces: where the program runs, to itself, is another place.

scene.run("hello", **machine("a", scene))
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.chaos.scenes import Scene
from tests.postgres import missing

_ROOT = [] if os.getuid() == 0 else ["--map-root-user"]
_BIND = """
for id in /etc/machine-id /var/lib/dbus/machine-id /proc/sys/kernel/random/boot_id; do
    [ ! -e "$id" ] || mount --bind "$0" "$id" || exit 9
done
exec "$@"
"""
_CONTAIN = """
"$@" & wait $!
code=$?
while set -- /proc/[0-9]*; [ $# -gt 1 ]; do sleep 0.1; done
exit $code
"""
"""It ends with the last of its processes."""


def machine(which: str, scene: Scene, name: str | None = None) -> dict[str, Any]:
    """Options of ``Scene.start``: on another machine, everything but the store is another."""
    file = scene.segue.home.parent / f"id-of-{which}"
    file.write_text(f"{which.encode().hex():0>32}\n")
    within = ["unshare", *_ROOT, "--mount", "sh", "-c", _BIND, str(file)]
    return {"within": within, **_environment(which, scene, name)}


def container(which: str, scene: Scene, name: str | None = None) -> dict[str, Any]:
    """The same for a container: of this machine, but the numbers of its processes are its own."""
    apart = ["--pid", "--fork", "--mount-proc", "--kill-child"]
    within = ["unshare", *_ROOT, *apart, "sh", "-c", _CONTAIN, "sh"]
    return {"within": within, **_environment(which, scene, name)}


def clock(ahead_s: int, directory: Path) -> dict[str, str]:
    """An environment in which a program's clock is so much ahead: Python reads this file first."""
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(
        "import time\n"
        f"_ahead, _time, _time_ns = {ahead_s}, time.time, time.time_ns\n"
        "time.time = lambda: _time() + _ahead\n"
        "time.time_ns = lambda: _time_ns() + _ahead * 10**9\n"
    )
    return {"PYTHONPATH": str(directory)}


def _environment(which: str, scene: Scene, name: str | None) -> dict[str, str]:
    return {"SEGUE_STORE_HOST": name or which, "SEGUE_HOME": f"{scene.segue.home}-{which}"}


class ShiftedClock:
    """The clock of all programs that get ``env``, which can be changed while they run; and of a database that
    is in the program itself. Agents get it with their environment."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        compiler = shutil.which("cc")
        if compiler is None:
            missing("there is no C compiler (scripts/test-packages.sh installs one)")
        self._file, library = directory / "ahead", directory / "clock.so"
        self._file.write_bytes(bytes(8))
        source = Path(__file__).with_name("shifted_clock.c")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
        self.env = {"LD_PRELOAD": str(library), "CLOCK_AHEAD": str(self._file)}

    def jump(self, seconds: int) -> None:
        """Forward, or backward."""
        with self._file.open("r+b") as file:  # not another file: programs look at this one
            now = int.from_bytes(file.read(8), sys.byteorder, signed=True)
            file.seek(0)
            file.write((now + seconds).to_bytes(8, sys.byteorder, signed=True))
