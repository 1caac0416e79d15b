"""Runner homes: one run each, kept for the next, showing the account's files as they are now."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from segue.core.errors import Misuse
from segue.turns.private_homes import runner_home

SESSION = "8d239d61-6361-4763-978b-2bcc6d1b8d1e"
FOLDER = "session_20260101_120000_8d239d61"
HOLDER = """
import sys, time
from pathlib import Path
from segue.turns.private_homes import runner_home
with runner_home(Path(sys.argv[1]), Path(sys.argv[2])) as home:
    print(home, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def account(tmp_path: Path) -> Path:
    home = tmp_path / "account"
    (home / "logs" / "session" / FOLDER).mkdir(parents=True)
    (home / "logs" / "session" / FOLDER / "meta.json").write_text("{}")
    (home / "skills").mkdir()
    (home / "config.toml").write_text("a = 1")
    return home


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "runners"


@contextmanager
def holder(root: Path, account: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process that holds a home until it is killed."""
    command = [sys.executable, "-c", HOLDER, str(root), str(account)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process, Path(process.stdout.readline().strip())
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_two_at_once_get_different_homes(root: Path, account: Path) -> None:
    with runner_home(root, account) as one, runner_home(root, account) as two:
        assert one != two


def test_two_processes_get_different_homes(root: Path, account: Path) -> None:
    with holder(root, account) as (_, theirs), runner_home(root, account) as ours:
        assert theirs.is_dir()
        assert ours != theirs


def test_a_home_is_used_again_with_what_was_written_there(root: Path, account: Path) -> None:
    with runner_home(root, account) as first:
        (first / "logs").mkdir()
        (first / "logs" / "kept").write_text("mine")
    with runner_home(root, account) as again:
        assert again == first
        assert (again / "logs" / "kept").read_text() == "mine"


def test_an_error_inside_frees_it(root: Path, account: Path) -> None:
    with pytest.raises(RuntimeError), runner_home(root, account) as first:
        raise RuntimeError
    with runner_home(root, account) as again:
        assert again == first


def test_a_killed_holder_frees_its_home(root: Path, account: Path) -> None:
    with holder(root, account) as (process, theirs):
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        with runner_home(root, account) as ours:
            assert ours == theirs


def test_it_shows_the_accounts_files_but_not_its_logs(root: Path, account: Path) -> None:
    with runner_home(root, account) as home:
        assert (home / "config.toml").read_text() == "a = 1"
        assert (home / "skills").is_dir()
        assert not (home / "logs").exists()


def test_changed_new_and_deleted_files_of_the_account_are_seen(root: Path, account: Path) -> None:
    with runner_home(root, account):
        pass
    replacement = account / "config.new"
    replacement.write_text("a = 2")
    replacement.replace(account / "config.toml")
    (account / "prompts").mkdir()
    (account / "skills").rmdir()
    with runner_home(root, account) as home:
        assert (home / "config.toml").read_text() == "a = 2"
        assert (home / "prompts").is_dir()
        assert not (home / "skills").is_symlink()


def test_a_file_the_cli_put_in_the_links_place_gives_way(root: Path, account: Path) -> None:
    with runner_home(root, account) as home:
        (home / "own.toml").write_text("mine")
        (home / "config.toml").unlink()
        (home / "config.toml").write_text("a = 3")
    with runner_home(root, account) as home:
        assert (home / "config.toml").read_text() == "a = 1"
        assert (home / "own.toml").read_text() == "mine"
    assert (account / "config.toml").read_text() == "a = 1"


def test_an_account_without_a_home_yet_is_no_obstacle(root: Path, tmp_path: Path) -> None:
    with runner_home(root, tmp_path / "nowhere") as home:
        assert list(home.iterdir()) == []


@pytest.mark.parametrize("source", ["account", "runner"])
def test_a_session_written_elsewhere_is_brought_here(root: Path, account: Path, source: str) -> None:
    folder = account / "logs" / "session" / FOLDER
    if source == "runner":
        other = root / "0" / "logs" / "session"
        other.mkdir(parents=True)
        folder = folder.rename(other / FOLDER)
    with runner_home(root, account) as first, runner_home(root, account, SESSION) as second:
        assert first != second
        assert (second / "logs" / "session" / FOLDER / "meta.json").read_text() == "{}"
        assert folder.is_dir()
        assert [path.name for path in (second / "logs" / "session").iterdir()] == [FOLDER]


def test_a_session_that_is_no_uuid_is_refused(root: Path, account: Path) -> None:
    with pytest.raises(Misuse), runner_home(root, account, "../*"):
        pass
    with runner_home(root, account) as home:
        assert home.name == "0"
