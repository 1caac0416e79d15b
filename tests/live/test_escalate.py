"""Escalations on the real Claude: permissions per tier are enforced in one session, hand-offs, sums."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from segue.config.home import home_of
from segue.config.trust import trust
from tests.chaos.scenes import until
from tests.clis import CLIS
from tests.live.spending import reported_usd
from tests.live.talk import QUICK, Said, Talk, talking
from tests.live.test_claude_permissions import call, plant

CLAUDE = [pytest.param(("claude", CLIS["claude"].newest), id=f"claude-{CLIS['claude'].newest}")]
UP = '```json\n{"escalate": true, "reason": "the disk is full", "failed_checks": ["web"]}\n```'
DONE = '```json\n{"escalate": false, "reason": "it works again"}\n```'
ON_CLAUDE = pytest.mark.parametrize("talk", CLAUDE, indirect=True)


def write(talk: Talk, *tiers: dict[str, Any], human: bool = False) -> None:
    """Tiers with ``say`` (the short prompt), ``full`` and other keys; ``human``: a person after the first."""
    text = 'environment = "The host has the number 77."\n'
    for n, tier in enumerate(tiers, 1):
        keys = {key: value for key, value in tier.items() if key not in ("say", "full")}
        (talk.cwd / f"{n}.md").write_text(tier["say"])
        (talk.cwd / f"{n}-full.md").write_text(tier.get("full", tier["say"]))
        keys |= {"name": f"t{n}", "prompt": f"{n}.md", "full": f"{n}-full.md"}
        lines = [f"{key} = {msgspec.json.encode(value).decode()}" for key, value in keys.items()]
        text += "\n".join(["[[tier]]", *lines, ""])
        if human and n == 1:
            text += '[[tier]]\nname = "person"\nhuman = true\n'
    (talk.cwd / "FLOW.toml").write_text(text)
    trust(home_of(talk.env), talk.cwd)


def escalate(talk: Talk, *options: str) -> dict[str, Any]:
    return report(talk("escalate", "FLOW.toml", "--json", *options))


def report(said: Said) -> dict[str, Any]:
    assert said.stdout, said.stderr
    found: dict[str, Any] = msgspec.json.decode(said.stdout.splitlines()[-1])
    return found


def modes(told: dict[str, Any]) -> list[str]:
    return [each["mode"] for each in told["steps"] if each["mode"] is not None]


def touch(name: str) -> str:
    return f"[[shell touch {name}]]"


@ON_CLAUDE
def test_each_tier_has_its_own_permissions_in_one_session(talk: Talk) -> None:
    """Denied in tier 1, allowed in tier 2, denied again in tier 3: really enforced."""
    write(
        talk,
        {"say": f"{touch('one')} [[say {UP}]]", "deny": ["Bash"], "model": "haiku"},
        {"say": f"{touch('two')} [[recall number \\d+]] [[say {UP}]]", "allow": ["Bash"], "model": "sonnet"},
        {"say": f"{touch('three')} [[say {DONE}]]", "deny": ["Bash"]},
    )
    told = escalate(talk)
    assert (told["end"], modes(told)) == ("done", ["fresh", "resume", "resume"]), told
    assert [(talk.cwd / name).exists() for name in ("one", "two", "three")] == [False, True, False]
    first, second, *_ = dict.fromkeys(each.model for each in talk.model.requests if not each.side)
    assert ("haiku" in first, "sonnet" in second) == (True, True)
    chain = report(talk("chain", told["flow"], "--json"))
    assert [each["tier"] for each in chain["turns"]] == [1, 2, 3]
    assert chain["cost_usd"] == pytest.approx(sum(each["cost_usd"] for each in chain["turns"]), abs=1e-6)
    for name in ("input", "cache_read", "cache_write", "output"):
        assert chain["usage"][name] == sum(getattr(each.usage, name) for each in talk.model.requests), name
    for account in (told, chain):
        assert account["cost_usd"] == pytest.approx(reported_usd(talk), abs=1e-6)


@ON_CLAUDE
@pytest.mark.parametrize("how", ["gone", "refused"])
def test_without_the_session_the_hand_off_is_given(talk: Talk, how: str) -> None:
    talk.env["SEGUE_KEEP_ENABLED"] = "false"
    write(talk, {"say": f"[[say {UP}]]"}, {"say": "[[say short]]", "full": f"[[say {DONE}]]"}, human=True)
    told = escalate(talk)
    assert told["needs"] == "human", told
    for file in sessions(talk):
        file.unlink() if how == "gone" else file.write_bytes(b"[]\n" * 20)
    assert talk("answer", told["flow"], "It is the cable.").code == 0
    said = talk("flow", "resume", told["flow"], "--json")
    assert (report(said)["end"], modes(report(said))) == ("done", ["fresh", "fresh"]), said
    log = msgspec.json.decode(talk("log", f"flow/{told['flow']}/chain", "--json").stdout)
    notices = " ".join((log if isinstance(log, list) else log["messages"])[-1]["notices"])
    assert ("refused the session" in notices) is (how == "refused"), notices
    for words in ("the disk is full", "It is the cable.", "the number 77"):
        assert words in said.sent


NO_SIGNAL = " ".join(['[[tool StructuredOutput {"escalate": 7}]]'] * 6)
"""What Claude refuses each time, until it gives up."""


@pytest.fixture
def scripted(request: pytest.FixtureRequest, talk: Talk, tmp_path: Path) -> Iterator[Talk]:
    """Beside ``talk``: with a model that plays rules, the words of a prompt and what to do."""
    place = tmp_path / "scripted"
    place.mkdir()
    scenario = place / "scenario.json"
    rules = [{"text": text, "do": do} for text, do in request.param.items()]
    scenario.write_bytes(msgspec.json.encode({"rule": rules}))
    with talking(place, {"claude": CLIS["claude"].newest}, scenario) as made:
        made.env["SEGUE_DEFAULTS_AGENT"] = "claude"
        yield made


@ON_CLAUDE
@pytest.mark.parametrize(
    ("scripted", "end"),
    [
        ({"did not end as asked": f"[[say {DONE}]]", "look around": NO_SIGNAL}, "done"),
        ({"did not end as asked": "[[say fine]]", "look around": NO_SIGNAL}, "failed"),
    ],
    indirect=["scripted"],
    ids=["a block counts", "nothing helps"],
)
def test_a_signal_without_the_form_is_asked_for_once_more_and_never_escalates(
    scripted: Talk, end: str
) -> None:
    write(scripted, {"say": "look around"}, {"say": f"[[say {DONE}]]"})
    told = escalate(scripted)
    assert (told["end"], told["result"]["tier"]) == (end, 1), told
    assert modes(told) == ["fresh", "resume"], "asked in the same session, and no second tier"


def sessions(talk: Talk) -> list[Path]:
    found = [path for path in talk.place.rglob("*.jsonl") if "projects" in path.parts]
    assert found
    return found


@ON_CLAUDE
def test_a_full_context_leads_to_the_hand_off(talk: Talk) -> None:
    """The newest window has a million tokens, so the threshold is lowered."""
    talk.env["SEGUE_CONTINUITY_CONTEXT_THRESHOLD"] = "0.1"
    long = "x" * 500_000
    write(talk, {"say": f"[[say {UP}]] {long}"}, {"say": "[[say short]]", "full": f"[[say {DONE}]]"})
    told = escalate(talk)
    assert (told["end"], modes(told)) == ("done", ["fresh", "fresh"]), told


@ON_CLAUDE
def test_a_kill_in_the_middle_loses_and_repeats_nothing(talk: Talk) -> None:
    wait = "while [ ! -e gate ]; do sleep 0.1; done"
    write(
        talk,
        {"say": f"[[shell echo one >> done]] [[say {UP}]]", "allow": ["Bash"]},
        {"say": f"[[shell echo two >> done; {wait}]] [[say {DONE}]]", "allow": ["Bash"]},
    )
    started = talk.start("escalate", "FLOW.toml", "--key", "k", "--quiet")
    effects = talk.cwd / "done"
    until(lambda: effects.exists() and "two" in effects.read_text(), "the second tier works")
    started.send_signal(signal.SIGKILL)
    started.communicate()
    (talk.cwd / "gate").touch()
    told = report(talk("flow", "resume", "k", "--json", "--quiet"))
    assert told["end"] == "done", told
    assert effects.read_text() == "one\ntwo\n"
    chain = report(talk("chain", told["flow"], "--json"))
    assert chain["usage"]["output"] == sum(each.usage.output or 0 for each in talk.model.requests)


@pytest.mark.parametrize("talk", QUICK, indirect=True)
def test_the_example_suits_every_agent(talk: Talk) -> None:
    assert talk("init", "escalate").code == 0
    (talk.cwd / "prompts" / "observe.md").write_text(f"[[say {DONE}]]")
    told = escalate(talk)
    assert (told["end"], modes(told)) == ("done", ["fresh"]), told


BOTH_CLAUDES = [pytest.param(("claude", each), id=f"claude-{each}") for each in CLIS["claude"].versions]
LOOKS = ("docker ps", "docker ps -a", "docker logs web", "systemctl status web", "df -h")
RESTARTS = (
    "docker restart web",
    "docker compose up -d",
    "systemctl restart web",
    "curl -s http://127.0.0.1:9",
)
DEPLOYS = ("docker compose down", "ansible-playbook site.yml", "helm upgrade web chart", "helm rollback web")
NEVER = ("rm -rf data", "docker volume rm data", "docker system prune -f", "git push --force origin main")


@pytest.fixture
def example(talk: Talk) -> Talk:
    """The example of ``segue init escalate``, among programs that only note how they were called."""
    programs = Path(talk.env["PATH"].split(":")[0])
    for name in ("docker", "systemctl", "df", "curl", "ansible-playbook", "helm"):
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {talk.place}/called\n')
        (programs / name).chmod(0o755)
    assert talk("init", "escalate").code == 0
    return talk


def tried(talk: Talk, tier: str, commands: tuple[str, ...], then: str) -> None:
    """Both prompts of a tier of the example try these commands."""
    calls = " ".join(call("Bash", command=each, description="d") for each in commands)
    for name in (tier, f"{tier}-full"):
        file = talk.cwd / "prompts" / f"{name}.md"
        if file.exists():
            file.write_text(f"{calls} [[say {then}]]")


def called(talk: Talk) -> list[str]:
    file = talk.place / "called"
    lines = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    return lines


@pytest.mark.parametrize("talk", BOTH_CLAUDES, indirect=True)
def test_each_tier_of_the_example_runs_what_it_may_and_nothing_else(example: Talk) -> None:
    every = (*LOOKS, *RESTARTS, *DEPLOYS, *NEVER)
    tried(example, "observe", every, UP)
    tried(example, "safe", every, UP)
    tried(example, "full", every, DONE)
    told = escalate(example)
    assert (told["end"], modes(told)) == ("done", ["fresh", "resume", "resume"]), told
    kept = [each for each in RESTARTS if " restart " not in each]
    """The cooldown of tier 3: the service was restarted twice in tier 2."""
    assert called(example) == [*LOOKS, *LOOKS, *RESTARTS, *LOOKS, *kept, *DEPLOYS]


@pytest.mark.parametrize("talk", BOTH_CLAUDES, indirect=True)
def test_a_dry_run_of_the_example_looks_in_every_tier(example: Talk) -> None:
    plant(example.cwd, example.home("claude"))
    every = (*LOOKS, *RESTARTS, *DEPLOYS, *NEVER)
    for tier, then in (("observe", UP), ("safe", UP), ("full", DONE)):
        tried(example, tier, every, then)
    told = escalate(example, "--dry-run")
    assert (told["end"], modes(told)) == ("done", ["fresh", "resume", "resume"]), told
    assert called(example) == [*LOOKS] * 3


@pytest.mark.parametrize("talk", BOTH_CLAUDES, indirect=True)
def test_no_tier_of_the_example_edits_a_protected_path(talk: Talk) -> None:
    assert talk("init", "escalate").code == 0
    protected = (
        ".env",
        ".env.local",
        ".github/workflows/ci.yml",
        ".claude/settings.json",
        "FLOW.toml",
        "prompts/new.md",
    )
    work = ""
    for name in (*protected, "docs/notes.md"):
        work += call("Write", file_path=str(talk.cwd / name), content="x")
    (talk.cwd / "FLOW.toml").rename(talk.cwd / "MINE.toml")
    (talk.cwd / "prompts" / "observe.md").write_text(f"{work}[[say {UP}]]")
    for name in ("safe", "safe-full"):
        (talk.cwd / "prompts" / f"{name}.md").write_text(f"{work}[[say {DONE}]]")
    trust(home_of(talk.env), talk.cwd)
    assert report(talk("escalate", "MINE.toml", "--json"))["end"] == "done"
    assert [name for name in protected if (talk.cwd / name).exists()] == []
    assert (talk.cwd / "docs/notes.md").read_text() == "x"


@ON_CLAUDE
def test_a_tier_that_is_stopped_by_its_budget_asks_and_goes_on_when_it_is_raised(talk: Talk) -> None:
    work = "[[shell echo a >> done]][[shell echo b >> done]]"
    write(talk, {"say": f"{work}[[say done]]", "allow": ["Bash"], "budget": 0.000001})
    with (talk.cwd / "FLOW.toml").open("a") as file:
        file.write('[policy]\nsignal = "text"\n')
    told = escalate(talk)
    assert (told["state"], told["needs"]) == ("needs_you", "budget"), told
    shown = msgspec.json.decode(talk("flow", "show", told["flow"], "--json").stdout)
    (question,) = shown["questions"]
    assert (question["step"], question["budget"]["scope"]) == ("tier-1/more-1", "tier")
    assert question["budget"]["spent"] == pytest.approx(told["cost_usd"], abs=1e-6)
    asked = len(talk.model.requests)
    assert talk("answer", told["flow"], "--budget", "5").code == 0
    told = report(talk("flow", "resume", told["flow"], "--json"))
    assert (told["end"], told["needs"]) == ("done", None), told
    assert len(talk.model.requests) > asked
    assert [each["key"] for each in told["steps"] if each["mode"]] == ["tier-1", "tier-1/more-1"]


@pytest.mark.parametrize(
    "talk", [pytest.param(("gemini", CLIS["gemini"].newest), id="gemini")], indirect=True
)
def test_the_configured_window_counts_for_a_cli_that_reports_none(talk: Talk) -> None:
    """A tier whose context is full hands over, although its CLI does not say how large the window is."""
    talk.config('[models."gemini-*"]\nwindow = 3000\n')
    model = {"model": "gemini-2.5-pro"}
    write(
        talk, {"say": f"[[say {UP}]]", **model}, {"say": "[[say short]]", "full": f"[[say {DONE}]]", **model}
    )
    told = escalate(talk)
    assert (told["end"], modes(told)) == ("done", ["fresh", "fresh"]), told
