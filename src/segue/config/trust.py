"""Which directories the user trusts to configure more than models, instructions and limits.

A directory is recognised by its path *and* by its identity (device and inode): another clone at the same
path is another directory, and a link to it is the same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from segue.core.errors import ConfigError, Misuse
from segue.core.json_values import decode
from segue.system.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from segue.config.home import Home


class Trusted(msgspec.Struct, frozen=True):
    path: str
    device: int
    inode: int


def is_trusted(home: Home, directory: Path) -> bool:
    """Whether the user trusts this directory."""
    known = read(home)
    try:
        return bool(known) and _identify(directory) in known
    except OSError:
        return False


def trust(home: Home, directory: Path) -> Trusted:
    """Trust the directory from now on."""
    try:
        entry = _identify(directory)
    except OSError as error:
        raise Misuse(f"{directory} cannot be trusted: {error.strerror}") from None
    if not directory.is_dir():
        raise Misuse(f"{directory} cannot be trusted: it is not a directory")
    _write(home, (*(t for t in read(home) if t.path != entry.path), entry))
    return entry


def untrust(home: Home, directory: Path) -> bool:
    """Stop trusting the directory, even if it is gone; False if it was not trusted."""
    known = read(home)
    path = str(directory.resolve())
    kept = tuple(t for t in known if t.path != path)
    if len(kept) == len(known):
        return False
    _write(home, kept)
    return True


def read(home: Home) -> tuple[Trusted, ...]:
    """All trusted directories."""
    try:
        raw = home.trust.read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ConfigError(f"cannot read {home.trust}: {error.strerror}") from None
    try:
        return decode(raw, tuple[Trusted, ...])
    except msgspec.DecodeError:
        what = "delete it and run segue trust again in each directory that you trust"
        raise ConfigError(f"{home.trust} is damaged; {what}") from None


def _identify(directory: Path) -> Trusted:
    path = directory.resolve(strict=True)
    stat = path.stat()
    return Trusted(str(path), stat.st_dev, stat.st_ino)


def _write(home: Home, entries: tuple[Trusted, ...]) -> None:
    home.make(home.root)
    write_whole(home.trust, msgspec.json.encode(entries))
