"""Options that all tiers share. Random tests print their seed and take it back by ``--seed``."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import HealthCheck, core, settings

from tests.undertaker import start_undertaker

# A busy machine is slow, and nothing may fail by the clock.
settings.register_profile("segue", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("segue")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("segue")
    group.addoption("--soak", action="store_true", help="only the long tests: all versions, many kills")
    group.addoption("--record", action="store_true", help="write the live streams into tests/fixtures")
    group.addoption(
        "--latest", action="store_true", help="run the live tier on the newest published versions"
    )
    group.addoption("--seed", type=int, default=None, help="seed of the random tests")


def pytest_configure(config: pytest.Config) -> None:
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:  # in the background, or under nohup
            signal.signal(number, _ignore)
    given = config.getoption("--seed")
    seed = given if given is not None else int(os.environ.get("SEGUE_TEST_SEED") or random.randrange(2**32))
    os.environ["SEGUE_TEST_SEED"] = str(seed)
    vars(core)["global_force_seed"] = seed


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = {item for item in items if _left_out(item, config)}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


def _left_out(item: pytest.Item, config: pytest.Config) -> bool:
    """Leave out the long tests. With ``--soak`` run only them, and those that then do more."""
    long = item.get_closest_marker("soak") is not None
    fact = item.get_closest_marker("fact") is not None
    if config.getoption("--soak"):
        return not (long or fact or "soak" in getattr(item, "fixturenames", ()))
    return long or (fact and not config.getoption("--latest"))


def _ignore(number: int, frame: FrameType | None) -> None:
    """An ignored signal is inherited by the programs that the tests start; a handled one is not."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(
        f"seed of the random tests: {os.environ['SEGUE_TEST_SEED']} (again with --seed)"
    )


@pytest.fixture(scope="session", autouse=True)
def undertaker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No daemon outlives the tests, even if they are killed."""
    if not Path("/proc/self/environ").exists():
        yield
        return
    waiting = start_undertaker(tmp_path_factory.getbasetemp())
    yield
    waiting.communicate()


@pytest.fixture
def seed() -> int:
    return int(os.environ["SEGUE_TEST_SEED"])


@pytest.fixture
def soak(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--soak"))
