from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from segue.core.errors import StoreAway
from segue.store.renewer import Renewal, Renewer

SOON = partial(Renewal, renew_s=0.02, beat_s=0.01)


def renewer_threads() -> int:
    return sum(thread.name == "lease-renewer" for thread in threading.enumerate())


def counting(calls: list[str]) -> bool:
    calls.append("renew")
    return True


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_one_thread_renews_all_of_them_and_ends_with_the_last() -> None:
    renewer, renewed = Renewer(), [0] * 20

    def renew(n: int) -> bool:
        renewed[n] += 1
        return True

    before = renewer_threads()
    renewals = [SOON(partial(renew, n)) for n in range(20)]
    for renewal in renewals:
        renewer.add(renewal)
    wait_until(lambda: min(renewed) >= 3)
    assert renewer_threads() == before + 1
    for renewal in renewals:
        renewer.remove(renewal)
    wait_until(lambda: renewer_threads() == before)
    again = SOON(partial(renew, 0))
    counted = renewed[0]
    renewer.add(again)
    wait_until(lambda: renewed[0] > counted)
    renewer.remove(again)


def test_a_holder_is_called_between_renewals() -> None:
    renewer, calls = Renewer(), list[str]()
    renewal = Renewal(
        partial(counting, calls),
        on_beat=lambda: calls.append("beat"),
        renew_s=0.1,
        beat_s=0.01,
    )
    renewer.add(renewal)
    wait_until(lambda: calls.count("renew") >= 2)
    renewer.remove(renewal)
    assert calls[0] == "beat"
    assert calls.count("beat") > calls.count("renew")


def test_whoever_lost_it_is_told_once() -> None:
    renewer, losses, beats = Renewer(), list[int](), list[int]()
    lost = SOON(lambda: False, lambda: losses.append(1), lambda: beats.append(1))
    renewed = list[str]()
    other = SOON(partial(counting, renewed))
    renewer.add(lost)
    renewer.add(other)
    wait_until(lambda: len(losses) == 1)
    counted, seen = len(beats), len(renewed)
    wait_until(lambda: len(renewed) > seen + 3)
    assert (len(losses), len(beats)) == (1, counted)
    renewer.remove(lost)
    renewer.remove(other)


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_what_one_raises_costs_nobody_anything(error: type[BaseException]) -> None:
    """The store may be away for a moment: that is no loss."""
    renewer, losses, tries, renewed = Renewer(), list[int](), list[int](), list[str]()

    def fail() -> bool:
        tries.append(1)
        raise error

    failing = SOON(fail, lambda: losses.append(1), fail)
    other = SOON(partial(counting, renewed))
    renewer.add(failing)
    renewer.add(other)
    wait_until(lambda: len(tries) > 4 and len(renewed) > 4)
    renewer.remove(failing)
    renewer.remove(other)
    assert not losses


def test_nothing_is_called_once_it_is_removed() -> None:
    """Also not what was being called meanwhile: a lease that was given back is not one that was lost."""
    renewer, entered, go_on, losses = Renewer(), threading.Event(), threading.Event(), list[int]()

    def renew() -> bool:
        entered.set()
        return go_on.wait(10)

    renewal = SOON(renew, lambda: losses.append(1))
    renewer.add(renewal)
    assert entered.wait(10)
    removing = threading.Thread(target=renewer.remove, args=(renewal,))
    removing.start()
    removing.join(0.1)
    assert removing.is_alive(), "it waits for the call that is under way"
    go_on.set()
    removing.join(10)
    assert not removing.is_alive()
    assert not losses


@pytest.mark.parametrize("then", [None, RuntimeError])
def test_what_must_be_written_is_written_when_the_store_is_back(then: type[Exception] | None) -> None:
    """Whatever else it then meets, it is not repeated for ever."""
    renewer, tries, before = Renewer(), list[int](), renewer_threads()

    def write() -> str:
        tries.append(1)
        if len(tries) < 4:
            raise StoreAway("the store is away")
        if then is not None:
            raise then
        return "written"

    with pytest.raises(StoreAway):
        renewer.insist(write, again_s=0.01)
    wait_until(lambda: renewer_threads() == before)
    assert len(tries) == 4
    if then is None:
        assert renewer.insist(write) == "written"
        assert renewer_threads() == before, "once is enough"


def test_it_may_be_removed_by_what_it_calls() -> None:
    renewer, removed = Renewer(), threading.Event()

    def remove() -> None:
        renewer.remove(renewal)
        removed.set()

    renewal = SOON(lambda: True, on_beat=remove)
    renewer.add(renewal)
    assert removed.wait(10)
