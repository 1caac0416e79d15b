"""What an agent asks, in words."""

from __future__ import annotations

from typing import Any

import pytest

from segue.core.question import OpenQuestion, question_words


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"kind": "question", "questions": [{"question": "Which?"}, {"question": "Why?"}]}, "Which?"),
        ({"kind": "question", "questions": [{"header": "x"}, {"question": "Why?"}]}, "Why?"),
        ({"kind": "question", "questions": "of an unknown form"}, "has a question"),
        ({"kind": "permission", "tool": "Bash", "input": {"command": "ls"}}, "wants to use Bash"),
        ({"kind": "environment", "variables": ("A_TOKEN", "B_TOKEN")}, "needs A_TOKEN, B_TOKEN"),
    ],
)
def test_words(fields: dict[str, Any], words: str) -> None:
    assert question_words(OpenQuestion(id="q", asked=1, **fields)) == words
