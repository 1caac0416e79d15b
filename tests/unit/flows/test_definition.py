"""The code of a flow is found again: by its name, or in its own file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from segue.core.errors import Misuse, NotFound
from segue.flows.definition import BUILT_IN, FlowSource, built_in, load

CODE = """
from segue.flows.definition import flow
from beside import VERSION

@flow(version=VERSION)
async def mine(flow):
    return 1

async def plain(flow):
    return 1

if __name__ == "__main__":
    raise SystemExit("it must not be run")
"""


@pytest.fixture
def source(tmp_path: Path) -> FlowSource:
    (tmp_path / "beside.py").write_text("VERSION = 2\n")
    file = tmp_path / "mine.py"
    file.write_text(CODE)
    return FlowSource(str(file), "mine", "__main__")


def test_the_flows_that_come_with_segue_are_found_by_name() -> None:
    for name in BUILT_IN:
        found = built_in(name)
        assert (found.name, found.source) == (name, None)
        assert built_in(name, found.version).version == found.version
        with pytest.raises(NotFound, match="has no version 99 of the flow"):
            built_in(name, 99)
    with pytest.raises(NotFound, match="there is no flow 'os:system'; known: "):
        built_in("os:system")


def test_a_file_is_loaded_without_being_run(source: FlowSource, tmp_path: Path) -> None:
    found = load(source, 2, tmp_path)
    assert (found.name, found.version) == ("mine", 2)
    assert load(source, None, tmp_path.parent).version == 2, "a directory above is fine"


def test_what_does_not_fit_is_refused(source: FlowSource, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with pytest.raises(Misuse, match=f"to run it, give this command in {tmp_path}"):
        load(source, 2, elsewhere)
    with pytest.raises(NotFound, match=r"it began with 1; .* segue flow resume FLOW --from STEP"):
        load(source, 1, tmp_path)
    with pytest.raises(NotFound, match=r"no version 99 of .*; .* segue flow resume F7 --from STEP"):
        built_in("trial", 99, of="F7")
    with pytest.raises(NotFound, match="has no flow plain"):
        load(FlowSource(source.file, "plain", "__main__"), 2, tmp_path)
    with pytest.raises(NotFound, match="the code of this flow is gone"):
        load(FlowSource(f"{source.file}x", "mine", "__main__"), 2, tmp_path)
    with pytest.raises(NotFound, match="the code of this flow is gone"):
        load(FlowSource("", "mine", "__main__"), 2, tmp_path)


def test_a_link_out_of_the_directory_is_refused(source: FlowSource, tmp_path: Path) -> None:
    below = tmp_path / "below"
    below.mkdir()
    os.symlink(source.file, below / "mine.py")
    with pytest.raises(Misuse, match="the code of this flow is"):
        load(FlowSource(str(below / "mine.py"), "mine", "__main__"), 2, below)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_refused(source: FlowSource, tmp_path: Path) -> None:
    os.chown(source.file, 12345, 12345)
    with pytest.raises(Misuse, match="belongs to another user"):
        load(source, 2, tmp_path)
