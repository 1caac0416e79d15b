"""Accounts over HTTP: seen and chosen over TCP, defined and removed only over the Unix socket."""

from __future__ import annotations

import pytest

from tests.integration.server.conftest import Daemon

ACCOUNTS = "/api/v1/accounts"
NEW = {"name": "new", "agent": "rehearsal", "env": {"SOME_TOKEN": "s3cret-value"}, "home": "/nowhere/new"}


@pytest.mark.parametrize("body", [NEW, {"name": "new", "agent": "rehearsal"}])
def test_an_account_is_not_defined_over_tcp(daemon: Daemon, body: object) -> None:
    refused = daemon.ask("POST", ACCOUNTS, body)
    assert refused.status in (403, 404)
    assert daemon.ask("GET", ACCOUNTS).json == []
    assert daemon.ask_local("POST", ACCOUNTS, NEW).status == 201
    assert daemon.ask("DELETE", f"{ACCOUNTS}/new").status in (403, 404)
    shown = daemon.ask("GET", f"{ACCOUNTS}/new")
    assert (shown.status, shown.json["env"], b"s3cret-value" in shown.body) == (200, ["SOME_TOKEN"], False)
    assert daemon.ask_local("DELETE", f"{ACCOUNTS}/new").status == 204
    assert daemon.ask("GET", f"{ACCOUNTS}/new").status == 404


def test_an_account_is_chosen_over_tcp(daemon: Daemon) -> None:
    assert daemon.ask_local("POST", ACCOUNTS, NEW).status == 201
    assert daemon.ask("POST", f"{ACCOUNTS}/new/default", {}).json["default"]
    bound = daemon.ask("PUT", "/api/v1/bindings", {"account": "new", "directory": str(daemon.home)})
    assert bound.json[0]["directories"] == [str(daemon.home)]
    freed = daemon.ask("PUT", "/api/v1/bindings", {"account": None, "directory": str(daemon.home)})
    assert freed.json[0]["directories"] == []
    assert daemon.ask("PUT", "/api/v1/bindings", {"account": "new", "directory": "relative"}).status == 422
    assert daemon.ask("PUT", "/api/v1/bindings", {"account": None, "directory": "/a\0b"}).status == 422
    assert daemon.ask("GET", f"{ACCOUNTS}/new/login").json["detail"].startswith("Rehearsal has no command")
