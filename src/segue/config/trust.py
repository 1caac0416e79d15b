"""Which directories and files the user trusts.

A trusted directory may configure more than models, instructions and limits, its FLOW.toml may grant
permissions, and links in it may lead out of it. It is recognised by its path *and* by its identity (device
and inode): another clone at the same path is another directory, and a link to it is the same one. A file is
trusted in its directory, as long as its contents are the same.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal

import msgspec

from segue.core.errors import ConfigError, Misuse
from segue.core.json_values import decode
from segue.system.files import write_whole

if TYPE_CHECKING:
    from pathlib import Path

    from segue.config.home import Home


class Trusted(msgspec.Struct, frozen=True, omit_defaults=True):
    """A directory; or a file, with the device and inode of its directory."""

    path: str
    device: int
    inode: int
    sha256: str = ""
    """Of a file: that of its contents."""


def is_trusted(home: Home, directory: Path) -> bool:
    """Whether the user trusts this directory."""
    known = read(home)
    try:
        return bool(known) and _identify(directory) in known
    except OSError:
        return False


def is_covered(home: Home, folder: Path, root: Path) -> bool:
    """Whether the user trusts the folder, or a directory above it up to ``root``. Neither has links."""
    above = (folder, *folder.parents)
    return any(is_trusted(home, each) for each in above[: above.index(root) + 1])


def way_to_trust(directory: Path) -> str:
    """The command that the user can give."""
    from shlex import quote

    return f"segue trust {quote(str(directory))}"


FileTrust = Literal["trusted", "changed", "untrusted"]


def file_trust(home: Home, path: Path, data: bytes) -> FileTrust:
    """Whether a file with these contents is trusted by itself. ``changed``: it was, with other contents.
    ``path`` has no links."""
    entries = [each for each in read(home) if each.path == str(path) and each.sha256]
    if not entries:
        return "untrusted"
    try:
        now = _identify_file(path, data)
    except OSError:
        return "untrusted"
    return "trusted" if now in entries else "changed"


def trust_file(home: Home, path: Path, data: bytes) -> None:
    """Trust a file as long as it has these contents."""
    entry = _identify_file(path.resolve(strict=True), data)
    _write(home, (*(t for t in read(home) if t.path != entry.path), entry))


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
    """Stop trusting the directory and the files in it, even if it is gone; False if none was trusted."""
    known = read(home)
    path = str(directory.resolve())
    kept = tuple(t for t in known if t.path != path and (not t.sha256 or os.path.dirname(t.path) != path))
    if len(kept) == len(known):
        return False
    _write(home, kept)
    return True


def read(home: Home) -> tuple[Trusted, ...]:
    """All trusted directories and files."""
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


def _identify_file(path: Path, data: bytes) -> Trusted:
    from hashlib import sha256

    folder = _identify(path.parent)
    return Trusted(str(path), folder.device, folder.inode, sha256(data).hexdigest())


def _write(home: Home, entries: tuple[Trusted, ...]) -> None:
    home.make(home.root)
    write_whole(home.trust, msgspec.json.encode(entries))
