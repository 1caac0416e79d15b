"""Whole conversations: whatever happens to them, an agent knows the view, each message once, and no more.

``World`` keeps a conversation in memory, and for every pin a native session that really contains what it was
sent. Each turn is decided, cut and held by the code under test; what the agent then has before it is compared
with the view.
"""

from __future__ import annotations

import random
from collections import Counter
from copy import deepcopy
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.core.situations import CLAUDE, CODEX, THREE_MODES, situation, told

from segue.core.cut import Cut, HeldIndex, ViewIndex, cut, embody
from segue.core.ladder import decide, step_down
from segue.core.model import Ended, Held, History, Message, Pin, Voice, Workdir
from segue.core.outcome import Failure
from segue.core.request import Capabilities
from segue.core.situation import File, Situation
from segue.core.turn import Mode
from segue.core.view import UNKNOWN, Viewer, account_mark, under, view, visible

ALL_MODES: tuple[Mode, ...] = ("resume", "branch", "replay", "recap", "fresh")
WALLS = {"claude": ("x", "x=you"), "codex": ("x", "y")}
"""An account and another login of it; two accounts."""
SPEAKERS = [
    (Voice(agent, role), name) for agent in WALLS for role in ("", "reviewer") for name in WALLS[agent]
]


def who(account: str) -> tuple[str, str]:
    """``account=login``."""
    name, _, login = account.partition("=")
    return name, login or UNKNOWN


class Entry(NamedTuple):
    """What an agent has before it: a message as text or as its own, or what it reads now."""

    message: str
    revision: int
    second_hand: bool = False
    correction: bool = False


class Native:
    """A native session: what is in it, the places we were told of, and where it ends."""

    def __init__(self, entries: list[Entry], anchors: dict[str, int], end: str) -> None:
        self.entries, self.anchors, self.end, self.lost = entries, anchors, end, False

    def cut(self, anchor: str | None) -> Native:
        length = self.anchors[anchor or ""]
        return Native(
            self.entries[:length], {a: n for a, n in self.anchors.items() if n <= length}, anchor or ""
        )


class Done(NamedTuple):
    """A turn as a test looks at it: ``text`` and ``corrections`` in the words of ``situations``."""

    mode: Mode
    text: str
    corrections: str = ""


class Way(NamedTuple):
    """How one attempt begins."""

    native: Native
    kept: tuple[Held, ...]
    text: tuple[Message, ...]
    corrections: tuple[Message, ...]


