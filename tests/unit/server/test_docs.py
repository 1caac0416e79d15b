"""The page about the API names the routes and kinds that there are."""

from __future__ import annotations

import re
from pathlib import Path

from segue.server.api import endpoints
from segue.server.problems import STATUS

PAGE = (Path(__file__).parents[3] / "docs" / "api.md").read_text()


def test_the_page_lists_all_routes() -> None:
    told = re.findall(r"^\| `([A-Z]+) (/[^`]*)` \|", PAGE, re.M)
    public = {(each.method, each.path) for each in endpoints() if each.path.startswith("/api/v1/")}
    assert {(method, f"/api/v1{path}") for method, path in told} == {
        each for each in public if not each[1].startswith("/api/v1/local/")
    }


def test_the_page_lists_all_kinds() -> None:
    told = re.findall(r"^\| `(\w+)` \| (\d{3}) \|", PAGE, re.M)
    assert {kind: int(status) for kind, status in told} == dict(STATUS)
