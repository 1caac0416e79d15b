"""The live tier: real CLIs, loopback only. A test that cannot run says why, and fails the run in CI."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from segue.rehearsal.server import LoopbackModel
from tests import clis, isolation
from tests.live import harness
from tests.live.talk import Talk, talking

OBSTACLE = isolation.enter()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is known of older versions when the newest ones are looked at."""
    if not config.getoption("--latest"):
        return
    older = [f"{cli.agent}-{cli.older}" for cli in clis.CLIS.values()]
    left_out = {item for item in items if any(name in item.name for name in older)}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session", autouse=True)
def probes(tmp_path_factory: pytest.TempPathFactory) -> None:
    os.environ["PYTEST_PROBES"] = str(tmp_path_factory.mktemp("probes"))


@pytest.fixture
def retries() -> int:
    """How often the CLI tries a failed request again; a test overrides it by parametrizing."""
    return 1


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path, retries: int) -> Iterator[harness.Bench]:
    """A real CLI with its own model; parametrized by ``harness.live``."""
    agent, version = request.param
    if OBSTACLE:
        pytest.skip(f"no isolation: {OBSTACLE}")
    cli = clis.CLIS[agent]
    installed = clis.LATEST if request.config.getoption("--latest") else version
    reason = clis.install(cli, installed)
    if reason:
        pytest.skip(f"{agent} {installed}: {reason}")
    with LoopbackModel() as model:
        record = request.config.getoption("--record")
        yield harness.make(agent, version, installed, tmp_path, model, retries=retries, record=record)


@pytest.fixture
def talk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Talk]:
    """``segue`` with one version of one CLI; parametrized by (agent, version)."""
    if OBSTACLE:
        pytest.skip(f"no isolation: {OBSTACLE}")
    agent, version = request.param
    reason = clis.install(clis.CLIS[agent], version)
    if reason:
        pytest.skip(f"{agent} {version}: {reason}")
    with talking(tmp_path, {agent: version}) as made:
        made.env["SEGUE_DEFAULTS_AGENT"] = agent
        yield made


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """In CI a skipped live test is a failure: a green run must have run them."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = (
        [report for report in reporter.stats.get("skipped", []) if "tests/live" in report.nodeid]
        if reporter
        else []
    )
    if skipped and os.environ.get("CI"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
