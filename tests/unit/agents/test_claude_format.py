"""Claude's session files, made by hand: where they end, how they are cut, who is logged in. Also damaged."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.unit.streams import concluded

from segue.agents.base import CutRequest, SessionFormat, StoredSession
from segue.agents.claude import format as session_format
from segue.agents.claude.adapter import AGENT
from segue.agents.claude.format import FORMAT
from segue.core.outcome import Outcome
from segue.core.request import Capabilities, Request, Runtime, Start
from segue.core.usage import Totals
from segue.core.view import UNREADABLE


def facts(stored: StoredSession | None) -> tuple[Path, int, str | None]:
    assert stored is not None
    return stored.path, stored.size, FORMAT.end(stored)


OLD_ID = "11111111-1111-4111-8111-111111111111"
NEW_ID = "22222222-2222-4222-8222-222222222222"


def key(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


def record(number: int, kind: str, content: Any = "words", parent: int | None = None, **more: Any) -> Any:
    above = number - 1 if parent is None else parent
    return {
        "parentUuid": key(above) if above else None,
        "isSidechain": False,
        "type": kind,
        "message": {"role": kind, "content": [{"type": "text", "text": content}]},
        "uuid": key(number),
        "sessionId": OLD_ID,
        **more,
    }


def prompt(number: int, content: str = "ask", **more: Any) -> Any:
    return record(number, "user", content, permissionMode="default", **more)


def answer(number: int, content: str = "answer", **more: Any) -> Any:
    return record(number, "assistant", content, **more)


def call(number: int) -> Any:
    block = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"sessionId": OLD_ID}}
    return record(number, "assistant", message={"role": "assistant", "content": [block]})


def returned(number: int) -> Any:
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": OLD_ID}
    return record(number, "user", message={"role": "user", "content": [block]})


def inserted(number: int) -> Any:
    said = {"role": "assistant", "model": "<synthetic>", "content": [{"type": "text", "text": "-"}]}
    return record(number, "assistant", message=said)


def snapshot(number: int) -> Any:
    about = {"type": "prompt_snapshot", "systemPrompt": ["be kind"]}
    return {k: v for k, v in record(number, "attachment", attachment=about).items() if k != "message"}


def costs(usd: float) -> Any:
    return {"type": "cost-state", "sessionId": OLD_ID, "totalCostUSD": usd}


BOUNDARY = record(90, "system", parent=2, subtype="compact_boundary")
TWO_TURNS = (prompt(1), answer(2), costs(1.0), prompt(3), answer(4), costs(2.0))


class Home:
    """A home with one session in it, in the folder of a directory."""

    def __init__(self, root: Path) -> None:
        self.home = root / "home"
        self.cwd = root / "project"
        self.cwd.mkdir()
        self.folder = session_format.project_folder(self.home, self.cwd)
        self.folder.mkdir(parents=True)
        self.path = self.folder / f"{OLD_ID}.jsonl"

    def write(self, *lines: Any) -> None:
        data = [line if isinstance(line, bytes) else msgspec.json.encode(line) + b"\n" for line in lines]
        self.path.write_bytes(b"".join(data))

    def look(self, session: str = OLD_ID) -> StoredSession | None:
        return FORMAT.find(self.home, session, self.cwd)

    @property
    def found(self) -> StoredSession:
        found = self.look()
        assert found is not None
        return found

    def cut(self, anchor: int | str, *, forks: bool = True) -> Start | None:
        runtime = Runtime(
            agent="claude",
            distribution="claude-code",
            command=("claude",),
            version="2.1.325",
            capabilities=Capabilities(resume=True, fork=forks, branch=True),
        )
        at = key(anchor) if isinstance(anchor, int) else anchor
        request = Request(prompt="", cwd=self.cwd)
        return FORMAT.cut(
            self.found, CutRequest(anchor=at, new_id=NEW_ID, home=self.home, request=request, runtime=runtime)
        )

    def copied(self) -> list[Any]:
        path = self.folder / f"{NEW_ID}.jsonl"
        assert path.stat().st_mode & 0o777 == 0o600
        assert [other.name for other in self.folder.iterdir() if other.suffix != ".jsonl"] == []
        return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()]

    def continues(self, anchor: int) -> bool:
        return FORMAT.continues(self.found, key(anchor))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_the_adapter_has_the_format() -> None:
    sessions: SessionFormat | None = AGENT.format
    assert sessions is FORMAT


# --- look ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("later", "end"),
    [
        ((), 4),
        ((snapshot(5), costs(3.0), {"type": "last-prompt", "leafUuid": key(4)}), 4),
        ((prompt(5),), 5),
        ((prompt(5), inserted(6)), 6),
        ((prompt(5), call(6), returned(7)), 7),
        ((record(5, "user", isSidechain=True),), 4),
        ((record(5, "system", subtype="api_error"), {"type": "user"}, {"type": "of tomorrow", "uuid": 5}), 4),
        ((b'{"type":"user","uuid":"torn',), 4),
        ((b"\xff\xfe garbage\n", b"\n", b"[]\n", b"null\n", b'"words"\n'), 4),
        ((msgspec.json.encode(prompt(5)),), 5),
        ((b"x" * 300_000,), 4),
        ((b"[" * 200_000 + b"\n",), 4),
    ],
)
def test_the_end_is_the_last_message_of_the_conversation_itself(home: Home, later: Any, end: int) -> None:
    home.write(*TWO_TURNS, *later)
    assert facts(home.found) == (home.path, home.path.stat().st_size, key(end))


@pytest.mark.parametrize("size", [1, 60_000, 65_536, 70_000, 400_000, 20_000_000])
def test_a_message_of_any_length_is_found_from_the_end(home: Home, size: int) -> None:
    home.write(prompt(1), answer(2, "x" * size), costs(1.0))
    assert FORMAT.end(home.found) == key(2)
    home.write(prompt(1), answer(2), {"type": "filler", "text": "x" * size})
    assert FORMAT.end(home.found) == key(2)


def test_files_without_an_end(home: Home) -> None:
    assert home.look() is None
    home.write()
    assert facts(home.found) == (home.path, 0, None)
    home.write(b"\x00" * 100_000)
    assert facts(home.found) == (home.path, 100_000, None)
    assert not FORMAT.continues(home.found, key(1))
    assert home.cut(1) is None


@pytest.mark.parametrize("session", ["", "..", "../../x", "*", "latest", OLD_ID + "/x"])
def test_what_is_no_id_is_not_looked_for(home: Home, session: str) -> None:
    home.write(*TWO_TURNS)
    assert home.look(session) is None


def test_only_the_end_of_a_huge_file_is_read(home: Home) -> None:
    """It is nearly all a hole; to read it would take minutes."""
    home.write(*TWO_TURNS)
    ending = b"\n" + home.path.read_bytes()
    with home.path.open("wb") as file:
        file.seek(50_000_000_000)
        file.write(ending)
    began = time.monotonic()
    assert FORMAT.end(home.found) == key(4)
    assert home.found.size > 50_000_000_000
    assert time.monotonic() - began < 5


def test_a_session_is_found_in_another_folder_but_the_own_one_comes_first(home: Home) -> None:
    away = home.folder.with_name("-away")
    away.mkdir()
    home.write(prompt(1))
    home.path.rename(away / home.path.name)
    assert (home.found.path.parent, FORMAT.end(home.found)) == (away, key(1))
    home.write(*TWO_TURNS)
    assert (home.found.path, FORMAT.end(home.found)) == (home.path, key(4))


@pytest.mark.parametrize(
    ("cwd", "name"),
    [
        ("/srv/some.place/a_b c", "-srv-some-place-a-b-c"),
        ("/srv/wörk/🎵x", "-srv-w-rk---x"),
        ("/srv/" + "d" * 300, "-srv-" + "d" * 195 + "-"),
    ],
)
def test_the_folder_of_a_directory(cwd: str, name: str) -> None:
    found = session_format.project_folder(Path("/home"), Path(cwd))
    assert found.parent == Path("/home/projects")
    assert found.name.startswith(name)
    assert len(name) == len(found.name) or len(name) == 201
    assert session_format.project_folder(Path("/home"), Path(cwd + "!")).name != found.name


# --- cut -------------------------------------------------------------------------------------------


def test_at_an_answer_the_cli_cuts_by_itself(home: Home) -> None:
    home.write(*TWO_TURNS)
    for turn in (2, 4):
        assert home.cut(turn) == Start("branch", OLD_ID, key(turn), NEW_ID)
    assert [path.name for path in home.folder.iterdir()] == [home.path.name]


def test_it_cuts_behind_the_snapshot_of_the_turn_and_not_of_a_later_one(home: Home) -> None:
    later = record(9, "attachment", parent=2, attachment={"type": "prompt_snapshot"})
    home.write(prompt(1), answer(2), costs(1.0), snapshot(3), prompt(4), answer(5), later)
    assert home.cut(2) == Start("branch", OLD_ID, key(3), NEW_ID)
    hook = record(3, "attachment", attachment={"type": "hook_success"})
    home.write(prompt(1), answer(2), hook, prompt(4), answer(5), later)
    assert home.cut(2) == Start("branch", OLD_ID, key(2), NEW_ID)


@pytest.mark.parametrize("anchor", [key(7), "", "x", key(90)])
def test_an_anchor_that_is_not_there(home: Home, anchor: str) -> None:
    home.write(*TWO_TURNS, BOUNDARY)
    assert home.cut(anchor) is None
    assert len(list(home.folder.iterdir())) == 1


def test_a_file_that_went_away(home: Home) -> None:
    home.write(*TWO_TURNS)
    found = home.found
    home.path.unlink()
    assert not FORMAT.continues(found, key(2))
    runtime = AGENT.runtime(("claude",), ["2.1.325 (Claude Code)", "--resume --fork-session"])
    request = Request(prompt="", cwd=home.cwd)
    assert (
        FORMAT.cut(
            found, CutRequest(anchor=key(2), new_id=NEW_ID, home=home.home, request=request, runtime=runtime)
        )
        is None
    )


def test_a_copy_has_the_lines_up_to_the_cut_under_the_new_id(home: Home) -> None:
    """Only the record's own field is changed: what was said stays, even where it names the session."""
    home.write(prompt(1, OLD_ID), call(2), b"garbage\n", returned(3), answer(4), snapshot(5), prompt(6))
    whole = home.path.read_bytes()
    assert home.cut(4, forks=False) == Start("resume", NEW_ID)
    kept = [prompt(1, OLD_ID), call(2), returned(3), answer(4), snapshot(5)]
    assert home.copied() == [{**line, "sessionId": NEW_ID} for line in kept]
    assert home.path.read_bytes() == whole


