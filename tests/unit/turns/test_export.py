"""An export is made message by message, and reads as if it was made at once."""

from __future__ import annotations

import msgspec
import pytest

from segue.turns.exchange import AttachmentLine, Export, Line, json

LINES = (
    Line(sender="user", agent="one", text='two\nlines, "quoted" and [] {}\n', created=5),
    Line(sender="assistant", agent="one", text="", under=("a", "b"), cost_usd=0.5),
    Line(sender="user", agent="one", text="…", attachments=(AttachmentLine(name="x", data=b"\x00"),)),
)


@pytest.mark.parametrize("count", range(len(LINES) + 1))
def test_an_export_is_as_if_made_at_once(count: int) -> None:
    export = Export(schema=1, key="k", forked_from="[]", messages=LINES[:count])
    assert json(export) == msgspec.json.format(msgspec.json.encode(export), indent=2).decode() + "\n"
    assert msgspec.json.decode(json(export), type=Export) == export
