"""Ends what a test run leaves behind, however it ends itself: daemons, and agents that outlive their Segue.

A process of its own waits until the test run is gone, and then ends every process whose ``SEGUE_HOME`` is in
the directory of that run, and every agent whose ``HOME`` is: it has the mark of its process.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CODE = """
import os, signal, sys
sys.stdin.buffer.read()
place = os.fsencode(sys.argv[1]) + b"/"

def is_ours(variables):
    marked = any(each.startswith(b"SEGUE_MARK=") for each in variables)
    homes = (b"SEGUE_HOME=" + place, b"HOME=" + place) if marked else b"SEGUE_HOME=" + place
    return any((each + b"/").startswith(homes) for each in variables)

for name in filter(str.isdecimal, os.listdir("/proc")):
    try:
        with open(f"/proc/{name}/environ", "rb") as file:
            if is_ours(file.read().split(b"\\0")):
                os.kill(int(name), signal.SIGKILL)
    except OSError:
        pass
"""


def start_undertaker(place: Path) -> subprocess.Popen[bytes]:
    """It acts when its stdin is closed, which the end of this process does."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", CODE, str(place)], stdin=subprocess.PIPE, start_new_session=True
    )
