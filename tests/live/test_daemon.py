"""The daemon with the real CLIs: runs over HTTP, questions, and both halves of continuity on the wire."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from tests.clis import CLIS
from tests.live.api import Api, serving
from tests.live.talk import Talk

CLAUDE = [("claude", CLIS["claude"].newest)]


@pytest.fixture
def api(talk: Talk) -> Iterator[Api]:
    with serving(talk) as made:
        yield made


def answer(api: Api, run: str, question: str, **given: Any) -> int:
    status, _ = api.ask("POST", f"/api/v1/runs/{run}/tool-result", {"tool_use_id": question, **given})
    return status


@pytest.mark.parametrize("talk", CLAUDE, indirect=True, ids=lambda each: each[0])
def test_a_question_is_answered_exactly_once_on_a_fresh_and_on_a_resumed_turn(api: Api) -> None:
    for mode in ("fresh", "resume"):
        ask = f"u-{mode} [[ask Which colour? | red | blue]][[slow 3 10]][[result]]"
        before = len(api.talk.model.requests)
        run = api.submit(ask, cwd=str(api.talk.cwd), answers=True)
        waiting = api.until(run, lambda shown: shown["state"] == "needs_you")
        question = waiting["question"]
        assert question["questions"][0]["question"] == "Which colour?"
        assert api.ask("GET", "/api/v1/conversations")[1][0]["state"] == "needs_you"
        assert answer(api, run, "nothing-like-it", content="red") == 404
        given = {"answers": {"Which colour?": "blue"}}
        assert answer(api, run, question["tool_use_id"] or question["id"], **given) == 200
        assert answer(api, run, question["id"], **given) == 409
        done = api.finished(run)
        assert (done["turn"]["mode"], done["state"], done["question"]) == (mode, "done", None)
        assert "blue" in done["turn"]["text"]
        assert answer(api, run, question["id"], **given) == 410
        sent = [request for request in api.talk.model.requests[before:] if not request.side]
        bodies = [msgspec.json.encode(request.body).decode() for request in sent]
        assert "tool_result" in bodies[-1].split(f"u-{mode}")[1]
        assert [body.count("u-fresh") for body in bodies] == [1] * len(bodies)
        assert done["turn"]["sent"]["text_messages"] == 1


@pytest.mark.parametrize("talk", CLAUDE, indirect=True, ids=lambda each: each[0])
def test_a_permission_is_asked_for_and_granted_or_refused(api: Api) -> None:
    for allow, expected in ((True, "written"), (False, "")):
        file = api.talk.cwd / f"made-{allow}"
        run = api.submit(
            f"[[shell echo written > {file.name}]][[say over]]", cwd=str(api.talk.cwd), answers=True
        )
        waiting = api.until(run, lambda shown: shown["state"] == "needs_you")
        assert waiting["question"]["kind"] == "permission"
        assert answer(api, run, waiting["question"]["id"], allow=allow) == 200
        assert api.finished(run)["state"] == "done"
        assert (file.read_text().strip() if file.exists() else "") == expected


@pytest.mark.parametrize("talk", CLAUDE, indirect=True, ids=lambda each: each[0])
def test_after_a_kill_the_answer_is_the_next_message_of_the_same_session(talk: Talk) -> None:
    asks: dict[str, tuple[str, dict[str, Any]]] = {
        "question": (
            "remember number 4711 [[ask Which colour? | red | blue]][[result]]",
            {"content": "blue"},
        ),
        "permission": ("[[shell echo x > made]][[say over]]", {"allow": True}),
    }
    session = None
    for kind, (ask, given) in asks.items():
        with serving(talk) as killed:
            run = killed.submit(ask, cwd=str(talk.cwd), answers=True)
            question = killed.until(run, lambda shown: shown["state"] == "needs_you")["question"]
            assert question["kind"] == kind
            killed.process.kill()
        with serving(talk) as api:
            lapsed = api.finished(run)
            assert (lapsed["state"], lapsed["turn"]["failure"]["kind"]) == ("failed", "killed")
            assert lapsed["question"] == {**question, "lapsed": True}
            assert api.ask("GET", "/api/v1/conversations")[1][0]["state"] == "needs_you"
            assert answer(api, run, question["id"], **given) == 200
            assert answer(api, run, question["id"], **given) == 409
            next_run = api.until(run, lambda shown: shown["continued_by"] is not None)["continued_by"]
            done = api.finished(next_run)
            assert (done["state"], done["turn"]["mode"]) == ("done", "resume")
            session = session or done["turn"]["session_id"]
            assert lapsed["turn"]["session_id"] == done["turn"]["session_id"] == session
    assert talk.run("what number?").text == "4711"


@pytest.mark.parametrize("talk", CLAUDE, indirect=True, ids=lambda each: each[0])
def test_what_is_always_allowed_is_not_asked_again(api: Api) -> None:
    file = api.talk.cwd / "made"
    write = "[[shell echo x >> made]][[say over]]"
    run = api.submit(write, cwd=str(api.talk.cwd), answers=True)
    question = api.until(run, lambda shown: shown["state"] == "needs_you")["question"]
    assert answer(api, run, question["id"], always=True) == 200
    assert api.finished(run)["state"] == "done"
    _, conversation = api.ask("GET", "/api/v1/conversations/t")
    assert conversation["allowed_tools"] == [{"agent": "claude", "role": None, "tool": "Bash"}]
    assert api.run(write)["mode"] == "resume", "nobody is there to answer"
    assert file.read_text() == "x\nx\n"


@pytest.mark.parametrize("talk", CLAUDE, indirect=True, ids=lambda each: each[0])
def test_two_questions_at_once_are_answered_in_any_order(api: Api) -> None:
    both = "[[together 2]][[ask Which colour? | red | blue]][[ask Which size? | small | large]][[result]]"
    run = api.submit(both, cwd=str(api.talk.cwd), answers=True)
    asked = api.until(run, lambda shown: len(shown["questions"]) == 2)["questions"]
    for question in reversed(asked):
        text = question["questions"][0]["question"]
        assert answer(api, run, question["id"], answers={text: f"mine: {text}"}) == 200
    done = api.finished(run)
    assert (done["state"], done["questions"]) == ("done", [])
    sent = msgspec.json.encode(api.talk.model.requests[-1].body).decode()
    assert all(f"mine: {each}" in sent for each in ("Which colour?", "Which size?"))


@pytest.mark.parametrize("talk", CLAUDE, indirect=True, ids=lambda each: each[0])
def test_a_resumed_turn_sends_only_what_is_new_and_a_fresh_session_sends_everything(api: Api) -> None:
    model = api.talk.model
    api.run("remember number 4711", agent="claude")
    before = len(model.requests)
    assert api.run("what number?")["text"] == "4711"
    resumed = [request for request in model.requests[before:] if not request.side]
    before = len(model.requests)
    fresh = api.run("what number?", fresh_session=True)
    replayed = [request for request in model.requests[before:] if not request.side]
    assert (fresh["mode"], fresh["resumed"], fresh["text"]) == ("replay", False, "4711")
    assert msgspec.json.encode(replayed[-1].body).decode().count("remember number 4711") == 1
    assert msgspec.json.encode(resumed[-1].body).decode().count("remember number 4711") == 1
    assert sum(each.new_bytes for each in resumed) < sum(each.new_bytes for each in replayed)
