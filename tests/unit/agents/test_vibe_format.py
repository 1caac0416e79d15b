"""Vibe's sessions on disk, small and made by hand: where they end, what a cut leaves, and any damage."""

from __future__ import annotations

import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.agents.base import CutRequest, StoredSession
from segue.agents.vibe import folder
from segue.agents.vibe.format import FORMAT
from segue.core.request import Capabilities, Request, Runtime, Start

ID, NEW_ID = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
CWD = Path("/home/me/project")


def runtime(*, old: bool) -> Runtime:
    can = Capabilities(resume=True, branch=True, id_on_disk_only=old)
    return Runtime(
        agent="vibe", distribution="mistral-vibe", command=("vibe",), version=None, capabilities=can
    )


# --- sessions made by hand -------------------------------------------------------------------------


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def answer(text: str | None, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


CALL = {
    "id": "c1",
    "index": 0,
    "function": {"name": "bash", "arguments": '{"command":"ls"}'},
    "type": "function",
}
TURNS = [
    [user("one"), answer("first")],
    [
        user("two"),
        answer(None, reasoning_content="hm", tool_calls=[CALL]),
        {"role": "tool", "content": "a.txt", "name": "bash", "tool_call_id": "c1"},
        answer("second"),
    ],
    [user("three"), answer("third")],
]


def old_session(
    home: Path, turns: list[list[dict[str, Any]]], session: str = ID, name: str = "", **meta: Any
) -> Path:
    target = home / "logs/session" / (name or f"session_20260101_120000_{session[:8]}")
    target.mkdir(parents=True, exist_ok=True)
    known = {"session_id": session, "environment": {"working_directory": str(CWD)}, **meta}
    (target / "meta.json").write_bytes(msgspec.json.encode(known))
    lines = (msgspec.json.encode(message) + b"\n" for turn in turns for message in turn)
    (target / "messages.jsonl").write_bytes(b"".join(lines))
    return target


def parts(message: dict[str, Any]) -> dict[str, Any]:
    """A message of 2.x in the form of 3.x."""
    content: list[dict[str, Any]] = []
    if message.get("reasoning_content"):
        content.append(
            {"type": "reasoning", "content": [{"type": "text", "text": message["reasoning_content"]}]}
        )
    if isinstance(message["content"], list):
        content += message["content"]
    elif message["content"] is not None:
        content.append({"type": "text", "text": message["content"]})
    for call in message.get("tool_calls", ()):
        arguments = {"type": "json", "raw": call["function"]["arguments"], "value": {}}
        content.append(
            {"type": "tool_call", "id": call["id"], "name": call["function"]["name"], "arguments": arguments}
        )
    kept = {key: message[key] for key in ("role", "name", "tool_call_id") if key in message}
    return kept | {"content": content}


def encoded(value: Any) -> bytes:
    return msgspec.json.encode(value, order="sorted")


def put(path: Path, value: Any) -> str:
    """A record as 3.x writes it; its digest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    body = encoded(value)
    path.write_bytes(body + b"\n")
    return sha256(body).hexdigest()


def chunk(target: Path, items: list[Any]) -> str:
    digest = put(target / "chunks" / "new", items)
    (target / "chunks" / "new").rename(target / "chunks" / f"{digest}.json")
    return digest


def store(
    home: Path,
    turns: list[list[dict[str, Any]]],
    session: str = ID,
    journal: bytes = b"",
    minor: int = 9,
    **checkpoint: Any,
) -> Path:
    target = home / "logs/session/unified" / session
    stored = [
        {"message": parts(message), "source": message.get("source", "history"), "turn_index": index}
        for index, turn in enumerate(turns)
        for message in turn
    ]
    shown = [
        {"type": "message", "role": message["role"], "sessionId": session}
        for turn in turns
        for message in turn
        if message["role"] != "tool"
    ]
    generation = target / "generations" / f"{7:016d}"
    messages = [chunk(target, stored[:2]), *([chunk(target, stored[2:])] if stored[2:] else [])]
    point = {"checkpoint_version": 1, "compaction_count": 0, "context": {"messages": []}, **checkpoint}
    point |= {"turn": {"type": "terminal"}, "last_reported_context_tokens": 199_000}
    public = {
        "session": {"id": session, "tokenUsage": {}},
        "latestTurn": {"id": "t"},
        "history": {"entries": []},
    }
    state: dict[str, Any] = {
        "session_id": session,
        "session_metadata": {"active_model": "pinned", "agent_name": "ask"},
        "plugin_lock": {"plugins": [{"name": "vibe"}]},
        "subagents": None,
        "actions": [{}],
    }
    files = {
        "checkpoint": ("checkpoint.json", point, messages),
        "projection_state": (
            "projection-state.json",
            {"session_id": session, "snapshot": public},
            [chunk(target, shown)],
        ),
        "runtime_state": ("runtime-state.json", state, [chunk(target, [{"tools": []}])]),
    }
    manifest: dict[str, Any] = {
        "session_id": session,
        "execution_state": "quiescent",
        "recovery_journal_segment": {"path": "journal/0000000000000008.jsonl"},
    }
    for name, (file, value, chunks) in files.items():
        manifest[name] = {"path": file, "sha256": put(generation / file, value), "chunks": chunks}
    digest = put(generation / "manifest.json", manifest)
    current = {
        "store_format": "mistral.vibe.unified-session-store/v1",
        "store_format_minor": minor,
        "session_id": session,
        "generation": generation.name,
        "manifest_sha256": digest,
    }
    put(target / "CURRENT", current)
    (target / "journal").mkdir()
    (target / "journal" / "0000000000000008.jsonl").write_bytes(journal)
    return target


def begun(text: str) -> bytes:
    """The journal's record of a prompt."""
    command = {"type": "user_message", "content": [{"type": "text", "text": text, "_meta": None}]}
    record = {"type": "core_input", "payload": {"input": {"command": command}}, "sequence": 8}
    return encoded(record) + b"\n"


MAKERS = pytest.mark.parametrize("make", [old_session, store], ids=["2.x", "3.x"])


def look(home: Path, session: str = ID) -> StoredSession:
    found = FORMAT.find(home, session, CWD)
    assert found is not None
    return found


def end(home: Path, session: str = ID) -> str:
    anchor = FORMAT.end(look(home, session))
    assert anchor is not None
    return anchor


def anchors(tmp_path: Path, make: Any, turns: list[list[dict[str, Any]]] = TURNS) -> list[str]:
    """The end of the session after each of its turns."""
    found = []
    for count in range(1, len(turns) + 1):
        home = tmp_path / f"after-{count}"
        make(home, turns[:count])
        found.append(end(home))
    return found


def cut(
    home: Path, anchor: str, *, old: bool = False, model: str | None = None, into: Path | None = None
) -> Any:
    request = Request(prompt="", cwd=CWD, model=model)
    return FORMAT.cut(
        look(home),
        CutRequest(
            anchor=anchor, new_id=NEW_ID, home=into or home, request=request, runtime=runtime(old=old)
        ),
    )


def written(home: Path) -> list[dict[str, Any]]:
    (file,) = home.glob(f"logs/session/session_*_{NEW_ID[:8]}/messages.jsonl")
    return [msgspec.json.decode(line) for line in file.read_bytes().splitlines()]


def contents(path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


# --- where a session ends --------------------------------------------------------------------------


@MAKERS
def test_each_turn_has_an_end_of_its_own(tmp_path: Path, make: Any) -> None:
    found = anchors(tmp_path, make, [*TURNS, TURNS[2]])
    assert len(set(found)) == 4
    assert all(len(anchor) <= 200 for anchor in found)
    assert FORMAT.find(tmp_path, ID, CWD) is None
    assert FORMAT.find(tmp_path, "../../etc", CWD) is None


def test_both_forms_of_one_conversation_have_the_same_anchors(tmp_path: Path) -> None:
    mentioned = [{"type": "text", "text": "see"}, {"type": "text", "text": "it"}]
    new = [*TURNS, [user("x", content=mentioned), answer("fourth")]]
    old = [*TURNS, [user("see\n\nit"), answer("fourth")]]
    assert anchors(tmp_path / "new", store, new) == anchors(tmp_path / "old", old_session, old)


def test_the_whole_id_counts_where_the_short_one_is_shared(tmp_path: Path) -> None:
    other = ID[:8] + NEW_ID[8:]
    old_session(tmp_path, TURNS[:1], other, name=f"session_20250101_120000_{ID[:8]}")
    assert FORMAT.find(tmp_path, ID, CWD) is None
    old_session(tmp_path, TURNS)
    assert look(tmp_path).path.name.startswith("session_2026")
    assert look(tmp_path, other).path.name.startswith("session_2025")


def test_a_prompt_that_only_the_journal_has_is_the_end(tmp_path: Path) -> None:
    one, two, _ = anchors(tmp_path, store)
    half = begun("two")[:-20]
    store(tmp_path / "killed", TURNS[:1], journal=b"{garbage\n" + begun("two") + half)
    assert end(tmp_path / "killed") == two
    store(tmp_path / "earlier", TURNS[:1], journal=half)
    assert end(tmp_path / "earlier") == one
    assert cut(tmp_path / "killed", two) is None  # what else it will hold is not known yet
    assert cut(tmp_path / "killed", one) == Start("resume", NEW_ID)
    assert end(tmp_path / "killed", NEW_ID) == one


# --- a cut -----------------------------------------------------------------------------------------


def test_a_cut_of_an_old_session_keeps_its_lines_as_they_are(tmp_path: Path) -> None:
    _, two, _ = anchors(tmp_path, old_session)
    source = old_session(tmp_path, TURNS, title="mine", config={"active_model": "m", "x": 1})
    (source / "attachments").mkdir()
    (source / "attachments" / "p.png").write_bytes(b"picture")
    before = contents(source)
    assert cut(tmp_path, two, old=True) == Start("resume", NEW_ID)
    assert contents(source) == before
    target = look(tmp_path, NEW_ID).path
    lines = (source / "messages.jsonl").read_bytes().splitlines(keepends=True)
    assert (target / "messages.jsonl").read_bytes() == b"".join(lines[:6])
    assert (target / "attachments" / "p.png").read_bytes() == b"picture"
    meta = msgspec.json.decode((target / "meta.json").read_bytes())
    assert (meta["session_id"], meta["title"], meta["total_messages"]) == (NEW_ID, "mine", 6)
    assert meta["config"] == {"active_model": "m", "x": 1}
    assert meta["environment"] == {"working_directory": str(CWD)}
    modes = {file.stat().st_mode & 0o777 for file in target.glob("*.json*")}
    assert (modes, target.stat().st_mode & 0o777) == ({0o600}, 0o700)
    assert end(tmp_path, NEW_ID) == two
    assert cut(tmp_path, two, old=True) is None  # the short id is taken


def test_a_cut_store_is_a_store_whose_digests_hold(tmp_path: Path) -> None:
    one, two, _ = anchors(tmp_path, store)
    source = store(tmp_path, TURNS, futures=1)
    before = contents(source)
    assert cut(tmp_path, two, model="wished") == Start("resume", NEW_ID)
    assert contents(source) == before
    target = source.with_name(NEW_ID)
    assert {path.name for path in source.parent.iterdir()} == {ID, NEW_ID}
    current = sealed(target / "CURRENT")
    generation = target / "generations" / current["generation"]
    manifest = sealed(generation / "manifest.json", current["manifest_sha256"])
    records = {}
    for name in ("checkpoint", "projection_state", "runtime_state"):
        records[name] = sealed(generation / manifest[name]["path"], manifest[name]["sha256"])
        chunks = [sealed(target / "chunks" / f"{d}.json", d) for d in manifest[name]["chunks"]]
        records[f"{name} items"] = [item for each in chunks for item in each]
    assert [item["message"] for item in records["checkpoint items"]] == [
        parts(message) for turn in TURNS[:2] for message in turn
    ]
    assert records["checkpoint"]["turn"] == {"type": "idle"}
    assert "last_reported_context_tokens" not in records["checkpoint"]
    assert records["checkpoint"]["futures"] == 1
    roles = [entry["role"] for entry in records["projection_state items"]]
    assert roles == ["user", "assistant", "user", "assistant", "assistant"]
    assert {entry["sessionId"] for entry in records["projection_state items"]} == {NEW_ID}
    state = records["runtime_state"]
    assert (state["session_id"], state["identity"]["session_id"], state["actions"]) == (NEW_ID, NEW_ID, [])
    assert state["plugin_lock"] == {"plugins": [{"name": "vibe"}]}
    assert state["session_metadata"]["active_model"] == "wished"
    assert (target / manifest["recovery_journal_segment"]["path"]).read_bytes() == b""
    assert (end(tmp_path, NEW_ID), one != two) == (two, True)
    assert {file.stat().st_mode & 0o777 for file in target.rglob("*") if file.is_file()} == {0o600}


def sealed(path: Path, digest: str | None = None) -> Any:
    body = path.read_bytes()
    assert body.endswith(b"\n")
    assert digest in (None, sha256(body[:-1]).hexdigest())
    value = msgspec.json.decode(body)
    assert encoded(value) == body[:-1]
    return value


def test_a_store_is_cut_into_an_old_session_for_the_old_version_another_home_or_an_unknown_format(
    tmp_path: Path,
) -> None:
    _, two, _ = anchors(tmp_path, store)
    for name, minor, old, elsewhere in (
        ("a", 9, True, False),
        ("b", 9, False, True),
        ("c", 10, False, False),
    ):
        home = tmp_path / name
        store(home, TURNS, minor=minor)
        into = home / "other" if elsewhere else home
        assert cut(home, two, old=old, into=into) == Start("resume", NEW_ID)
        assert written(into) == [message for turn in TURNS[:2] for message in turn]
        assert end(into, NEW_ID) == two
        meta = msgspec.json.decode((look(into, NEW_ID).path / "meta.json").read_bytes())
        assert meta["config"] == {"active_model": "pinned"}


def test_a_message_of_blocks_becomes_the_text_that_the_model_was_sent(tmp_path: Path) -> None:
    resource = {"uri": "file:///a&b", "text": "has ```` in it"}
    blocks = [
        {"type": "text", "text": "see"},
        {"type": "resource", "resource": resource},
        {"type": "resource_link", "uri": "file:///c"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "something new"},
    ]
    store(tmp_path, [[user("x", content=blocks), answer(None)]])
    assert cut(tmp_path, end(tmp_path), old=True) is not None
    (message, empty) = written(tmp_path)
    shown = "Resource: file:///a&amp;b\n`````\nhas ```` in it\n`````"
    assert message["content"] == f"see\n\n{shown}\n\n[resource: file:///c]"
    image = {"source": {"kind": "inline", "data": "AAAA"}, "alias": "image", "mime_type": "image/png"}
    assert message["images"] == [image]
    assert empty == {"role": "assistant", "content": None}


def test_a_picture_that_a_tool_showed_has_no_place_in_an_old_session(tmp_path: Path) -> None:
    picture = [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]
    shown = {"role": "tool", "content": picture, "name": "read", "tool_call_id": "c1"}
    store(tmp_path, [[user("one"), answer(None, tool_calls=[CALL]), shown]])
    assert cut(tmp_path, end(tmp_path), old=True) is None
    assert cut(tmp_path, end(tmp_path)) is not None


@MAKERS
@pytest.mark.parametrize(
    "anchor", ["", "x", "0.0123456789abcdef", "1.0123456789abcdef", "9.0123456789abcdef", "-1.x"]
)
def test_an_anchor_that_is_not_there_cuts_nothing(tmp_path: Path, make: Any, anchor: str) -> None:
    path = make(tmp_path, TURNS)
    before = contents(tmp_path)
    assert cut(tmp_path, anchor) is None
    assert not FORMAT.continues(look(tmp_path), anchor)
    assert (contents(tmp_path), path.exists()) == (before, True)


@MAKERS
def test_what_was_compacted_away_cannot_be_cut_but_what_came_after_can(tmp_path: Path, make: Any) -> None:
    old = anchors(tmp_path, make)[0]
    summary = [user("what was before", source="injection", injected=True), user("three"), answer("third")]
    noted: dict[str, Any] = {"compaction_count": 1} if make is store else {"parent_session_id": NEW_ID}
    make(tmp_path / "before", [summary], **noted)
    make(tmp_path, [summary, [user("one"), answer("first")]], **noted)
    assert cut(tmp_path, old) is None
    assert FORMAT.continues(look(tmp_path), old)
    assert cut(tmp_path, end(tmp_path / "before")) is not None


# --- did it continue from there --------------------------------------------------------------------


@MAKERS
def test_one_turn_and_no_more_must_have_come_after_the_anchor(tmp_path: Path, make: Any) -> None:
    one, two, three = anchors(tmp_path, make)
    reminder = user("mind the gap", source="injection", injected=True)
    make(tmp_path, [*TURNS[:2], [user("three"), reminder, answer("third")]])
    assert [FORMAT.continues(look(tmp_path), anchor) for anchor in (one, two, three)] == [
        False,
        True,
        False,
    ]


def test_a_turn_that_was_killed_continues_as_well(tmp_path: Path) -> None:
    one, *_ = anchors(tmp_path, store)
    store(tmp_path, TURNS[:1], journal=begun("two"))
    assert FORMAT.continues(look(tmp_path), one)


# --- damage ----------------------------------------------------------------------------------------


def harmless(home: Path, anchor: str) -> Any:
    """Nothing raises, whatever lies there; what a cut says."""
    found = FORMAT.find(home, ID, CWD)
    if found is None:
        return None
    FORMAT.make_resumable(found, runtime(old=True))
    FORMAT.continues(found, anchor)
    return cut(home, anchor)


@pytest.mark.parametrize(
    ("damage", "can_be_cut"),
    [
        (lambda body: body[:-10], True),
        (lambda body: b"garbage\n" + body, False),
        (lambda body: body + b"\xff\xfe\n", True),
        (lambda body: body + b"[1]\n" + b'{"role":7}\n', True),
        (lambda body: b"[" * 100_000 + b"\n" + body, False),
        (lambda body: b"", False),
    ],
)
def test_a_damaged_old_session_has_no_end_and_is_cut_before_the_damage(
    tmp_path: Path, damage: Any, can_be_cut: bool
) -> None:
    one, *_ = anchors(tmp_path, old_session)
    file = old_session(tmp_path, TURNS) / "messages.jsonl"
    file.write_bytes(damage(file.read_bytes()))
    assert FORMAT.end(look(tmp_path)) is None
    assert (harmless(tmp_path, one) is not None) is can_be_cut


@pytest.mark.parametrize("meta", [b"", b"{", b"[]", b"\xff", None])
def test_an_old_session_whose_meta_is_lost_can_still_be_cut(tmp_path: Path, meta: bytes | None) -> None:
    one, *_ = anchors(tmp_path, old_session)
    file = old_session(tmp_path, TURNS) / "meta.json"
    file.unlink() if meta is None else file.write_bytes(meta)
    assert harmless(tmp_path, one) == Start("resume", NEW_ID)
    (file.parent / "messages.jsonl").unlink()
    assert FORMAT.find(tmp_path, ID, CWD) is None


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"\xff", b'{"generation":"../../.."}', b"[" * 100_000, None]
)
@pytest.mark.parametrize("name", ["CURRENT", "generations/*/manifest.json", "chunks/*.json"])
def test_a_damaged_store_has_no_end(tmp_path: Path, name: str, body: bytes | None) -> None:
    one, *_ = anchors(tmp_path, store)
    source = store(tmp_path, TURNS)
    for file in source.glob(name):
        file.unlink() if body is None else file.write_bytes(body)
    found = FORMAT.find(tmp_path, ID, CWD)
    assert found is None if (name, body) == ("CURRENT", None) else found is not None
    assert found is None or FORMAT.end(found) is None
    assert harmless(tmp_path, one) is None
    assert list(source.parent.iterdir()) == [source]


