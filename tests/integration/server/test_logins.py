"""A browser stays logged in, and finds the daemon again, after it was killed and started again."""

from __future__ import annotations

import http.client
import socket

import pytest

from tests.integration.conftest import Program
from tests.integration.server.conftest import WAIT_S, Daemon, finish, start
from tests.integration.server.streams import Stream, streams
from tests.integration.server.test_kills import Daemons, daemons
from tests.integration.server.test_runs import finished, submit

__all__ = ["daemons", "streams"]

LIST = "/api/v1/conversations"


def log_in(daemon: Daemon) -> str:
    """The cookie of a browser that has opened the link."""
    answer = daemon.ask("GET", daemon.link.removeprefix(daemon.url), token=False)
    return answer.headers["set-cookie"].partition(";")[0]


def may_read(daemon: Daemon, cookie: str) -> bool:
    return daemon.ask("GET", LIST, token=False, cookie=cookie).status == 200


def test_a_page_that_is_open_connects_again(daemons: Daemons) -> None:
    cookie, url = log_in(daemons.now), daemons.now.url
    first = submit(daemons.now, "k", "remember number 1")["run"]
    finished(daemons.now, first)
    hello = Stream(daemons.now, "/api/v1/events").wait(bool)[0].data
    daemons.kill()
    again = daemons.restart()
    assert again.url == url
    assert may_read(again, cookie)
    second = submit(again, "k", "remember number 2")["run"]
    connection = http.client.HTTPConnection("127.0.0.1", again.port, timeout=WAIT_S)
    last = f"{hello['feed']}:{hello['seq']}"
    connection.request("GET", "/api/v1/events", headers={"cookie": cookie, "last-event-id": last})
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.readline() == b"event: hello\n"
    assert b'"status":"ok"' in answer.readline()
    while second.encode() not in (line := answer.readline()):
        assert line
    connection.close()
    again.end()
    assert daemons.restart().url == url
    assert may_read(daemons.now, cookie)


def test_deleting_the_file_logs_browsers_out(daemon: Daemon) -> None:
    cookie = log_in(daemon)
    assert may_read(daemon, cookie)
    assert (daemon.home / "logins").stat().st_mode & 0o777 == 0o600
    (daemon.home / "logins").unlink()
    assert not may_read(daemon, cookie)


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_port_that_somebody_else_has_is_left_to_them(segue: Program, address: str) -> None:
    first = start(segue)
    cookie = log_in(first)
    first.end()
    finish(first.process)
    with socket.create_server((address, first.port)):
        second = start(segue)
        try:
            assert second.port != first.port
            name, _, value = cookie.partition("=")
            stolen = f"{name.replace(str(first.port), str(second.port))}={value}"
            assert not may_read(second, cookie)
            assert not may_read(second, stolen)
        finally:
            finish(second.process)
