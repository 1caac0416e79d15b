"""Other machines and containers, made of namespaces: where the program runs, to itself, is another place.

scene.run("hello", **machine("a", scene))
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tests.chaos.scenes import Scene

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