@pytest.mark.parametrize("content", [b"7", b'[{"text":1}]', b'"text"', b"[{}]"])
def test_messages_of_a_shape_nobody_knows_have_no_end(tmp_path: Path, content: bytes) -> None:
    one, *_ = anchors(tmp_path, store)
    source = store(tmp_path, TURNS)
    for file in source.glob("chunks/*.json"):
        file.write_bytes(file.read_bytes().replace(b'[{"text":"one","type":"text"}]', content))
    assert FORMAT.end(look(tmp_path)) is None
    assert harmless(tmp_path, one) is None


@MAKERS
def test_a_huge_session_is_looked_at_quickly(tmp_path: Path, make: Any) -> None:
    filler = "x" * 60_000
    make(tmp_path, [[user(f"prompt {n}"), answer(filler)] for n in range(1_000)])
    began = time.monotonic()
    found = look(tmp_path)
    assert FORMAT.end(found) is not None
    assert found.size > 60_000_000
    assert time.monotonic() - began < 5  # some tenths of a second, on a machine that has other things to do


# --- the rest --------------------------------------------------------------------------------------


def test_only_a_cut_of_ours_is_ever_discarded(tmp_path: Path) -> None:
    one, *_ = anchors(tmp_path, old_session)
    source = old_session(tmp_path, TURNS)
    assert cut(tmp_path, one, old=True) is not None
    folder.discard(tmp_path, ID)
    folder.discard(tmp_path, "unknown")
    folder.discard(tmp_path, NEW_ID)
    assert list(source.parent.iterdir()) == [source]


def test_a_cut_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    one, *_ = anchors(tmp_path, old_session)
    old_session(tmp_path, TURNS)
    blocked = tmp_path / "blocked"
    (blocked / "logs").mkdir(parents=True)
    (blocked / "logs" / "session").write_text("a file where the directory should be")
    assert cut(tmp_path, one, old=True, into=blocked) is None


def test_nobody_is_told_who_is_logged_in(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("MISTRAL_API_KEY=x")
    assert FORMAT.login(tmp_path, {}) is None
