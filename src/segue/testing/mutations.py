"""Damages lines, by seed: as by a crash, a half-written file, or a later release of the CLI."""

from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any

import msgspec

GARBAGE = (
    *(
        b"",
        b" ",
        b"\x00",
        b"\xff\xfe\xfa",
        b"null",
        b"true",
        b"0",
        b'"text"',
        b"[]",
        b"{}",
        b"[{}]",
        b"{",
        b"}",
    ),
    *(b'{"type":null}', b'{"type":[]}', b'{"type":"\\ud800"}', b'{"type":"no such type"}', b'{"type":1e999}'),
    *(
        b"[" * 20_000,
        b'{"a":' * 20_000,
        b'{"type":' + b"9" * 5_000 + b"}",
        b"plain words",
        b"Error: x" * 5_000,
    ),
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**70,
    1.5,
    "",
    "x",
    "-x",
    "../x",
    [],
    [None],
    [[]],
    {},
    {"type": None},
    {"x": []},
)
LINES = 150
CUTS = 40
HOLDERS = 12


def lines(recorded: tuple[bytes, ...], seed: int, rounds: int) -> Iterator[bytes]:
    """Whole, cut, flipped and rewritten lines, and plain garbage."""
    rng = Random(seed)  # noqa: S311 - damage, not secrets
    whole = sampled(recorded, rng)
    yield from whole
    yield from GARBAGE
    for line in whole:
        yield from (line[:at] for at in cuts(line, rng))
    for line in kinds(whole):
        yield from every(line)
    for _ in range(rounds if whole else 0):
        yield flipped(rng.choice(whole), rng)
        yield rewritten(rng.choice(whole), rng)


def sampled(recorded: tuple[bytes, ...], rng: Random) -> list[bytes]:
    """The lines of all streams; if there are too many, a sample with each kind of record."""
    found = [line for stream in recorded for line in stream.split(b"\n")]
    return found if len(found) <= LINES else [*kinds(found), *rng.sample(found, LINES)]


def kinds(lines: list[bytes]) -> list[bytes]:
    """One line of each kind of record, in order."""
    return list({_kind(line): line for line in lines if line}.values())


def every(line: bytes) -> Iterator[bytes]:
    """The record with each of its values in turn replaced by each kind of value, or removed."""
    record = _decoded(line)
    for holder in islice(_holders(record), HOLDERS):
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            kept = holder[key]
            for value in VALUES:
                holder[key] = value
                yield _encoded(record)
            holder[key] = kept
            if isinstance(holder, dict):
                del holder[key]
                yield _encoded(record)
                holder[key] = kept


def cuts(line: bytes, rng: Random) -> list[int]:
    if len(line) <= CUTS:
        return list(range(len(line)))
    return sorted(rng.sample(range(len(line)), CUTS))


def flipped(line: bytes, rng: Random) -> bytes:
    """The line with some bytes changed, added or removed."""
    data = bytearray(line)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) + 1)
        data[at : at + rng.randint(0, 2)] = rng.choice(
            (b"", b"\x00", b"\xff", b'"', b"{", b"\\", b"9", b"\xc3")
        )
    return bytes(data)


def rewritten(line: bytes, rng: Random) -> bytes:
    """The record with one value replaced by another kind of value, or removed."""
    record = _decoded(line)
    if record is None:
        return flipped(line, rng)
    holders = list(_holders(record))
    if not holders:
        return msgspec.json.encode(rng.choice(VALUES))
    holder = rng.choice(holders)
    key: Any = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    if rng.random() < 0.25:
        del holder[key]
    else:
        holder[key] = rng.choice(VALUES) if rng.random() < 0.8 else [holder[key]]
    return _encoded(record)


def _decoded(line: bytes) -> Any:
    try:
        return msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _encoded(record: Any) -> bytes:
    import json  # msgspec refuses integers beyond 64 bits, which a CLI may print

    return json.dumps(record).encode()


def _holders(value: Any) -> Iterator[Any]:
    """Every object and list in a record that is not empty."""
    if isinstance(value, dict | list) and value:
        yield value
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _holders(inner)


def _kind(line: bytes) -> tuple[str, ...]:
    record = _decoded(line)
    if not isinstance(record, dict):
        return (type(record).__name__,)
    return (str(record.get("type")), str(record.get("subtype")), *sorted(map(str, record)))
