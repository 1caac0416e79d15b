"""Sessions that the real Vibe wrote: read, repaired, removed, carried elsewhere.

A start of 3.x costs five seconds of processor time, so a test tells a whole little story.
"""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest

from segue.agents.base import RepairOptions, StoredSession
from segue.agents.vibe.archive import ARCHIVE
from segue.agents.vibe.format import FORMAT
from tests.live.harness import Bench, Ran, live
from tests.live.test_vibe import NEW, OLD, failure_of, moved
from tests.live.test_vibe_cut import files, said, sent, settle
from tests.live.wire import last_prompt

TOOL = "TWO [[shell echo out-$((500+2))]] [[say done-2]]"
Items = list[dict[str, Any]]


def find(bench: Bench, session: str | None) -> StoredSession:
    found = FORMAT.find(bench.home, session or "")
    assert found is not None
    return found


def told(stored: StoredSession) -> list[tuple[str, str]]:
    return [(entry.kind, entry.text) for record in ARCHIVE.read(stored) for entry in record.entries]


def closed(ran: Ran) -> bool:
    """Every call that the model was sent is followed by its result."""
    calls = [call["id"] for message in sent(ran) for call in message.get("tool_calls") or ()]
    return calls == [message["tool_call_id"] for message in sent(ran) if message["role"] == "tool"]


def rewrite(store: Path, change: Callable[[Items], Items]) -> None:
    """Other messages in a store, all its digests right."""
    current = msgspec.json.decode((store / "CURRENT").read_bytes())
    generation = store / "generations" / current["generation"]
    manifest = msgspec.json.decode((generation / "manifest.json").read_bytes())
    chunks = [store / "chunks" / f"{digest}.json" for digest in manifest["checkpoint"]["chunks"]]
    items = [item for chunk in chunks for item in msgspec.json.decode(chunk.read_bytes())]
    manifest["checkpoint"]["chunks"] = [put(store / "chunks", change(items))]
    current["manifest_sha256"] = put(generation, manifest, "manifest")
    put(store, current, "CURRENT", "")


def put(folder: Path, value: Any, name: str = "", suffix: str = ".json") -> str:
    body = msgspec.json.encode(value, order="sorted")
    digest = sha256(body).hexdigest()
    (folder / f"{name or digest}{suffix}").write_bytes(body + b"\n")
    return digest


def break_it(bench: Bench, stored: StoredSession) -> None:
    """A call that nobody answered; in the old version also a line that was torn by a kill."""
    if bench.version == NEW:
        rewrite(stored.path, lambda items: items[:4])
        return
    messages = stored.path / "messages.jsonl"
    lines = messages.read_bytes().splitlines(keepends=True)
    messages.write_bytes(b"".join([*lines[:4], lines[0][:30]]))


@pytest.mark.soak
@live("vibe", NEW, OLD)
def test_a_session_is_read_as_it_was_and_one_that_was_damaged_can_be_repaired(bench: Bench) -> None:
    first = bench.attempt("remember number 111")
    second = bench.resume(first.outcome.session_id, TOOL, permission="full")
    stored = find(bench, second.outcome.session_id)
    assert stored in list(ARCHIVE.stored(bench.home))
    brief = ARCHIVE.brief(stored)
    assert (brief.title, brief.title_by, brief.last_prompt) == ("remember number 111", "prompt", TOOL)
    assert (brief.cwd, brief.messages, brief.trouble) == (str(bench.cwd), 4, None)
    assert (brief.model, brief.context) == ("rehearsal", last_prompt(second))
    assert [kind for kind, _ in told(stored)] == ["user", "assistant", "user", "call", "result", "assistant"]
    assert [text for _, text in told(stored)][:3] == ["remember number 111", "Noted: 111.", TOOL]
    assert "out-502" in told(stored)[4][1]
    assert list(ARCHIVE.back(stored)) == list(ARCHIVE.read(stored))[::-1]

    break_it(bench, stored)
    before = files(stored.path)
    mended = ARCHIVE.repair(find(bench, stored.id), str(uuid4()), RepairOptions())
    assert mended.done[-1] == "1 call without a result was closed"
    assert files(stored.path) == before
    refused = bench.resume(stored.id, "ORIGINAL [[say hm]]")
    assert failure_of(refused) == (
        ("model_error", None) if bench.version == NEW else ("session_rejected", "corrupt")
    )
    ran = bench.resume(mended.session, "what number?")
    assert (ran.outcome.failure, ran.outcome.text, closed(ran)) == (None, "111", True)
    assert said(ran, "remember number 111", "Noted", "TWO", "interrupted", "ORIGINAL") == [1, 1, 1, 1, 0]
    assert (ran.outcome.session_id == mended.session) is (bench.version == NEW)


@pytest.mark.soak
@live("vibe", NEW)
def test_a_turn_that_was_killed_is_taken_along_as_far_as_it_came(bench: Bench) -> None:
    first = bench.attempt(f"remember number 111 {TOOL}", permission="full")
    bench.when_asked("KILLED", lambda: bench.signal(signal.SIGKILL), after_s=3)
    bench.resume(first.outcome.session_id, "KILLED [[shell sleep 60]] [[say late]]", permission="full")
    settle(bench, first.outcome.session_id)
    stored = find(bench, first.outcome.session_id)
    assert ARCHIVE.brief(stored).last_prompt == "KILLED [[shell sleep 60]] [[say late]]"
    kinds = [kind for kind, _ in told(stored)]
    assert kinds[:6] == ["user", "call", "result", "assistant", "user", "call"]
    assert kinds[6:] in (
        [],
        ["result"],
    )  # a part of Vibe that outlived the kill may have noted that it failed
    mended = ARCHIVE.repair(stored, str(uuid4()), RepairOptions(trim=True))
    assert ("1 call without a result was closed" in mended.done) is (kinds[6:] == [])
    ran = bench.resume(mended.session, "what number?")
    assert (ran.outcome.failure, ran.outcome.text, closed(ran)) == (None, "111", True)
    assert said(ran, "KILLED", "out-502") == [1, 0]
    assert said(ran, "The output of this tool call") == [1 + len(kinds[6:])]


@pytest.mark.soak
@live("vibe")
def test_a_removed_session_is_gone_and_another_goes_on_also_from_a_copy(bench: Bench, tmp_path: Path) -> None:
    gone = bench.attempt("remember number 111").outcome.session_id
    kept = bench.attempt("remember number 222").outcome.session_id
    again = bench.resume(kept, "[[say again]]").outcome.session_id  # 3.x writes what it knows of the others
    stored = find(bench, gone)
    ARCHIVE.remove(stored)
    assert not stored.path.exists()
    assert not [path for path in bench.home.rglob("*") if (gone or "") in path.name]
    index = bench.home / "logs/session/unified/.session-index.json"
    assert not index.exists() or (gone or "") not in index.read_text()
    assert failure_of(bench.resume(gone, "what number?")) == ("session_rejected", "not_found")
    assert bench.resume(again, "what number?").outcome.text == "222"

    other, there = find(bench, again), tmp_path / "elsewhere"
    for path in ARCHIVE.files(other):
        target = there / path.relative_to(bench.home)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    shutil.copy(bench.home / "config.toml", there)
    shutil.rmtree(bench.home / "logs")
    assert moved(bench, there).resume(again, "what number?").outcome.text == "222"
