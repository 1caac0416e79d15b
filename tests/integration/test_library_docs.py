"""The examples of the library's page: each is run as it stands, in a home of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import Program

PAGE = Path(__file__).parents[2] / "docs" / "library.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)
PROMISED = re.compile(r"print\(.*?\)\s+# (.+)$", re.M)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_does_what_its_comments_say(number: int, segue: Program) -> None:
    code = EXAMPLES[number]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=segue.cwd,
        env=segue.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    promises = [line for line in PROMISED.findall(code) if "…" not in line]
    assert promises or number == 0
    for promise in promises:
        assert promise in said, (promise, said)


def test_the_page_has_its_examples() -> None:
    assert len(EXAMPLES) == 7