def test_what_a_message_says_is_copied_byte_for_byte(home: Home) -> None:
    said = rb'{"role":"user", "content":"\u00e9\/ \ud83c\udfb5 1.0e2"}'
    line = b'{"type":"user","uuid":"%s","sessionId":"x","message":%s}\n' % (key(1).encode(), said)
    home.write(line, answer(2))
    assert home.cut(2, forks=False) is not None
    assert said in (home.folder / f"{NEW_ID}.jsonl").read_bytes()


@pytest.mark.parametrize(
    "lines",
    [
        (prompt(1), answer(2), prompt(3), BOUNDARY),
        (BOUNDARY, prompt(1), answer(2), prompt(3)),
        (prompt(1), answer(2), record(9, "system", subtype="microcompact_boundary")),
    ],
)
def test_a_compacted_session_is_copied(home: Home, lines: Any) -> None:
    home.write(*lines)
    assert home.cut(2) == Start("resume", NEW_ID)
    assert home.copied()[-1]["uuid"] == key(2)


@pytest.mark.parametrize(
    "turn",
    [
        (prompt(1),),
        (prompt(1), call(2)),
        (prompt(1), call(2), returned(3)),
        (prompt(1), inserted(2)),
        (prompt(1), record(2, "assistant", message="broken")),
        (prompt(1), record(2, "assistant", message={"content": [{"type": "thinking"}]})),
    ],
)
def test_a_turn_without_an_answer_is_copied(home: Home, turn: Any) -> None:
    home.write(*turn, prompt(8), answer(9))
    assert home.cut(len(turn)) == Start("resume", NEW_ID)
    assert len(home.copied()) == len(turn)


