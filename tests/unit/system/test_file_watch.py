from __future__ import annotations

import time
from pathlib import Path

import anyio
import pytest

from segue.system import file_watch
from segue.system.file_watch import FileWatch


class CountedWatch(FileWatch):
    looks = 0

    def _look(self) -> file_watch.State:
        self.looks += 1
        return super()._look()


def waited(watch: FileWatch) -> float:
    begun = time.monotonic()
    anyio.run(watch.wait)
    return time.monotonic() - begun


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(file_watch, "BACKSTOP_S", 60)
    (tmp_path / "out").write_text("first")
    return tmp_path / "out"


def test_what_was_written_between_two_waits_is_seen_at_once(path: Path) -> None:
    watch = FileWatch(path)
    with path.open("a") as file:
        file.write("more")
    assert waited(watch) < file_watch.BACKSTOP_S / 2


def test_any_of_the_files_will_do_and_one_may_be_missing(path: Path) -> None:
    watch = FileWatch(path.with_name("none"), path)
    path.write_text("something else")
    assert waited(watch) < file_watch.BACKSTOP_S / 2
    path.unlink()
    assert waited(watch) < file_watch.BACKSTOP_S / 2


def test_a_file_that_was_emptied_and_filled_again_is_seen(path: Path) -> None:
    watch = FileWatch(path)
    time.sleep(0.02)
    path.write_text("again")
    assert waited(watch) < file_watch.BACKSTOP_S / 2


def test_what_grows_meanwhile_ends_the_wait(path: Path) -> None:
    async def main() -> float:
        watch = FileWatch(path)
        async with anyio.create_task_group() as tasks:
            begun = time.monotonic()
            tasks.start_soon(watch.wait)
            await anyio.sleep(0.1)
            await anyio.Path(path).write_text("longer than before")
        return time.monotonic() - begun

    assert 0.1 <= anyio.run(main) < file_watch.BACKSTOP_S / 2


def test_it_looks_less_often_the_longer_nothing_happens(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_watch, "BACKSTOP_S", 1)
    watch = CountedWatch(path)
    assert waited(watch) >= file_watch.BACKSTOP_S, "it returns for nothing at times"
    assert watch.looks <= 2 + 8 + file_watch.BACKSTOP_S / file_watch.PAUSE_S
    monkeypatch.setattr(file_watch, "IDLE_AFTER_S", 0)
    before = watch.looks
    waited(watch)
    assert watch.looks - before <= 5 + file_watch.BACKSTOP_S / file_watch.IDLE_PAUSE_S


@pytest.mark.parametrize("after_ms", range(1, 40))
def test_what_soon_follows_is_seen_soon(monkeypatch: pytest.MonkeyPatch, after_ms: int) -> None:
    """An agent prints its last line a few milliseconds after its answer, and waits until it was read."""
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    class Written(FileWatch):
        def _look(self) -> file_watch.State:
            return [(int(now * 1000 >= after_ms), 0)]

    monkeypatch.setattr("segue.system.file_watch.time.monotonic", lambda: now)
    monkeypatch.setattr("segue.system.file_watch.anyio.sleep", sleep)
    watch = Written()
    with pytest.raises(StopIteration):
        watch.wait().send(None)
    assert now * 1000 - after_ms <= 2 + after_ms / 2
