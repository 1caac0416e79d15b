"""Private, durable homes for runs of a CLI whose session ids can only be found on disk.

Two runs in one home could not tell their sessions apart, so each takes a separate home: the first free
directory ``root/<n>``, held by a file lock for as long as the run lasts. The CLI inherits the lock: if Segue
is killed while the CLI continues, the home stays reserved. Everything in the account's home except its logs
is linked into it; the sessions stay, so that the next run can resume them.

    root/0/            a runner's home: config.toml -> the account's, logs/ its own
    root/0.lock        held while a run uses root/0; the kernel releases it when the last holder dies
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from segue.core.errors import Broken
from segue.core.ids import checked_uuid
from segue.system.files import whole_tree

OWN = frozenset({"logs"})
"""What is not linked from the account's home."""
SLOTS = 1_000
SESSIONS = Path("logs") / "session"


class Claim(msgspec.Struct, frozen=True):
    """A home that is ours alone; ``lock`` is the open lock file, to be passed on to the CLI."""

    home: Path
    lock: int


@contextmanager
def runner_home(root: Path, account_home: Path, session: str | None = None) -> Iterator[Path]:
    """A home that no other run uses at the same time. ``session``: the one to be resumed, copied into it."""
    with claimed_home(root, account_home, session) as claim:
        yield claim.home


@contextmanager
def claimed_home(root: Path, account_home: Path, session: str | None = None) -> Iterator[Claim]:
    """The same, with its lock."""
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock, home = _take(root)
    try:
        home.mkdir(exist_ok=True, mode=0o700)
        _link(account_home, home)
        if session is not None:
            fetch_session(session, home, [account_home, *_others(root, home)])
        yield Claim(home, lock)
    finally:
        os.close(lock)


def _take(root: Path) -> tuple[int, Path]:
    """The first slot whose lock is free."""
    for number in range(SLOTS):
        lock = os.open(root / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
        except BaseException:
            os.close(lock)
            raise
        else:
            return lock, root / str(number)
    raise Broken(f"all {SLOTS:,} runner homes in {root} are in use")


def _link(account_home: Path, home: Path) -> None:
    """Link what the account's home contains now: new files are added, deleted ones removed."""
    wanted = {entry.name for entry in account_home.iterdir()} - OWN if account_home.is_dir() else set()
    for entry in list(home.iterdir()):
        if entry.is_symlink() and entry.name not in wanted:
            entry.unlink()
    for name in wanted:
        _point(home / name, account_home / name)


def _point(link: Path, target: Path) -> None:
    """Link one entry. The account's file replaces one that the CLI wrote; the CLI's own directory stays."""
    if link.is_symlink() and os.readlink(link) == str(target):
        return
    if link.is_dir() and not link.is_symlink():
        return
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def fetch_session(session: str, home: Path, homes: list[Path]) -> None:
    """Copy a session into this home. Resuming then forks it; the original stays as it is."""
    name = f"*_{checked_uuid(session)[:8]}"
    if any((home / SESSIONS).glob(name)):
        return
    for folder in (found for other in homes for found in (other / SESSIONS).glob(name)):
        target = home / SESSIONS / folder.name
        if not target.exists():
            _copy(folder, target)


def _copy(folder: Path, target: Path) -> None:
    """Copy whole or not at all. The original stays, so the copy need not survive a power cut."""
    with whole_tree(target, durable=False) as part:
        shutil.copytree(folder, part, dirs_exist_ok=True)


def _others(root: Path, home: Path) -> list[Path]:
    return [path for path in root.iterdir() if path.is_dir() and path != home]