def test_a_copy_has_no_totals(home: Home) -> None:
    home.write(costs(0.5), *TWO_TURNS)
    home.cut(4, forks=False)
    assert [line["type"] for line in home.copied()] == ["user", "assistant", "user", "assistant"]


def test_a_session_in_another_folder_is_copied_into_the_own_one(home: Home) -> None:
    home.write(*TWO_TURNS)
    away = home.folder.with_name("-away")
    home.folder.rename(away)
    assert home.cut(2) == Start("resume", NEW_ID)
    assert len(home.copied()) == 2
    assert [path.name for path in away.iterdir()] == [home.path.name]


def test_a_folder_that_cannot_be_written_to_is_no_cut(home: Home) -> None:
    home.write(*TWO_TURNS)
    found = home.found
    away = home.folder.with_name("-away")
    home.folder.rename(away)
    home.folder.write_text("a file stands where the folder should be")
    moved = msgspec.structs.replace(found, file=str(away / found.path.name))
    runtime = AGENT.runtime(("claude",), ["2.1.325 (Claude Code)", "--resume --fork-session"])
    request = Request(prompt="", cwd=home.cwd)
    assert (
        FORMAT.cut(
            moved, CutRequest(anchor=key(2), new_id=NEW_ID, home=home.home, request=request, runtime=runtime)
        )
        is None
    )