class World:
    def __init__(self, modes: tuple[Mode, ...] = ALL_MODES, branch: bool = True) -> None:
        self.modes, self.branch = modes, branch
        self.history: History = "all"
        self.messages: list[Message] = []
        self.pins: dict[tuple[Voice, str], Pin] = {}
        self.natives: dict[str, Native] = {}
        self.secrets: dict[str, set[str]] = {}
        """Under which accounts somebody said what went into a message."""
        self.facts: dict[str, Any] = {}
        """What else is different from now on."""
        self.turns = self.made = 0

    # What users do.

    def say(self, voice: Voice, account: str = "", fate: str = "ok", wish: str = "") -> Done:
        self.messages.append(Message(id=f"u{self.turns + 1}", sender="user", voice=voice))
        return self.run(voice, account, fate, wish)

    def retry(self, at: int, voice: Voice, account: str = "", fate: str = "ok", wish: str = "") -> Done:
        del self.messages[at + 1 :]
        return self.run(voice, account, fate, wish)

    def edit(self, at: int, cut: bool = False) -> None:
        self.messages[at] = replace(self.messages[at], revision=self.messages[at].revision + 1)
        if cut:
            del self.messages[at + 1 :]

    def truncate(self, at: int) -> None:
        del self.messages[at:]

    def lose(self, voice: Voice, account: str = "") -> None:
        """The file of a session is deleted."""
        if (voice, account) in self.pins:
            self.natives[self.pins[voice, account].native_id].lost = True

    def intrude(self, voice: Voice, account: str = "") -> None:
        """Somebody goes on with a session by hand."""
        if (voice, account) in self.pins:
            native = self.natives[self.pins[voice, account].native_id]
            native.entries.append(Entry("a foreign turn", 1))
            native.end = self.name("end")

    # A turn.

    def run(self, voice: Voice, account: str, fate: str, wish: str) -> Done:
        self.turns += 1
        new = replace(
            self.messages[-1], voice=voice, account=account, under=(account_mark(voice.agent, *who(account)),)
        )
        self.messages[-1] = replace(new, blank=new.blank or wish == "blank")
        self.secrets[new.id] = {account_mark(voice.agent, *who(account))}
        now = self.survey(voice, account, wish)
        mode = decide(now).mode
        if mode == "fresh" and now.earlier:
            self.messages[-1] = replace(self.messages[-1], blank=True)
        way = self.way(mode, now)
        if fate == "rejected" and mode in ("resume", "branch"):
            lower = step_down(mode, Failure("session_rejected", "gone"), 0, now)
            if lower is None:
                assert wish == "too long"
                return Done(mode, told(way.text), told(way.corrections))
            mode, fate, way = lower, "ok", self.way(lower, now)
        self.settle(mode, now, way, fate)
        return Done(mode, told(way.text), told(way.corrections))

    def survey(self, voice: Voice, account: str, wish: str) -> Situation:
        seen = visible(self.messages, Viewer(voice, *who(account)))
        now = view(seen, voice, self.history)
        pin = self.pins.get((voice, account))
        native = self.natives[pin.native_id] if pin else None
        parted = Cut(text=tuple(now))
        if pin and native:
            parted = cut(HeldIndex(pin.held), ViewIndex(now), self.history, ViewIndex(seen))
            assert parted.anchor == self.farthest(native, now, seen)
        return replace(
            situation(holds=None, can={"branch": self.branch}),
            policy=replace(situation().policy, modes=self.modes, history=self.history),
            voice=voice,
            account=account,
            pin=pin,
            cut=parted,
            view_messages=len(now),
            view_bytes=10**7 if wish == "too long" else 100,
            blank="asked for" if wish == "blank" else None,
            fresh_session=wish == "fresh_session",
            file=File(not native.lost, 100, None if native.lost else native.end) if native else File(),
            **self.facts,
        )

    def farthest(self, native: Native, now: list[Message], seen: list[Message]) -> str | None:
        """The last place in the session up to which it is true to the view, by looking at each."""
        present = {each.id: each.revision for each in seen}
        best = None
        for anchor, length in sorted(native.anchors.items(), key=lambda item: item[1]):
            plain = [entry for entry in native.entries[:length] if not entry.correction]
            ids = [entry.message for entry in plain]
            own = self.history == "own" and all(key in present for key in ids)
            stands = own or ids == [each.id for each in now][: len(ids)]
            if stands and all(
                entry.second_hand or entry.revision == present[entry.message] for entry in plain
            ):
                best = anchor
        return best

    def way(self, mode: Mode, now: Situation) -> Way:
        """What the agent is given in this mode; it must be the view."""
        seen = visible(self.messages, Viewer(now.voice, *who(now.account)))
        wanted = view(seen, now.voice, self.history)
        if now.pin and mode in ("resume", "branch"):
            native = self.natives[now.pin.native_id]
            assert not native.lost
            native = native if mode == "resume" else native.cut(now.cut.anchor)
            way = Way(native, now.pin.held[: now.cut.rows], now.cut.text, now.cut.corrections)
        else:
            text = wanted[-1:] if mode == "fresh" else wanted
            way = Way(Native([], {}, ""), (), tuple(text), ())
        self.agree(way, now, wanted, seen)
        return way

    def agree(self, way: Way, now: Situation, wanted: list[Message], seen: list[Message]) -> None:
        """The invariant: native part + text part = the view, each message once, and nothing that was cut."""
        story = [*way.native.entries, *sent(way, now.voice)]
        ids = [entry.message for entry in story if not entry.correction]
        outside = {each.id for each in seen} - {each.id for each in wanted}
        assert len(set(ids)) == len(ids)
        assert [key for key in ids if key not in outside] == [each.id for each in wanted]
        present = {each.id: each.revision for each in seen}
        assert {entry.message for entry in story} <= present.keys()
        last = {entry.message: entry.revision for entry in story}
        assert last == {key: present[key] for key in last}
        assert all(entry.second_hand for entry in story if entry.revision != present[entry.message])
        before = {entry.message: entry.revision for entry in way.native.entries}
        assert all(before[each.id] != each.revision for each in way.corrections), "corrected twice"
        mine, prefix = account_mark(now.voice.agent, *who(now.account)), f"{now.voice.agent}/"
        marks = {each for key in last for each in self.secrets[key]}
        assert all(each == mine or not each.startswith(prefix) for each in marks), "through the wall"

    def settle(self, mode: Mode, now: Situation, way: Way, fate: str) -> None:
        pinned = now.voice, now.account
        if fate in ("failed", "cancelled"):
            if mode == "resume" and fate == "failed":
                way.native.entries.extend(sent(way, now.voice))
                way.native.end = self.name("end")
            if now.pin and mode in ("resume", "branch"):
                kind = "network" if fate == "failed" else "cancelled"
                self.pins[pinned] = replace(now.pin, ended=Ended(kind))
            return
        native, anchor = way.native, self.name("end")
        native.entries.extend(sent(way, now.voice))
        answer = None if fate == "interrupted" else self.answer(now, native)
        native.end, native.anchors[anchor] = anchor, len(native.entries)
        native_id = now.pin.native_id if now.pin and mode == "resume" else self.name("native")
        self.natives[native_id] = native
        said = (answer.id, 1) if answer else None
        held = embody(way.kept, way.text, way.corrections, now.voice, answer=said, anchor=anchor)
        ended = None if answer else Ended("killed", tools_run=1)
        pin = situation().pin
        assert pin is not None
        self.pins[pinned] = replace(pin, native_id=native_id, held=held, end=anchor, ended=ended)

    def answer(self, now: Situation, native: Native) -> Message:
        known = {each.id: each for each in self.messages}
        heard = [known[entry.message] for entry in native.entries]
        marks = under(heard, Viewer(now.voice, *who(now.account)))
        name = f"{'a' if now.voice.agent == 'claude' else 'b'}{self.turns}"
        answer = Message(id=name, sender="assistant", voice=now.voice, account=now.account, under=marks)
        secrets = [self.secrets[entry.message] for entry in native.entries]
        self.secrets[name] = {account_mark(now.voice.agent, *who(now.account))}.union(*secrets)
        native.entries.append(Entry(name, 1))
        self.messages.append(answer)
        return answer

    def name(self, kind: str) -> str:
        self.made += 1
        return f"{kind}{self.made}"


