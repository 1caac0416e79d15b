"""Starts a process with the umask and the resource limits of another process.

Limits can only be set by the process itself, and without forking this one only by a small program between:
it sets them, becomes the agent, and reports why if it cannot. It is used only if the limits differ.
"""

from __future__ import annotations

import math
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from segue.core.request import Inherited

_BETWEEN = """
import os, resource, signal, sys
report, limits, locale, *argv = sys.argv[1:]
report = int(report)
os.set_inheritable(report, False)
for name in ("SIGPIPE", "SIGXFZ", "SIGXFSZ"):
    if hasattr(signal, name):
        signal.signal(getattr(signal, name), signal.SIG_DFL)
os.environ.pop("LC_CTYPE", None)
if locale:
    os.environ["LC_CTYPE"] = locale[1:]
try:
    for each in limits.split(","):
        number, soft, hard = map(int, each.split(":"))
        resource.setrlimit(number, (soft, hard))
    os.execvp(argv[0], argv)
except (OSError, ValueError) as error:
    os.write(report, str(getattr(error, "errno", None) or 22).encode())
os._exit(127)
"""
Limits = dict[int, tuple[int, int]]


def start_child(
    argv: Sequence[str],
    inherited: Inherited,
    *,
    env: Mapping[str, str],
    pass_fds: Sequence[int],
    **options: Any,
) -> subprocess.Popen[bytes]:
    """As ``Popen``, with what the caller's process would pass on. Raises ``OSError`` as ``Popen`` does."""
    limits = _limits(inherited)
    if not limits:
        return subprocess.Popen(argv, env=env, pass_fds=pass_fds, umask=inherited.umask, **options)
    heard, report = os.pipe()
    try:
        words = ",".join(f"{number}:{soft}:{hard}" for number, (soft, hard) in limits.items())
        locale = f"={env['LC_CTYPE']}" if "LC_CTYPE" in env else ""
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _BETWEEN, str(report), words, locale, *argv],
            env=env,
            pass_fds=(*pass_fds, report),
            umask=inherited.umask,
            **options,
        )
        os.close(report)
        report = -1
        told = os.read(heard, 16)  # nothing: it has become the agent
    finally:
        os.close(heard)
        if report >= 0:
            os.close(report)
    if told:
        process.wait()
        raise OSError(int(told), os.strerror(int(told)), argv[0])
    return process


def can_have(inherited: Inherited) -> bool:
    """Whether a child of this process can have these limits: nobody can exceed its own hard limit."""
    return all(
        _size(soft) <= _size(resource.getrlimit(number)[1])
        for name, (soft, _) in inherited.limits.items()
        if (number := _number(name)) is not None
    )


def _limits(inherited: Inherited) -> Limits:
    """Those that differ from this process's own, as far as they can be had."""
    found: Limits = {}
    for name, (soft, hard) in inherited.limits.items():
        number = _number(name)
        if number is None:
            continue
        own = resource.getrlimit(number)
        hard = min(hard, own[1], key=_size)
        wanted = min(soft, hard, key=_size), hard
        if wanted != own:
            found[number] = wanted
    return found


def _number(name: str) -> int | None:
    known = getattr(resource, name, None) if name.startswith("RLIMIT_") else None
    return known if isinstance(known, int) else None


def _size(limit: int) -> float:
    return math.inf if limit == resource.RLIM_INFINITY else limit
