"""Sessions are taken away while their CLI goes on with others: what it writes meanwhile stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from segue.agents.base import StoredSession
from segue.agents.claude import archive

ID = "11111111-2222-4333-8444-555555555555"
MINE = f'{{"display":"a","sessionId":"{ID}"}}\n'
OTHER = '{"display":"b","sessionId":"other"}\n'


def session(home: Path) -> StoredSession:
    path = home / "projects" / "here" / f"{ID}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("{}\n")
    return StoredSession(id=ID, home=home, file=str(path), size=3, changed_ns=path.stat().st_mtime_ns)


@pytest.mark.parametrize(("writes", "is_cleared"), [(1, True), (3, True), (10_000, False)])
def test_prompts_that_are_typed_meanwhile_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writes: int, is_cleared: bool
) -> None:
    stored, history = session(tmp_path), tmp_path / "history.jsonl"
    history.write_text(OTHER + MINE)
    real = archive._without_lines
    typed: list[str] = []

    def while_somebody_types(data: bytes, session: str) -> bytes:
        if len(typed) < writes:
            typed.append(f'{{"display":"typed {len(typed)}","sessionId":"other"}}\n')
            with history.open("a") as file:
                file.write(typed[-1])
        return real(data, session)

    monkeypatch.setattr(archive, "_without_lines", while_somebody_types)
    archive.ARCHIVE.remove(stored)
    assert history.read_text() == OTHER + ("" if is_cleared else MINE) + "".join(typed)
    assert not stored.path.exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
