"""What subagents did stands apart: found, and read like the session itself."""

from __future__ import annotations

from pathlib import Path

from segue.agents.claude.archive import ARCHIVE as CLAUDE
from segue.agents.gemini.archive import ARCHIVE as GEMINI

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sessions"


def test_claudes_subagents_have_transcripts_of_their_own() -> None:
    home = FIXTURES / "claude-2.1.325"
    chains = {stored.id: CLAUDE.side(stored) for stored in CLAUDE.stored(home)}
    (parent,) = [session for session, found in chains.items() if found]
    (chain,) = chains[parent]
    texts = [
        entry.text for record in CLAUDE.read(chain) for entry in record.entries if entry.kind == "assistant"
    ]
    assert "found it" in texts
    assert chain.id not in chains


def test_geminis_subagents_stand_below_their_parents_id(tmp_path: Path) -> None:
    chats = tmp_path / ".gemini" / "tmp" / "project" / "chats"
    parent = "11112222-3333-4444-8555-666677778888"
    (chats / parent).mkdir(parents=True)
    head = '{"sessionId":"%s","projectHash":"x","startTime":"2026-01-02T03:04:05.000Z"}\n'
    said = '{"id":"m1","timestamp":"2026-01-02T03:04:06.000Z","type":"user","content":"look around"}\n'
    (chats / "session-2026-01-02T03-04-11112222.jsonl").write_text(head % parent + said)
    (chats / parent / "session-2026-01-02T03-05-99998888.jsonl").write_text(head % "99998888" + said)
    (stored,) = GEMINI.stored(tmp_path)
    (chain,) = GEMINI.side(stored)
    assert [
        entry.text for record in GEMINI.read(chain) for entry in record.entries if entry.kind == "user"
    ] == ["look around"]