def sent(way: Way, voice: Voice) -> list[Entry]:
    corrections = [Entry(each.id, each.revision, True, True) for each in way.corrections]
    return corrections + [Entry(each.id, each.revision, each.voice != voice) for each in way.text]


OPERATIONS = (
    *["say"] * 8,
    "edit",
    "edit",
    "edit --cut",
    "truncate",
    "retry",
    "retry elsewhere",
    "lose",
    "intrude",
)
FATES = (*["ok"] * 6, "failed", "cancelled", "interrupted", "rejected")
WISHES = (*[""] * 9, "fresh_session", "blank", "too long")


class Step(NamedTuple):
    operation: str
    who: int
    back: int
    """How far from the end."""
    fate: str
    wish: str


def take(world: World, step: Step) -> Done | None:
    """One operation, as far as it is possible now."""
    voice, account = SPEAKERS[step.who]
    at = max(0, len(world.messages) - 1 - step.back)
    if step.operation == "say" or not world.messages:
        return world.say(voice, account, step.fate, step.wish)
    there = world.messages[at]
    if step.operation in ("edit", "edit --cut"):
        world.edit(at, cut=step.operation == "edit --cut")
    elif step.operation == "truncate":
        world.truncate(at)
    elif step.operation.startswith("retry") and there.sender == "user":
        to = (there.voice, there.account) if step.operation == "retry" else (voice, account)
        return world.retry(at, *to, step.fate, step.wish)
    elif step.operation == "history":
        world.history = "own" if world.history == "all" else "all"
    elif step.operation in ("lose", "intrude"):
        getattr(world, step.operation)(voice, account)
    return None


steps = st.builds(
    Step,
    st.sampled_from((*OPERATIONS, "history")),
    st.integers(0, len(SPEAKERS) - 1),
    st.integers(0, 8),
    st.sampled_from(FATES),
    st.sampled_from(WISHES),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(steps, min_size=1, max_size=40), st.sampled_from([ALL_MODES, THREE_MODES]), st.booleans())
def test_whatever_happens_the_agent_knows_the_view(
    story: list[Step], modes: tuple[Mode, ...], branch: bool
) -> None:
    world = World(modes, branch)
    for step in story:
        take(world, step)


def test_long_stories_take_every_rung(seed: int, soak: bool) -> None:
    rng = random.Random(seed)
    taken: Counter[str] = Counter()
    for _ in range(4000 if soak else 40):
        world, people = World(), [*rng.sample(SPEAKERS[::2], 2), rng.choice(SPEAKERS)]
        for _ in range(60):
            which = SPEAKERS.index(rng.choice(people)), rng.randint(0, 8)
            done = take(world, Step(rng.choice(OPERATIONS), *which, rng.choice(FATES), rng.choice(WISHES)))
            taken.update([done.mode, *["corrected"] * bool(done.corrections)] if done else [])
    assert taken.keys() == {*ALL_MODES, "corrected"}


@pytest.fixture
def met() -> World:
    """Claude → Codex → Claude."""
    world = World()
    assert world.say(CLAUDE) == Done("fresh", "u1")
    assert world.say(CODEX) == Done("replay", "u1 a1 u2")
    assert world.say(CLAUDE) == Done("resume", "u2 b2 u3")
    return world


def test_an_edit_of_codexs_answer_is_a_correction_for_claude(met: World) -> None:
    met.edit(3)
    assert met.say(CLAUDE) == Done("resume", "u4", "b2'")
    assert met.say(CLAUDE) == Done("resume", "u5")


