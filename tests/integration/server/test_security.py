"""Who is let in by a real daemon, and what it tells those who are not."""

from __future__ import annotations

import http.client
import socket

from segue.server.api import endpoints
from tests.integration.server.conftest import WAIT_S, Daemon

LIST = "/api/v1/conversations"


def test_the_health_needs_no_token(daemon: Daemon) -> None:
    told = daemon.ask("GET", "/api/v1/health", token=False).json
    assert told["ok"] is True
    assert told["pid"] == daemon.process.pid
    assert told["protocol"] == 1
    assert "conversations" in told["capabilities"]


def test_without_a_token_nothing_is_told(daemon: Daemon) -> None:
    for path in (
        LIST,
        "/api/openapi.json",
        "/api/docs",
        "/nowhere",
        "/api/v1/%68ealth",
        "/api/v1/health/",
    ):
        assert daemon.ask("GET", path, token=False).kind == "unauthorized", path
    assert daemon.ask("GET", LIST, token=False, authorization="Bearer wrong").kind == "unauthorized"
    assert daemon.ask("GET", LIST).json == []


def test_failures_are_limited(daemon: Daemon) -> None:
    answers = [daemon.ask("GET", LIST, token=False) for _ in range(11)]
    assert [each.status for each in answers] == [401] * 10 + [429]
    assert int(answers[-1].headers["retry-after"]) > 0
    assert daemon.ask("GET", LIST).status == 200


def test_another_host_is_refused(daemon: Daemon) -> None:
    assert daemon.ask("GET", LIST, host=f"evil.example:{daemon.port}").kind == "forbidden"
    assert daemon.ask("GET", "/api/v1/health", token=False, host="evil.example").kind == "forbidden"
    assert daemon.ask("GET", LIST, host=f"localhost:{daemon.port}").status == 200


def test_a_page_of_another_origin_is_refused(daemon: Daemon) -> None:
    for origin in ("http://evil.example", "null", "http://127.0.0.1:1"):
        assert daemon.ask("GET", LIST, origin=origin).kind == "forbidden"
        assert daemon.ask("POST", "/api/v1/sessions/prune", {}, origin=origin).kind == "forbidden"
    answer = daemon.ask("GET", LIST, origin=daemon.url)
    assert answer.status == 200
    assert "access-control-allow-origin" not in answer.headers


def test_a_preflight_is_refused(daemon: Daemon) -> None:
    answer = daemon.ask(
        "OPTIONS", LIST, token=False, origin="http://evil.example", access_control_request_method="POST"
    )
    assert answer.status == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_a_link_logs_one_browser_in_once(daemon: Daemon) -> None:
    path = daemon.link.removeprefix(daemon.url)
    first = daemon.ask("GET", path, token=False)
    assert (first.status, first.headers["location"]) == (303, "/")
    cookie, *flags = first.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict"} <= set(flags)
    assert daemon.token not in first.headers["set-cookie"]
    assert daemon.ask("GET", path, token=False).kind == "unauthorized"
    assert daemon.ask("GET", LIST, token=False, cookie=cookie).status == 200
    assert daemon.ask("POST", "/api/v1/sessions/prune", {}, token=False, cookie=cookie).status == 200
    foreign = daemon.ask("GET", LIST, token=False, cookie=cookie, origin="http://127.0.0.1:1")
    assert foreign.kind == "forbidden"


def test_looking_at_a_link_does_not_use_it_up(daemon: Daemon) -> None:
    path = daemon.link.removeprefix(daemon.url)
    looked = daemon.ask("HEAD", path, token=False)
    assert (looked.status, "set-cookie" in looked.headers) == (204, False)
    assert daemon.ask("GET", path, token=False).status == 303


def test_what_belongs_to_the_command_line_is_refused_over_tcp_before_its_body_is_read(daemon: Daemon) -> None:
    local = [each for each in endpoints() if each.local]
    assert local
    for each in local:
        assert daemon.ask(each.method, each.path, token=False).kind == "unauthorized"
        connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=WAIT_S)
        connection.putrequest(each.method, each.path)
        connection.putheader("Authorization", f"Bearer {daemon.token}")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", str(each.max_body))
        connection.endheaders()  # and nothing of the body
        assert connection.getresponse().status == 403
        connection.close()


def test_status_makes_new_links(daemon: Daemon) -> None:
    made = [daemon.segue("status", "--link").stdout.strip() for _ in range(2)]
    assert made[0] != made[1]
    for link in made:
        assert daemon.ask("GET", link.removeprefix(daemon.url), token=False).status == 303


def test_the_unix_socket_needs_no_token(daemon: Daemon) -> None:
    assert daemon.ask_local("GET", LIST).json == []
    assert (daemon.home / "daemon.sock").stat().st_mode & 0o777 == 0o600
    assert daemon.home.stat().st_mode & 0o777 == 0o700
    assert (daemon.home / "token").stat().st_mode & 0o777 == 0o600
    assert (daemon.home / "daemon.json").stat().st_mode & 0o777 == 0o600


def test_no_other_address_is_bound(daemon: Daemon) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.2", daemon.port))  # in use, if all addresses were bound


def test_a_body_that_is_too_large_is_refused_before_it_is_read(daemon: Daemon) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=WAIT_S)
    connection.putrequest("POST", "/api/v1/sessions/prune")
    connection.putheader("Authorization", f"Bearer {daemon.token}")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", str(1 << 40))
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 413
    connection.close()


def test_a_body_without_a_length_is_limited_as_well(daemon: Daemon) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", daemon.port, timeout=WAIT_S)
    connection.putrequest("POST", "/api/v1/sessions/prune")
    connection.putheader("Authorization", f"Bearer {daemon.token}")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    chunk = b" " * 65536
    for _ in range(17):  # one more than fits
        connection.send(b"%x\r\n%s\r\n" % (len(chunk), chunk))
    assert connection.getresponse().status == 413
    connection.close()


def test_every_answer_has_the_security_headers(daemon: Daemon) -> None:
    for answer in (
        daemon.ask("GET", LIST),
        daemon.ask("GET", LIST, token=False),
        daemon.ask("GET", "/nowhere"),
    ):
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


def test_only_the_files_of_the_documentation_are_served(daemon: Daemon) -> None:
    page = daemon.ask("GET", "/api/docs")
    script = page.body.decode().partition('src="')[2].partition('"')[0]
    assert daemon.ask("GET", script).status == 200
    for name in ("..%2f..%2fdocs.html", "%2e%2e%2f..%2faccess.py", "rapidoc-LICENSE.txt", "%00"):
        assert daemon.ask("GET", f"/api/static/vendor/{name}").kind == "not_found"


def test_the_log_has_neither_token_nor_key_nor_query(daemon: Daemon) -> None:
    daemon.ask("GET", f"{LIST}/secret-key/log")
    daemon.ask("GET", f"{LIST}/secret-key/plan?text=secret-words")
    daemon.ask("GET", "/secret-path")
    daemon.ask("GET", "/login?code=secret-code", token=False)
    daemon.ask("PATCH", f"{LIST}/secret-key/messages/1", {"text": "secret-body"})
    token = daemon.token
    daemon.end()
    log = daemon.log()
    assert "GET /api/v1/conversations/~" in log
    assert "404" in log
    assert "secret" not in log
    assert token not in log
    assert daemon.link.partition("code=")[2] not in log
