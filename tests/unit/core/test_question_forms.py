"""Forms of earlier answers become one line; code that looks like one stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from tests.unit.core.conversing import calm, texts

from segue.core.prompt_messages import ASKED, without_question_forms

FENCED = '```json\n{"tool": "AskUserQuestion", "questions": []}\n```'
PLAIN = '```\n{"questions": [{"question": "Which?", "options": ["a", "b"]}]}\n```'
PAGE = '<form action="/go">\n<input>\n</form>'

TABLE = [
    ("element", "<question-form>\na\n</question-form>", ASKED),
    (
        "with attributes, in a sentence",
        'Well: <Question-Form id="a">x</question-form> ok?',
        f"Well: {ASKED} ok?",
    ),
    ("two", "<question-form>a</question-form> <question-form>b</question-form>", f"{ASKED} {ASKED}"),
    ("page form on its own line", f"a\n{PAGE}\nb", f"a\n{ASKED}\nb"),
    ("fenced call", f"a\n{FENCED}\nb", f"a\n{ASKED}\nb"),
    ("fenced questions", PLAIN, ASKED),
    ("cut off by the end", FENCED.removesuffix("```"), ASKED),
    ("page form as code", f"```html\n{PAGE}\n```", None),
    ("page form in a sentence", "use <form>x</form> here", None),
    ("never closed", "<question-form>\nand then", None),
    ("other JSON", '```json\n{"questions": 3}\n```', None),
    ("code that asks", "```python\nask(AskUserQuestion)\n```", None),
    ("element of another name", "<formula>x</formula>", None),
    ("only talked about", "AskUserQuestion was denied", None),
    (
        "behind code",
        f"```html\n{PAGE}\n```\n<question-form>a</question-form>",
        f"```html\n{PAGE}\n```\n{ASKED}",
    ),
]


@pytest.mark.parametrize(("text", "expected"), [case[1:] for case in TABLE], ids=[case[0] for case in TABLE])
def test_forms_become_one_line(text: str, expected: str | None) -> None:
    assert without_question_forms(text) == (text if expected is None else expected)


@calm
@given(texts)
def test_doing_it_twice_changes_nothing_more(text: str) -> None:
    once = without_question_forms(text)
    assert without_question_forms(once) == once
