from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.core import events as ev
from segue.core.outcome import Failure, Outcome
from segue.core.redact import MASK, Redactor
from segue.core.usage import Usage

SECRET = "tr0ub4dor-and-3"
BODY = "Ab1" * 12

SHAPES = {
    "anthropic": "sk" + "-ant-api03-" + BODY,
    "openai": "sk" + "-proj-" + BODY,
    "google": "AI" + "za" + BODY,
    "jwt": "ey" + "JhbGciOiJI." + "ey" + "JzdWIiOiIx." + BODY,
    "github": "gh" + "p_" + BODY,
    "github fine-grained": "github" + "_pat_" + BODY,
}


@pytest.mark.parametrize("secret", [SECRET, 'quote"and\\slash', "schlüssel-wort", "plus+/=="])
def test_known_secrets_go_from_text_and_from_raw_json(secret: str) -> None:
    redactor = Redactor([secret])
    assert redactor.text(f"a {secret} b {secret}") == f"a {MASK} b {MASK}"
    assert redactor.bytes(f"x={secret}\n".encode()) == f"x={MASK}\n".encode()
    line = json.dumps({"error": f"bad key {secret}"}, ensure_ascii=False).encode()
    assert json.loads(redactor.bytes(line)) == {"error": f"bad key {MASK}"}


ENCODERS: dict[str, Callable[[str], str]] = {
    "ascii only": json.dumps,
    "for html": lambda text: json.dumps(text).replace("&", "\\u0026").replace("<", "\\u003C"),
    "slashes": lambda text: json.dumps(text).replace("/", "\\/"),
}


@pytest.mark.parametrize(
    "secret", ["schlüssel-wort", "pa&ss<word>12", "abc/def/ghi+1", "sm\U0001f600ile-and-more"]
)
@pytest.mark.parametrize("encode", ENCODERS)
def test_secrets_are_found_however_json_escapes_them(secret: str, encode: str) -> None:
    line = b'{"type":"text","text":%s}' % ENCODERS[encode](f"the key is {secret}").encode()
    redactor = Redactor([secret])
    assert json.loads(redactor.bytes(line))["text"] == f"the key is {MASK}"
    assert redactor.found
    assert Redactor([secret]).suspects(line, ev.Text(f"the key is {secret}"))


def test_a_secret_within_a_longer_one_leaves_nothing_behind() -> None:
    redactor = Redactor(["abcdefgh", "abcdefgh-longer"])
    assert redactor.text("abcdefgh-longer abcdefgh") == f"{MASK} {MASK}"


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_shapes_of_keys_go_from_errors_without_being_known(shape: str) -> None:
    redactor = Redactor()
    assert redactor.text(f"Incorrect API key provided: {shape}.") in (
        f"Incorrect API key provided: {MASK}.",
        f"Incorrect API key provided: {MASK}",
    )
    assert shape.encode() not in redactor.bytes(b'{"key":"' + shape.encode() + b'"}')


def test_a_bearer_token_goes_and_the_word_stays() -> None:
    token = BODY.lower()
    assert Redactor().text(f"Authorization: Bearer {token}\nok") == f"Authorization: Bearer {MASK}\nok"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a task-list",
        "risk-averse",
        "sk-short",
        "Bearer of news",
        "eyJ is how they begin",
        "ask-me-anything-about-it",
        "sk-learn-pipeline-wrapper",
        "Bearer authentication-scheme",
    ],
)
def test_plain_words_stay_and_are_the_same_object(text: str) -> None:
    redactor = Redactor([SECRET])
    assert redactor.text(text) is text
    assert redactor.bytes(data := text.encode()) is data


def test_what_the_assistant_says_keeps_examples_but_no_known_secret() -> None:
    example = SHAPES["jwt"]
    redactor = Redactor([SECRET])
    for event in (
        ev.Text(example),
        ev.TextDelta(example),
        ev.Thinking(example),
        ev.End(ok=True, text=example),
    ):
        assert redactor.event(event) is event
    assert redactor.event(ev.Text(f"it is {SECRET}")) == ev.Text(f"it is {MASK}")
    outcome = Outcome(text=example)
    assert redactor.outcome(outcome) is outcome


NESTED: list[tuple[ev.Event, Any]] = [
    (ev.ToolCall("1", "Bash", {"command": ["echo", SECRET], "n": 1}), {"command": ["echo", MASK], "n": 1}),
    (ev.ToolCall("1", "Bash", {SECRET: None}), {MASK: None}),
    (ev.Permission("1", "Bash", {"a": {"b": (SECRET, 2)}}), {"a": {"b": (MASK, 2)}}),
]


@pytest.mark.parametrize(("event", "wanted"), NESTED)
def test_secrets_are_found_however_deep(event: ev.Event, wanted: Any) -> None:
    cleaned = Redactor([SECRET]).event(event)
    assert type(cleaned) is type(event)
    assert getattr(cleaned, "input", None) == wanted
    assert SECRET in repr(event)


@pytest.mark.parametrize(
    "event",
    [
        ev.Notice(f"x {SHAPES['openai']}"),
        ev.Unknown(f"x {SHAPES['openai']}"),
        ev.Retry(message=f"x {SHAPES['openai']}"),
        ev.ToolResult("1", True, f"x {SHAPES['openai']}"),
        ev.End(ok=False, message="x", raw={"errors": [f"x {SHAPES['openai']}"]}),
    ],
)
def test_everything_else_also_loses_shapes(event: ev.Event) -> None:
    assert SHAPES["openai"] in repr(event)
    assert SHAPES["openai"] not in repr(Redactor().event(event))


def test_an_event_without_secrets_is_the_same_object() -> None:
    for event in (ev.ToolCall("1", "Bash", {"a": ["b", {"c": 1}]}), ev.UsageReport(Usage(1, 2, 3, 4))):
        assert Redactor([SECRET]).event(event) is event


def test_an_outcome_is_cleaned_in_answer_and_failure() -> None:
    failure = Failure("auth", f"invalid x-api-key {SHAPES['anthropic']}", status=401)
    cleaned = Redactor([SECRET]).outcome(Outcome(text=f"said {SECRET}", failure=failure, tools_run=2))
    assert cleaned.text == f"said {MASK}"
    assert cleaned.failure == Failure("auth", f"invalid x-api-key {MASK}", status=401)
    assert cleaned.tools_run == 2


def test_a_secret_that_is_not_utf8_is_found_in_raw_output() -> None:
    secret = b"caf\xe9-secret".decode("utf-8", "surrogateescape")
    assert Redactor([secret]).bytes(b"<caf\xe9-secret>") == f"<{MASK}>".encode()


def test_empty_secrets_are_no_secrets() -> None:
    assert Redactor([""]).text("abc") == "abc"


few = st.text(alphabet="ab", max_size=12)
"""Of so few letters that beginnings overlap one another in every way."""


@given(st.lists(few, max_size=4), few)
def test_the_beginning_is_the_longest_end_of_the_text_that_begins_a_secret(
    secrets: list[str], text: str
) -> None:
    begun = [n for n in range(1, len(text) + 1) for s in secrets if n < len(s) and s.startswith(text[-n:])]
    assert Redactor(secrets).beginning(text) == max(begun, default=0)


def test_a_long_secret_takes_little_memory() -> None:
    secret = "".join(f"{number:08x}" for number in range(6_000))
    tracemalloc.start()
    try:
        redactor = Redactor([secret])
        assert redactor.beginning(f"so it begins: {secret[:-1]}") == len(secret) - 1
        assert redactor.beginning(secret) == 0
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(secret)
