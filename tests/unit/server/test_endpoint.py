"""How a path finds its endpoint: matched before it is decoded."""

from __future__ import annotations

import pytest

from segue.server.endpoint import Call, Endpoint, Found, Table


async def nothing(call: Call) -> None:
    """Answers nothing."""


def endpoint(method: str, path: str) -> Endpoint:
    return Endpoint(method, path, (), nothing, "")


TABLE = Table(
    tuple(
        endpoint(*each.split())
        for each in (
            "GET /c",
            "POST /c/import",
            "GET /c/{key}",
            "DELETE /c/{key}",
            "PATCH /c/{key}/messages/{message}",
        )
    )
)


@pytest.mark.parametrize(
    ("method", "path", "found", "decoded"),
    [
        ("GET", "/c", "/c", {}),
        ("HEAD", "/c", "/c", {}),
        ("GET", "/c/a%2Fb", "/c/{key}", {"key": "a/b"}),
        ("GET", "/c/a%252Fb", "/c/{key}", {"key": "a%2Fb"}),
        ("GET", "/c/%C3%A4", "/c/{key}", {"key": "ä"}),
        ("GET", "/c/import", "/c/{key}", {"key": "import"}),
        ("POST", "/c/import", "/c/import", {}),
        ("PATCH", "/c/a%2Fb/messages/%233", "/c/{key}/messages/{message}", {"key": "a/b", "message": "#3"}),
        ("GET", "/c/..", "/c/{key}", {"key": ".."}),
    ],
)
def test_a_path_is_matched_before_it_is_decoded(
    method: str, path: str, found: str, decoded: dict[str, str]
) -> None:
    got = TABLE.find(method, path)
    assert isinstance(got, Found)
    assert (got.endpoint.path, got.path) == (found, decoded)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/", set()),
        ("GET", "/c/", set()),
        ("GET", "/c/a/b", set()),
        ("GET", "/c/a\n", {"GET"}),
        ("PUT", "/c/a", {"GET", "DELETE"}),
        ("PUT", "/c/import", {"GET", "DELETE", "POST"}),
        ("GET", "/c/a/messages/b", {"PATCH"}),
    ],
)
def test_other_methods_of_a_path_are_told(method: str, path: str, allowed: set[str]) -> None:
    got = TABLE.find(method, path)
    assert set(got.endpoint.method.split() if isinstance(got, Found) else got) == allowed


def test_one_method_of_a_path_has_one_endpoint() -> None:
    with pytest.raises(ValueError, match="two endpoints"):
        Table((endpoint("GET", "/a"), endpoint("GET", "/a")))


def test_what_returns_nothing_is_answered_without_content() -> None:
    assert endpoint("GET", "/a").success == 204
    assert Endpoint("GET", "/a", (), nothing, "", status=303).success == 303
    assert Endpoint("POST", "/a", (), nothing, "", returns=int, status=201).success == 201