# --- continues -------------------------------------------------------------------------------------


TURN = (prompt(1), answer(2))
SUMMARY = record(91, "user", parent=90, isCompactSummary=True)
INTERRUPTED = record(6, "user", "[Request interrupted by user]", parent=4)


@pytest.mark.parametrize(
    ("later", "expected"),
    [
        ((), True),
        ((snapshot(3),), True),
        ((prompt(3), answer(4)), True),
        ((snapshot(3), prompt(4), call(5), returned(6), answer(7)), True),
        ((prompt(3), inserted(4)), True),
        ((inserted(3), prompt(4), answer(5)), True),
        ((prompt(3), answer(4), record(5, "user", isMeta=True), answer(6)), True),
        ((prompt(3), answer(4), INTERRUPTED), True),
        ((prompt(3), BOUNDARY, SUMMARY, answer(92, parent=91)), True),
        ((record(3, "user"), answer(4)), True),
        ((prompt(3), answer(4), prompt(5), answer(6)), False),
        ((prompt(3), inserted(4), prompt(5), answer(6)), False),
        ((answer(3), prompt(4)), False),
        ((prompt(3, parent=1), answer(4)), False),
        ((prompt(3, parent=0), answer(4)), False),
        ((prompt(3, parent=3), answer(4)), False),
        ((record(3, "user", permissionMode="default", parentUuid=None), answer(4)), False),
    ],
)
def test_whether_the_newest_turn_came_behind_the_anchor(home: Home, later: Any, expected: bool) -> None:
    home.write(*TURN, *later)
    assert home.continues(2) is expected
    assert not home.continues(77)


def test_a_call_without_a_result_may_be_completed_or_left_out(home: Home) -> None:
    home.write(prompt(1), call(2), returned(3), inserted(4), prompt(5), answer(6))
    assert home.continues(2)
    home.write(prompt(1), call(2), prompt(3, parent=1), answer(4))
    assert home.continues(2)


# --- mend, login -----------------------------------------------------------------------------------


def test_nothing_is_mended(home: Home) -> None:
    home.write(*TWO_TURNS, b'{"torn')
    before = home.path.read_bytes()
    FORMAT.make_resumable(home.found, AGENT.runtime(("claude",), ["", ""]))
    assert home.path.read_bytes() == before


def account(user: Any, group: Any = "org") -> bytes:
    return msgspec.json.encode({"oauthAccount": {"accountUuid": user, "organizationUuid": group}, "more": 1})


def named(home: Home) -> dict[str, str]:
    """Claude lives in this home because it is told to."""
    return {"CLAUDE_CONFIG_DIR": str(home.home)}


def login(home: Home, data: bytes) -> str | None:
    (home.home / ".claude.json").write_bytes(data)
    return FORMAT.login(home.home, named(home))


