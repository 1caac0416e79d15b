"""Arguments that are ours are refused however they are written."""

from __future__ import annotations

import pytest

from segue.core.errors import Misuse
from segue.core.request import refuse_owned

OWNED = frozenset({"-r", "--resume", "-y", "--approval-mode", "--model", "resume"})


@pytest.mark.parametrize(
    "argument",
    [
        "--resume",
        "--resume=x",
        "-r",
        "-rID",
        "-dy",
        "--approvalMode=yolo",
        "--approval-mode",
        "--resum",
        "--app=x",
        "resume",
    ],
)
def test_ours(argument: str) -> None:
    with pytest.raises(Misuse, match="is set by Segue and cannot be passed to It"):
        refuse_owned("It", OWNED, ["--fine", argument])


@pytest.mark.parametrize(
    "argument",
    ["--add-dir", "--resumed-by", "value", "-d", "--debug=resume", "-c", "key=-r", "--r", "-x=y"],
)
def test_not_ours(argument: str) -> None:
    refuse_owned("It", OWNED, [argument])
