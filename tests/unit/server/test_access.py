"""Who is let in: hosts, origins, tokens, one-time links, and how often one may fail."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from segue.core.errors import Broken
from segue.server.access import CODE_S, FAILURES, FAILURES_S, LOCAL, Access, read_token
from segue.server.problems import Refused

TOKEN = "ab" * 32


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def access(clock: Clock) -> Access:
    return Access(TOKEN, 4242, now_s=clock)


def kind(access: Access, is_open: bool = False, scope: dict[str, Any] | None = None, **headers: str) -> str:
    """The kind of the refusal, or ``ok``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        access.check(scope or {}, {"host": "127.0.0.1:4242", **named}, is_open=is_open)
    except Refused as refused:
        return refused.kind
    return "ok"


BEARER = f"Bearer {TOKEN}"


@pytest.mark.parametrize("host", ["127.0.0.1:4242", "localhost:4242", "[::1]:4242", "LOCALHOST:4242"])
def test_our_own_hosts(access: Access, host: str) -> None:
    assert kind(access, host=host, authorization=BEARER) == "ok"
    assert kind(access, host=host, authorization=BEARER, origin=f"http://{host}") == "ok"


@pytest.mark.parametrize(
    "host",
    ["", "localhost", "127.0.0.1", "127.0.0.1:4243", "evil.example:4242", "127.0.0.1.evil.example:4242"],
)
def test_another_host_is_refused_with_a_right_token(access: Access, host: str) -> None:
    assert kind(access, host=host, authorization=BEARER) == "forbidden"
    assert kind(access, host=host, is_open=True) == "forbidden"


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "http://evil.example",
        "https://127.0.0.1:4242",
        "http://127.0.0.1:1",
        "http://localhost:4242",
    ],
)
def test_another_origin_is_refused_with_a_right_token(access: Access, origin: str) -> None:
    assert kind(access, origin=origin, authorization=BEARER) == "forbidden"
    assert kind(access, origin=origin, is_open=True) == "forbidden"


def test_what_a_foreign_page_embeds_is_refused(access: Access) -> None:
    assert (
        kind(access, authorization=BEARER, sec_fetch_site="cross-site", sec_fetch_mode="no-cors")
        == "forbidden"
    )
    assert (
        kind(access, authorization=BEARER, sec_fetch_site="same-site", sec_fetch_mode="cors") == "forbidden"
    )
    assert kind(access, authorization=BEARER, sec_fetch_site="same-origin", sec_fetch_mode="cors") == "ok"
    assert kind(access, authorization=BEARER, sec_fetch_site="cross-site", sec_fetch_mode="navigate") == "ok"


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer ", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}a", "Bearer ä"]
)
def test_a_wrong_token_is_refused(access: Access, given: str) -> None:
    assert kind(access, authorization=given) == "unauthorized"


def test_the_scheme_may_be_written_in_any_case(access: Access) -> None:
    assert kind(access, authorization=f"bearer  {TOKEN} ") == "ok"


def test_the_unix_socket_needs_neither_token_nor_host(access: Access) -> None:
    assert kind(access, scope={LOCAL: True}, host="whatever") == "ok"


def code_of(access: Access) -> str:
    return access.make_link().partition("code=")[2]


def test_a_link_makes_one_cookie_once(access: Access) -> None:
    code = code_of(access)
    cookie, *flags = access.redeem(code).split("; ")
    assert flags == ["Path=/", "Max-Age=2592000", "HttpOnly", "SameSite=Strict"]
    assert TOKEN not in cookie
    assert kind(access, cookie=f"other=1; {cookie}") == "ok"
    assert kind(access, cookie=f"{cookie}0") == "unauthorized"
    with pytest.raises(Refused, match="used before"):
        access.redeem(code)
    assert kind(access, cookie=cookie) == "ok"


def test_a_link_gets_too_old(access: Access, clock: Clock) -> None:
    code = code_of(access)
    clock.now += CODE_S + 1
    with pytest.raises(Refused, match="too old"):
        access.redeem(code)


def test_the_daemons_of_two_homes_have_cookies_of_their_own() -> None:
    assert Access(TOKEN, 1).cookie != Access(TOKEN, 2).cookie


def test_too_many_failures_are_told_to_wait(access: Access, clock: Clock) -> None:
    for _ in range(FAILURES):
        assert kind(access) == "unauthorized"
    with pytest.raises(Refused) as refused:
        access.check({}, {"host": "127.0.0.1:4242"})
    assert refused.value.kind == "rate_limited"
    assert 0 < int(refused.value.headers["retry-after"]) <= FAILURES_S
    with pytest.raises(Refused, match="try again in"):
        access.redeem("00" * 16)
    assert kind(access, authorization=BEARER) == "ok"
    clock.now += FAILURES_S + 1
    assert kind(access) == "unauthorized"


def test_foreign_pages_do_not_use_up_the_failures(access: Access) -> None:
    for _ in range(FAILURES + 1):
        assert kind(access, origin="http://evil.example") == "forbidden"
    assert kind(access) == "unauthorized"


def test_the_token_is_made_once_for_this_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = read_token(path)
    assert len(token) == 64
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    assert read_token(path) == token
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_empty_token_lets_nobody_in(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("\n")
    with pytest.raises(Broken, match="no usable token"):
        read_token(tmp_path / "token")
