"""What the real CLIs say if the model service declines for content, and what Segue makes of it: a kind of its
own, which is neither tried again nor sent another way.

Gemini and Vibe do not say so of an answer that had begun: it counts as whole. Gemini does not say so of a
prompt that is blocked in the stream, and Gemini 0.29 and Vibe not of an answer that is still empty.
"""

from __future__ import annotations

import pytest

from tests.live.harness import Bench, live
from tests.live.talk import QUICK, Talk

BEGUN, EMPTY = "[[say I was going to]][[decline]]", "[[decline]]"
PROMPT, STREAM = "[[decline prompt]]", "[[decline prompt stream]]"
MODEL = {"gemini": "gemini-2.5-pro"}
"""A plain model: for its default, Gemini first asks a small one which to take."""


def is_refused(bench: Bench, *prompts: str) -> None:
    name = bench.agent.facts.name
    env = {"TMPDIR": str(bench.runs)}
    for prompt in prompts:
        record = "fail-" + prompt.rpartition("[[")[2].strip("]").replace(" ", "-")
        record += "-begun" if prompt == BEGUN else ""
        ran = bench.attempt(prompt, record=record, env=env, model=MODEL.get(name))
        failure = ran.outcome.failure
        assert failure is not None, ran.stdout.decode()[-2000:]
        assert (failure.kind, failure.retryable, ran.outcome.text) == ("refused", False, ""), failure
        assert failure.message


@live("codex")
def test_codex_says_why_an_answer_and_a_prompt_are_refused(bench: Bench) -> None:
    is_refused(bench, BEGUN, EMPTY, PROMPT, STREAM)


@live("claude")
def test_claude_says_why_an_answer_and_a_prompt_are_refused(bench: Bench) -> None:
    """The new version asks once more after an answer that was stopped; here, that one is stopped, too."""
    is_refused(bench, EMPTY, PROMPT, STREAM)


@live("gemini", "0.61.0")
def test_the_new_gemini_says_why_an_answer_and_a_prompt_are_refused(bench: Bench) -> None:
    is_refused(bench, EMPTY, PROMPT)


@live("gemini", "0.29.0")
def test_the_old_gemini_says_why_a_prompt_is_refused(bench: Bench) -> None:
    is_refused(bench, PROMPT)


@live("vibe")
def test_vibe_says_why_a_prompt_is_refused(bench: Bench) -> None:
    is_refused(bench, PROMPT)


@pytest.mark.parametrize("talk", QUICK, indirect=True)
def test_what_is_refused_is_not_tried_again_and_the_conversation_goes_on(talk: Talk) -> None:
    talk.run("remember number 456")
    before = len(talk.model.requests)
    ran = talk("run", "t", PROMPT, "--retries", "2", "--json")
    assert (ran.code, ran.turn["failure"]["kind"], ran.turn["failure"]["retryable"]) == (1, "refused", False)
    assert (ran.turn["mode"], len(ran.turn["attempts"]), ran.turn["earlier"]) == ("resume", 1, [])
    asked = [request for request in talk.model.requests[before:] if not request.side]
    assert len(asked) == 1, "no retry, and no other way to send it"
    assert talk.run("what number?").turn["text"] == "456"
