"""What changes while a turn waits, or is told by one that is killed, holds for the turn that goes on."""

from __future__ import annotations

from tests.chaos.scenes import GATE, Scene, Started, kill, until

WAITING = "waiting for another turn of t"
TOOL = "[[shell echo ran >> effects]]"


def blocked(scene: Scene, *options: str) -> Started:
    """A turn that answers once the gate is open."""
    started = scene.start(f"[[shell {GATE}]] [[say one]]", *options)
    scene.agent()
    return started


def log_in(scene: Scene, name: str) -> None:
    scene.agent_home.mkdir(parents=True, exist_ok=True)
    (scene.agent_home / "login.json").write_text(f'{{"account": "{name}", "token": "of {name}"}}')


def test_who_waits_has_the_permission_that_was_set_meanwhile(scene: Scene) -> None:
    scene.run("hi", "--permission", "read")
    first = blocked(scene, "--permission", "full")
    second = scene.start(TOOL)
    second.says(WAITING)
    scene.open_gate()
    assert first.end().code == 0
    turn = second.end().turn
    assert (turn["terms"]["permission"], turn["terms"]["remembered"]) == ("full", ["permission"])
    assert scene.run("and now?").turn["terms"]["permission"] == "full"
    assert scene.effects == ["ran"]


def test_who_waits_stands_behind_the_wall_of_who_logged_in_meanwhile(scene: Scene) -> None:
    log_in(scene, "alice")
    scene.run("remember number 456")
    first = blocked(scene)
    second = scene.start("what number?")
    second.says(WAITING)
    log_in(scene, "bob")
    scene.open_gate()
    assert first.end().code == 0
    turn = second.end().turn
    assert (turn["mode"], turn["text"]) == ("fresh", "I do not know any number.")
    log_in(scene, "alice")
    assert scene.run("what number?").turn["text"] == "456"


def test_a_permission_that_was_said_to_a_killed_turn_is_not_forgotten(scene: Scene) -> None:
    scene.run("hi", "--permission", "full")
    started = scene.start("[[hang]]", "--permission", "read")
    scene.agent()
    until(lambda: scene.has("process.json"), "the agent is noted")
    started.kill()
    for pid in scene.ours():
        kill(pid)
    turn = scene.run(TOOL).turn
    assert (turn["terms"]["permission"], scene.effects) == ("read", [])


def test_a_retry_of_what_never_began_may_do_what_was_said_then(scene: Scene) -> None:
    scene.run("hi", "--permission", "full")
    first = blocked(scene)
    refused = scene.start(TOOL, "--wait", "0", "--permission", "read").end()
    assert (refused.code, refused.turn["terms"]["permission"]) == (75, "read")
    scene.open_gate()
    assert first.end().code == 0
    again = scene.segue("retry", "t", refused.turn["message"], "--json").turn
    assert (again["terms"]["permission"], scene.effects) == ("read", [])
    assert scene.segue("retry", "t", "--permission", "full", "--json").turn["terms"]["permission"] == "full"
    assert scene.effects == ["ran"]