def test_another_account_or_organization_is_another_login(home: Home) -> None:
    seen = [login(home, account(*who)) for who in (("a", "x"), ("b", "x"), ("a", "y"), ("a", None))]
    assert len(set(seen)) == 4
    assert all(found is not None and len(found) == 16 and int(found, 16) >= 0 for found in seen)
    assert login(home, account("a", "x")) == seen[0]
    assert login(home, account("a", "x").replace(b'"more":1', b'"more":2')) == seen[0]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b"\xff", account(""), account(7), b"[" * 100_000])
def test_an_unknown_login(home: Home, data: bytes) -> None:
    assert FORMAT.login(home.home, named(home)) is None
    torn = (b"", b"{", b"\xff")
    assert login(home, data) == (UNREADABLE if data in torn else None)


def test_a_login_that_is_just_being_written_is_read_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = login(home, account("a"))
    path = home.home / ".claude.json"
    path.write_bytes(b'{"oauthAcc')
    monkeypatch.setattr(time, "sleep", lambda _: path.write_bytes(account("a")))
    assert FORMAT.login(home.home, named(home)) == whole


@pytest.mark.parametrize("config_dir", [None, ""])
def test_without_a_config_dir_the_login_is_beside_the_home(tmp_path: Path, config_dir: str | None) -> None:
    env = {"HOME": str(tmp_path)} | ({"CLAUDE_CONFIG_DIR": config_dir} if config_dir is not None else {})
    home = AGENT.default_home(env)
    home.mkdir()
    (home / ".claude.json").write_bytes(account("somebody who set CLAUDE_CONFIG_DIR"))
    assert FORMAT.login(home, env) is None
    (tmp_path / ".claude.json").write_bytes(account("me"))
    mine = FORMAT.login(home, env)
    assert mine is not None
    assert mine != FORMAT.login(home, {**env, "CLAUDE_CONFIG_DIR": str(home)}), "told to live there"
    (tmp_path / ".claude.json").write_bytes(b"{}")
    assert FORMAT.login(home, env) is None, "logged out"
    (tmp_path / ".claude.json").write_bytes(account("me").replace(b"more", b"refreshed"))
    assert FORMAT.login(home, env) == mine


def test_a_settings_file_of_the_old_name_comes_first(home: Home) -> None:
    mine = login(home, account("me"))
    (home.home / ".config.json").touch()
    assert FORMAT.login(home.home, named(home)) == mine
    (home.home / ".config.json").write_bytes(account("you"))
    assert FORMAT.login(home.home, named(home)) not in (mine, None)


# --- the account of a cut --------------------------------------------------------------------------


def spent(total: float | None, seen: int, summed: int, **more: Any) -> Outcome:
    """A resumed run that used ``seen`` tokens, of a session whose totals say ``summed``; its base is 0.02."""
    end = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "result": "ok",
        "usage": {"input_tokens": seen, "output_tokens": 1},
        "modelUsage": {"one": {"inputTokens": summed, "outputTokens": 0}, "two": {"outputTokens": 1}},
        "total_cost_usd": total,
        **more,
    }
    events = list(AGENT.parse(msgspec.json.encode(end)))
    can = Capabilities(resume=True, cost_scope="session")
    return concluded(AGENT, events, start=Start("resume", OLD_ID), base=Totals(cost_usd=0.02), can=can)


def test_the_share_of_a_session_that_has_no_totals_yet_is_all_of_it() -> None:
    """Another version wrote it: what the CLI then counts is this run's alone, larger than the base or not."""
    assert spent(0.05, 7, 30).cost_usd == pytest.approx(0.03)
    assert spent(0.05, 7, 7).cost_usd == pytest.approx(0.05)


def test_a_run_that_told_no_totals_leaves_them_as_they_were() -> None:
    assert spent(0.05, 7, 30).totals == Totals(cost_usd=0.05)
    assert spent(None, 7, 30).totals == Totals(cost_usd=0.02)
    refused = {"subtype": "error_during_execution", "is_error": True, "num_turns": 0, "duration_api_ms": 0}
    assert spent(0.0, 0, 0, **refused).totals == Totals(cost_usd=0.02)
