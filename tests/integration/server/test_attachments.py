"""Attachments over HTTP: sent with a run, kept while it waits, fetched again."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import Any

import msgspec
import pytest

from tests.images import png
from tests.integration.conftest import Program
from tests.integration.server.conftest import Answer, Daemon, finish, start
from tests.integration.server.streams import streams
from tests.integration.server.test_runs import RUNS, finished, submit

__all__ = ["streams"]

LOG = "/api/v1/conversations/k/log"
FILES = "/api/v1/conversations/k/attachments"
IMAGE: dict[str, Any] = {"name": "a.png", "data": b64encode(png()).decode()}
ID = sha256(png()).hexdigest()


def ordered(daemon: Daemon, *attachments: dict[str, Any], local: bool = False, **more: Any) -> Answer:
    body = {"message": "look", "agent": "rehearsal", "cwd": str(daemon.segue.cwd), **more}
    ask = daemon.ask_local if local else daemon.ask
    return ask("POST", RUNS.format("k"), {**body, "attachments": list(attachments)})


def kept(segue: Program) -> str:
    """All that the agent has kept in its sessions."""
    folder = segue.home.parent / ".local" / "share" / "segue-rehearsal" / "sessions"
    return "".join(file.read_text() for file in folder.glob("*.jsonl"))


def test_a_file_is_sent_listed_and_fetched(daemon: Daemon) -> None:
    page = {"name": "../x\r\ny.html", "media_type": "text/html", "data": b64encode(b"<script>").decode()}
    run = ordered(daemon, IMAGE, page).json["run"]
    assert finished(daemon, run)["state"] == "done"
    assert f"[file a.png: image/png, 99 bytes, {ID}]" in kept(daemon.segue)
    image, text = daemon.ask("GET", LOG).json[0]["attachments"]
    assert image == {"name": "a.png", "media_type": "image/png", "bytes": 99, "id": ID}
    assert (text["name"], text["media_type"]) == ("x__y.html", "text/plain")
    shown = daemon.ask("GET", f"{FILES}/{ID}")
    assert (shown.status, shown.body, shown.headers["content-type"]) == (200, png(), "image/png")
    saved = daemon.ask("GET", f"{FILES}/{text['id']}")
    assert (saved.body, saved.headers["content-type"]) == (b"<script>", "application/octet-stream")
    assert saved.headers["content-disposition"] == "attachment; filename*=UTF-8''x__y.html"
    for answer in (shown, saved):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    submit(daemon, "other", "hi")
    for path in (
        f"{FILES}/{'0' * 64}",
        f"{FILES}/..%2F..%2Ftoken",
        FILES.replace("/k/", "/other/") + f"/{ID}",
    ):
        assert daemon.ask("GET", path).status == 404
    assert daemon.ask("GET", f"{FILES}/{ID}", token=False).status == 401


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": "a.bin", "data": b64encode(b"\0\1").decode()}, "does not take a.bin"),
        ({"name": "a.png"}, "has data, or a path"),
        ({**IMAGE, "media_type": "image/gif"}, "is not image/gif"),
        ({**IMAGE, "data": "not base64!"}, "base64"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_is_stored(
    daemon: Daemon, given: dict[str, Any], words: str
) -> None:
    refused = ordered(daemon, given)
    assert (refused.status, refused.kind) == (422, "misuse")
    assert words in refused.json["detail"]
    assert daemon.ask("GET", "/api/v1/conversations").json == []


def test_a_path_is_taken_over_the_unix_socket_only(daemon: Daemon) -> None:
    (daemon.segue.cwd / "a.png").write_bytes(png())
    path = {"path": str(daemon.segue.cwd / "a.png")}
    refused = ordered(daemon, path)
    assert (refused.status, refused.kind) == (403, "forbidden")
    assert ordered(daemon, {"path": "a.png"}, local=True).status == 422
    assert finished(daemon, ordered(daemon, path, local=True).json["run"])["state"] == "done"
    assert daemon.ask("GET", LOG).json[0]["attachments"][0]["id"] == ID
    again = daemon.segue("run", "k", "and again", "--attach", "a.png", "--json")
    assert (again.code, again.turn["mode"]) == (0, "resume")
    assert kept(daemon.segue).count(ID) == 2


def test_a_queued_run_keeps_its_files_over_a_restart(segue: Program) -> None:
    (segue.cwd / "a.png").write_bytes(png())
    queued = segue("run", "k", "look", "--queue", "--agent", "rehearsal", "-q", "--attach", "a.png")
    (segue.cwd / "a.png").unlink()
    daemon = start(segue)
    try:
        done = finished(daemon, queued.stdout.strip())
        assert done["state"] == "done"
        assert f"image/png, 99 bytes, {ID}]" in kept(segue)
        retried = submit(daemon, "k", "", retry_of=done["run"], fresh_session=True)["run"]
        assert finished(daemon, retried)["state"] == "done"
        assert kept(segue).count(ID) == 2
    finally:
        finish(daemon.process)


def test_another_file_under_the_same_key_is_another_request(daemon: Daemon) -> None:
    body = {"message": "look", "agent": "rehearsal", "cwd": str(daemon.segue.cwd), "attachments": [IMAGE]}
    one, two = (daemon.ask("POST", RUNS.format("k"), body, idempotency_key="once") for _ in range(2))
    assert one.json["run"] == two.json["run"]
    body["attachments"] = [{**IMAGE, "data": b64encode(png(2)).decode()}]
    refused = daemon.ask("POST", RUNS.format("k"), body, idempotency_key="once")
    assert refused.status == 422
    assert msgspec.json.decode(refused.body)["kind"] == "misuse"
