"""A flow is killed while its agent goes on working in the tree: no other flow begins there, however it is
started. The flow itself can be continued, and the tree is free once its agent is gone."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.chaos.flow_stage import ENDS, MARKS, FlowStage
from tests.chaos.scenes import PATIENCE_S, Scene, kill_group, until
from tests.integration.server.conftest import finish
from tests.integration.server.conftest import start as start_daemon

GATED = """
mark=$1
touch "$PLACE/begun-$mark"
while [ ! -e "$PLACE/gate" ]; do sleep 0.05; done
"""


@pytest.fixture
def stage(scene: Scene) -> FlowStage:
    """Whose agents wait for the gate, in their tool."""
    made = FlowStage(scene)
    (made.place / "work").write_text(GATED + (made.place / "work").read_text())
    return made


@pytest.mark.parametrize("kind", ["review", "escalate"])
def test_no_other_flow_works_in_the_tree_of_an_agent_whose_flow_was_killed(
    stage: FlowStage, kind: str
) -> None:
    tree, scene = stage.tree("tree"), stage.scene
    first = stage.start(*stage.words("review", tree, "a"))
    until((stage.place / "begun-coder-1").exists, "the coder works")
    first.kill()
    assert scene.agents(), "the coder's tool goes on"
    refused = stage.start(*stage.words(kind, tree, "b")).end(PATIENCE_S)
    assert (refused.code, stage.flow("b")) == (75, None), (refused.stdout, refused.stderr[-3000:])
    flow = stage.shown("a")
    assert flow is not None
    assert f"segue flow resume {flow['flow']}" in refused.stdout + refused.stderr
    (stage.place / "gate").touch()
    own = stage.start(*stage.words("review", tree, "a")).end(PATIENCE_S)
    assert (own.code, own.turn["end"]) == (0, "approved"), own.stderr[-3000:]
    second = stage.start(*stage.words(kind, tree, "b")).end(PATIENCE_S)
    assert (second.code, second.turn["end"], second.turn["rounds"]) == (0, *ENDS[kind]), second.stderr[-3000:]
    done, wanted = Counter(stage.effects), Counter(MARKS["review"]) + Counter(MARKS[kind])
    assert {mark: done[mark] for mark in wanted} == dict(wanted)


def test_a_flow_that_is_stored_waits_for_the_agent_of_another_one(stage: FlowStage) -> None:
    """It was started while the tree was free, in a process that was killed: the daemon continues both."""
    tree, scene = stage.tree("tree"), stage.scene
    b = stage.start(*stage.words("escalate", tree, "b"))
    until((stage.place / "begun-tier-1").exists, "the tier works")
    b.kill()
    for pid in scene.agents():
        kill_group(pid)
    until(lambda: not scene.agents(), "its agent is gone")
    a = stage.start(*stage.words("review", tree, "a"))
    until((stage.place / "begun-coder-1").exists, "the coder works")
    a.kill()
    (stage.place / "begun-tier-1").unlink()
    kept_out = stage.start("flow", "resume", "b", "--json").end(PATIENCE_S)
    assert (kept_out.turn["state"], kept_out.turn["end"]) == ("running", None), kept_out.stderr[-3000:]
    owner = stage.shown("a")
    assert owner is not None
    waits = kept_out.turn["waits"]
    assert waits["flow"] == owner["flow"]
    assert f"segue flow resume {owner['flow']} continues it" in waits["why"]
    assert waits["why"] in kept_out.stderr, "also while it waits"
    assert waits["why"] in stage.start("flow", "show", "b").end(PATIENCE_S).stdout
    assert not (stage.place / "begun-tier-1").exists()
    daemon = start_daemon(scene.segue)
    try:
        (stage.place / "gate").touch()
        for key, kind in (("a", "review"), ("b", "escalate")):
            ended = stage.start("flow", "watch", key, "--json").end(PATIENCE_S)
            assert (ended.code, ended.turn["end"]) == (0, ENDS[kind][0]), ended.stderr[-3000:]
            assert ended.turn["waits"] is None
    finally:
        finish(daemon.process)
    effects = stage.effects
    first_of_b = min(effects.index(mark) for mark in MARKS["escalate"])
    assert all(effects.index(mark) < first_of_b for mark in MARKS["review"]), effects