def test_truncating_at_codexs_answer_takes_claude_back_to_its_first(met: World) -> None:
    met.truncate(3)
    assert met.say(CLAUDE) == Done("branch", "u2 u4")


def test_retrying_codexs_answer_takes_claude_back_to_its_first(met: World) -> None:
    assert met.retry(2, CODEX) == Done("replay", "u1 a1 u2")
    assert met.say(CLAUDE) == Done("branch", "u2 b4 u5")


def test_an_edit_of_the_first_message_is_told_anew_to_claude_and_corrected_for_codex(met: World) -> None:
    met.edit(0)
    elsewhere = deepcopy(met)
    assert met.say(CLAUDE) == Done("replay", "u1' a1 u2 b2 u3 a3 u4")
    assert elsewhere.say(CODEX) == Done("resume", "u3 a3 u4", "u1'")


def test_a_turn_interrupted_after_tools_goes_on_and_hears_nothing_twice() -> None:
    world = World()
    world.say(CLAUDE)
    assert world.say(CLAUDE, fate="interrupted") == Done("resume", "u2")
    again = deepcopy(world)
    assert world.say(CLAUDE) == Done("resume", "u3")
    assert again.retry(2, CLAUDE, fate="interrupted") == Done("resume", "")
    assert again.retry(2, CLAUDE) == Done("resume", "")


@pytest.fixture
def guarded() -> World:
    """Resume or the whole transcript. Each guard has two halves: no resume, and everything as text."""
    world = World(THREE_MODES)
    world.say(CLAUDE)
    return world


def test_the_happy_path_resumes_and_sends_no_transcript(guarded: World) -> None:
    assert guarded.say(CLAUDE) == Done("resume", "u2")


def test_guard_agent_switch(guarded: World) -> None:
    assert guarded.say(CODEX) == Done("replay", "u1 a1 u2")


def test_guard_force_fresh(guarded: World) -> None:
    assert guarded.say(CLAUDE, wish="fresh_session") == Done("replay", "u1 a1 u2")
    assert guarded.retry(2, CLAUDE) == Done("replay", "u1 a1 u2")


@pytest.mark.parametrize(
    ("at", "words"), [(0, "u1' a1 u2 a2 u3"), (1, "u1 a1' u2 a2 u3"), (2, "u1 a1 u2' a2 u3")]
)
def test_guard_history_edit(guarded: World, at: int, words: str) -> None:
    guarded.say(CLAUDE)
    guarded.edit(at)
    assert guarded.say(CLAUDE) == Done("replay", words)


@pytest.mark.parametrize(("history", "correction"), [("all", "b2'"), ("own", "")])
def test_guard_history_edit_of_another_agents_answer(
    guarded: World, history: History, correction: str
) -> None:
    guarded.history = history
    guarded.say(CODEX)
    guarded.say(CLAUDE)
    guarded.edit(3)
    assert guarded.say(CLAUDE) == Done("resume", "u4", correction)


@pytest.mark.parametrize("history", ["all", "own"])
def test_guard_boundary_between_agents(guarded: World, history: History) -> None:
    guarded.history = history
    guarded.say(CODEX)
    guarded.say(CLAUDE)
    retried = deepcopy(guarded)
    guarded.truncate(3)
    assert guarded.say(CLAUDE) == Done("replay", "u1 a1 u2 u4")
    retried.retry(2, CODEX)
    # After Codex's new answer Claude's own slice is the new message alone: there is nothing to replay.
    whole = Done("replay", "u1 a1 u2 b4 u5") if history == "all" else Done("fresh", "u5")
    assert retried.say(CLAUDE) == whole


@pytest.mark.parametrize(
    "facts",
    [
        {"workdir": Workdir("/home/me/other", 1, 3)},
        {"runtime": replace(situation().runtime, distribution="openclaude")},
        {"runtime": replace(situation().runtime, capabilities=Capabilities())},
        {"switched_off": {"resume": "it ignores it"}},
    ],
)
def test_guard_directory_runtime_capability(guarded: World, facts: dict[str, Any]) -> None:
    guarded.facts = facts
    assert guarded.say(CLAUDE) == Done("replay", "u1 a1 u2")


def test_guard_rejection_at_runtime(guarded: World) -> None:
    assert guarded.say(CLAUDE, fate="rejected") == Done("replay", "u1 a1 u2")
    assert guarded.say(CLAUDE) == Done("resume", "u3")


def test_guard_capability_from_the_start() -> None:
    world = World(THREE_MODES)
    world.facts = {"runtime": replace(situation().runtime, capabilities=Capabilities())}
    said = [world.say(CLAUDE) for _ in range(3)]
    assert said == [Done("fresh", "u1"), Done("replay", "u1 a1 u2"), Done("replay", "u1 a1 u2 a2 u3")]
