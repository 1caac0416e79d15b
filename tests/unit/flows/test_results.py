"""Results are JSON without secrets, and large ones are kept apart."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from segue.core.errors import Broken, Misuse
from segue.core.redact import Redactor
from segue.flows.results import LARGEST, pack, unpack
from segue.system.named_files import working_tree


class Look(msgspec.Struct):
    files: int


def test_a_result_is_small_or_kept_apart() -> None:
    small, large = (pack("x" * (LARGEST - 2 + more), Redactor(), "it") for more in (0, 1))
    assert (small.text is None, small.data) == (False, None)
    assert (large.text, large.data) == (None, large.json)


def test_a_result_is_converted() -> None:
    packed = pack(Look(3), Redactor(), "it")
    assert unpack(packed.json, None) == {"files": 3}
    assert unpack(packed.json, Look) == Look(3)
    with pytest.raises(Broken, match="a recorded result cannot be read"):
        unpack(b'{"files":"x"}', Look)


def test_secrets_are_removed() -> None:
    packed = pack({"a": "my secret-value"}, Redactor(["secret-value"]), "it")
    assert unpack(packed.json, None) == {"a": "my [redacted]"}


@pytest.mark.parametrize("value", [object(), {1: object()}, "\ud800"])
def test_what_is_not_json_is_refused(value: object) -> None:
    with pytest.raises(Misuse, match="the result of the step a cannot be recorded as JSON"):
        pack(value, Redactor(), "the result of the step a")


def test_a_working_tree_is_the_one_of_its_git_directory(tmp_path: Path) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert working_tree(below) == below
    (tmp_path / "a" / ".git").write_text("gitdir: elsewhere")
    assert working_tree(below) == tmp_path / "a"
