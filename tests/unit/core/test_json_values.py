"""Decoders are made by one thread at a time: msgspec's own first look at a struct is not safe for two."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from segue.core.json_values import decode

THREADS = """
import sys, threading, msgspec
from segue.core.json_values import decode

sys.setswitchinterval(1e-6)


def look(kind, gate):
    gate.wait()
    decode(b'{"g1":{"f1":1}}', kind)


for n in range(100):
    inner = msgspec.defstruct(f"Inner{n}", [(f"f{i}", int | None, None) for i in range(20)])
    kind = msgspec.defstruct(f"Outer{n}", [(f"g{i}", inner | None, None) for i in range(10)])
    gate = threading.Barrier(4)
    threads = [threading.Thread(target=look, args=(kind, gate)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("well")
"""


class Point(msgspec.Struct):
    x: int


def test_it_decodes_and_refuses_as_msgspec_does() -> None:
    assert decode(b'{"x":1}', Point) == decode('{"x":1}', Point) == Point(1)
    with pytest.raises(msgspec.ValidationError):
        decode(b'{"x":"1"}', Point)
    with pytest.raises(msgspec.DecodeError):
        decode(b"{", Point)


def test_threads_that_meet_a_type_for_the_first_time_do_not_crash() -> None:
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr
