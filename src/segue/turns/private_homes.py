"""Private, durable homes for runs of a CLI that tells a session's id only on disk.

Two runs in one home could not tell their sessions apart, so each takes a home of its own: the first free
directory ``root/<n>``, held by a file lock for as long as the run lasts. The CLI inherits the lock: should
Segue be killed while the CLI goes on, the home stays the CLI's. What the account's home holds is
linked into it, all but its logs; the sessions stay, so that the next run can resume them.

    root/0/            a runner's home: config.toml -> the account's, logs/ its own
    root/0.lock        held while a run uses root/0; the kernel lets go of it when the last holder dies
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
"""What a runner's home has for itself."""
SLOTS = 1_000
SESSIONS = Path("logs") / "session"


class Claim(msgspec.Struct, frozen=True):
    """A home that is ours alone; ``lock`` is the open file that says so, to be passed on to the CLI."""

    home: Path
    lock: int


@contextmanager
def runner_home(root: Path, account_home: Path, session: str | None = None) -> Iterator[Path]:
    """A home nobody else uses meanwhile. ``session``: one that must be there to be resumed."""
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
    """Make the home show what the account's home holds now: new files appear, deleted ones go."""
    wanted = {entry.name for entry in account_home.iterdir()} - OWN if account_home.is_dir() else set()
    for entry in list(home.iterdir()):
        if entry.is_symlink() and entry.name not in wanted:
            entry.unlink()
    for name in wanted:
        _point(home / name, account_home / name)


def _point(link: Path, target: Path) -> None:
    """The account's file wins over one the CLI put in its place; a directory of its own it may keep."""
    if link.is_symlink() and os.readlink(link) == str(target):
        return
    if link.is_dir() and not link.is_symlink():
        return
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def fetch_session(session: str, home: Path, homes: list[Path]) -> None:
    """Copy a session here from where it was written: resuming leaves the original as it is, and forks."""
    name = f"*_{checked_uuid(session)[:8]}"
    if any((home / SESSIONS).glob(name)):
        return
    for folder in (found for other in homes for found in (other / SESSIONS).glob(name)):
        target = home / SESSIONS / folder.name
        if not target.exists():
            _copy(folder, target)


def _copy(folder: Path, target: Path) -> None:
    """Whole or not at all. The original stays, so the copy does not have to outlast a power cut."""
    with whole_tree(target, durable=False) as part:
        shutil.copytree(folder, part, dirs_exist_ok=True)


def _others(root: Path, home: Path) -> list[Path]:
    return [path for path in root.iterdir() if path.is_dir() and path != home]
