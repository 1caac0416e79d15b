"""A budget that is reached in mid-conversation: the CLI is not started before the user has raised it."""

from __future__ import annotations

import msgspec
import pytest

from tests.live.api import serving
from tests.live.talk import CLAUDES, EVERY, Talk


def spend(talk: Talk, share: float = 1.5) -> float:
    """A turn whose cost is most of the budget of the conversation. Returns the budget."""
    first = talk.run("remember number 456", "--agent", "claude")
    cost = float(first.turn["cost_usd"])
    assert cost > 0
    budget = round(share * cost, 9)
    talk.config(f"[budgets]\nconversation = {budget:.9f}")
    return budget


@pytest.mark.parametrize("talk", CLAUDES, indirect=True)
def test_it_pauses_before_the_next_turn_and_goes_on_when_the_command_line_raises_it(talk: Talk) -> None:
    spend(talk, 0.5)
    paused = talk("run", "t", "what number?", "--json")
    assert (paused.code, paused.requests) == (1, []), "nothing was sent"
    turn = paused.turn
    assert (turn["failure"]["kind"], turn["state"], turn["attempts"]) == ("budget", "withdrawn", [])
    answered = talk(*turn["next"].split()[1:])
    assert (answered.code, answered.requests) == (0, []), answered.stderr
    went_on = talk("queue", "run", "t")
    assert went_on.code == 0, went_on.stderr
    assert "456" in went_on.stdout
    assert went_on.sent.count("what number?") == 1
    assert went_on.sent.count("remember number 456") == 1
    later = talk.run("what number?", "--new")
    assert (later.mode, later.text) == ("resume", "456")
    check = next(each for each in later.turn["why"] if each["check"] == "budget")
    assert check["verdict"] == "pass", check


@pytest.mark.parametrize("talk", CLAUDES, indirect=True)
def test_a_run_of_the_daemon_waits_and_goes_on(talk: Talk) -> None:
    budget = spend(talk, 0.5)
    with serving(talk) as api:
        before = len(talk.model.requests)
        run = api.submit("what number?", cwd=str(talk.cwd))
        waiting = api.until(run, lambda shown: shown["state"] == "needs_you")
        asked = waiting["question"]
        assert asked["budget"]["limit"] == pytest.approx(budget)
        assert asked["budget"]["predicted_from"] == "forecast"
        assert [each["name"] for each in asked["budget"]["spent_on"]] == ["claude"]
        assert len(talk.model.requests) == before, "nothing was sent"
        given = {"tool_use_id": asked["id"], "budget": 50}
        status, _ = api.ask("POST", f"/api/v1/runs/{run}/tool-result", given)
        assert status == 200
        turn = api.finished(run)["turn"]
        assert (turn["status"], turn["mode"], turn["text"]) == ("ok", "resume", "456")


AT_WORK = "[[slow 1]][[say done]]"
BOTH = [each for each in EVERY if str(each.id).startswith(("claude", "codex"))]


@pytest.mark.parametrize("talk", BOTH, indirect=True)
def test_eight_conversations_at_once_stay_within_the_day(talk: Talk) -> None:
    """Each reserves what the last turn cost before it begins; the others wait, and are asked about in the
    end."""
    costs = [float(talk.run(AT_WORK, key=key).turn["cost_usd"]) for key in ("first", "second", "third")]
    price = costs[-1]
    assert price > 0
    talk.config(f"[budgets]\nday = {sum(costs) + 2.5 * price:.9f}")
    before = len(talk.model.requests)
    started = [talk.start("run", f"c{n}", AT_WORK, "--json") for n in range(8)]
    ended = [process.communicate(timeout=300)[0] for process in started]
    turns = [msgspec.json.decode(out.splitlines()[-1]) for out in ended]
    kinds = sorted(turn["failure"]["kind"] if turn["failure"] else "done" for turn in turns)
    assert kinds == ["budget"] * 6 + ["done"] * 2
    assert sum(turn["cost_usd"] or 0 for turn in turns) <= 2.5 * price
    asked = [request for request in talk.model.requests[before:] if not request.side]
    assert len(asked) == 2, "nobody else was sent anything"
