"""Checks of how an adapter reads output: any line, any stream, any end."""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

import msgspec

from segue.agents.base import Answer, Ended
from segue.core import events as ev
from segue.core.outcome import Exit, Outcome
from segue.core.request import Start
from segue.core.stream import TurnState
from segue.testing import mutations
from segue.testing.sample import ID, Broke, Sample, call, empty_place, written

EXITS = (Exit(0), Exit(1, stderr="Error: something\n"), Exit(-9), Exit(143), Exit(None))
STREAMS = 60
_ANY = msgspec.json.Decoder(ev.AnyEvent)


def any_line_is_read(sample: Sample) -> Iterator[str]:
    """``parse`` never raises, returns only events that can be encoded and decoded, and has no state."""
    seen: dict[bytes, Any] = {}
    for line in mutations.lines(sample.recorded, sample.seed, sample.rounds):
        seen[line] = found = call(sample.agent.parse, line)
        yield from _readable(found, line)
    for line in reversed(seen):
        if call(sample.agent.parse, line) != seen[line]:
            yield f"parse: the same line gives different events the second time: {line!r:.80}"


def recorded_lines_are_known(sample: Sample) -> Iterator[str]:
    """``parse`` knows some line of each recorded stream; otherwise the stream would prove nothing."""
    for stream in sample.recorded:
        found = [call(sample.agent.parse, line) for line in stream.split(b"\n")]
        events = [event for part in found if isinstance(part, Sequence) for event in part]
        if stream.strip() and events and all(isinstance(event, ev.Unknown) for event in events):
            yield f"parse: no line of a recorded stream is understood: {stream!r:.80}"


def any_end_is_concluded(sample: Sample) -> Iterator[str]:
    """``conclude`` never raises, for any stream and any end, and is pure."""
    for stream in _streams(sample):
        for ended in _endings(sample, _read(sample, stream)):
            yield from _concluded(sample, ended, stream)


def what_we_ended_is_told_as_such(sample: Sample) -> Iterator[str]:
    for by in ("cancelled", "timeout"):
        for stream in (b"", *sample.recorded):
            reading = _read(sample, stream.split(b"\n"))
            outcome = call(sample.agent.conclude, _ended(sample, reading, Exit(-15, by)))
            kind = outcome.failure.kind if isinstance(outcome, Outcome) and outcome.failure else None
            if kind != by:
                yield f"conclude: a run that was ended by {by} is reported as {kind}"


def silence_is_a_failure(sample: Sample) -> Iterator[str]:
    """A process that printed nothing and failed did not succeed, and left no session to continue."""
    for failed in EXITS[1:4]:
        outcome = call(sample.agent.conclude, _ended(sample, TurnState(), failed))
        if isinstance(outcome, Outcome) and (outcome.failure is None or outcome.session_id is not None):
            yield f"conclude: no output and exit code {failed.code}, but it counts as answered or saved"


def evidence_leaves_alone_what_the_run_did_not_touch(sample: Sample) -> Iterator[str]:
    """``evidence`` can clean up after its own run, which left nothing here. All other files stay."""
    for start in sample.starts:
        with empty_place() as (place, home):
            strange = [folder / "somebody-else" / "file.json" for folder in (place.run_dir, home)]
            for path in strange:
                path.parent.mkdir()
                path.write_text("{}")
            before = written(place, home)
            given = (sample.request(start), place, home, TurnState())
            found = call(sample.agent.evidence, *given)
            if not isinstance(found, Mapping):
                yield f"evidence: {found.why if isinstance(found, Broke) else found} with an empty home"
            if written(place, home) != before or any(path.read_text() != "{}" for path in strange):
                yield "evidence: it can clean up after its run, but wrote or deleted something else"


def replies_are_lines(sample: Sample) -> Iterator[str]:
    if not sample.runtime.capabilities.questions:
        return
    question = ev.Question("q1", [{"question": "Which?", "options": [{"label": "A"}]}])
    for event in (question, ev.Permission("p1", "shell", {"command": "x"})):
        for answer in (Answer(True, answers={"Which?": "A"}), Answer(False, "no\nnot now")):
            line = call(sample.agent.reply, event, answer)
            if not isinstance(line, bytes) or not line.endswith(b"\n") or line.count(b"\n") != 1:
                yield f"reply: it must be one line of bytes, not {line!r:.80}"


def _readable(found: Any, line: bytes) -> Iterator[str]:
    if isinstance(found, Broke) or not isinstance(found, Sequence):
        yield f"parse: {found.why if isinstance(found, Broke) else 'no list of events'} for {line!r:.80}"
        return
    for event in found:
        if not isinstance(event, ev.AnyEvent):
            yield f"parse: {event!r:.60} is not a known event, for {line!r:.80}"
            continue
        try:
            _ANY.decode(msgspec.json.encode(event))
        except (msgspec.MsgspecError, UnicodeError, TypeError, OverflowError, RecursionError) as error:
            yield f"parse: the {type(event).__name__} event of {line!r:.80} is not well formed: {error}"


def _streams(sample: Sample) -> Iterator[list[bytes]]:
    """An empty stream, the recorded streams, their beginnings, and each with one record rewritten."""
    rng = Random(sample.seed)  # noqa: S311 - damage, not secrets
    yield []
    for stream in sample.recorded:
        lines = stream.split(b"\n")
        yield lines
        *first, last = [line for line in lines if line] or [b""]
        yield from ([*mutations.kinds(first), changed] for changed in mutations.every(last))
        yield from (lines[:at] for at in mutations.cuts(b"x" * len(lines), rng))
        for _ in range(min(STREAMS, sample.rounds)):
            at = (
                rng.randrange(max(0, len(lines) - 4), len(lines))
                if rng.random() < 0.5
                else rng.randrange(len(lines))
            )
            yield [*lines[:at], mutations.rewritten(lines[at], rng), *lines[at + 1 :]]


def _endings(sample: Sample, reading: TurnState) -> Iterator[Ended]:
    for end in EXITS:
        yield _ended(sample, reading, end)
    if sample.runtime.capabilities.resume:
        yield _ended(sample, reading, EXITS[1], Start("resume", ID))


def _ended(sample: Sample, reading: TurnState, end: Exit, start: Start | None = None) -> Ended:
    return Ended(request=sample.request(start), runtime=sample.runtime, reading=reading, exit=end)


def _read(sample: Sample, stream: Sequence[bytes]) -> TurnState:
    reading = TurnState()
    for line in stream:
        found = call(sample.agent.parse, line)
        for event in found if isinstance(found, Sequence) else ():
            reading.add(event)
    return reading


def _concluded(sample: Sample, ended: Ended, stream: list[bytes]) -> Iterator[str]:
    outcome = call(sample.agent.conclude, ended)
    tail = b"\n".join(stream)[-80:]
    if not isinstance(outcome, Outcome):
        why = outcome.why if isinstance(outcome, Broke) else f"gave {outcome!r:.60}"
        yield f"conclude: {why}, exit code {ended.exit.code}, stream ending in {tail!r}"
        return
    try:
        msgspec.convert(msgspec.to_builtins(outcome), Outcome)
    except msgspec.MsgspecError as error:
        yield f"conclude: the outcome is not valid: {error}, stream ending in {tail!r}"
    if outcome != call(sample.agent.conclude, ended):
        yield f"conclude: two calls with the same values differ, stream ending in {tail!r}"


CHECKS = (
    any_line_is_read,
    recorded_lines_are_known,
    any_end_is_concluded,
    what_we_ended_is_told_as_such,
    silence_is_a_failure,
    evidence_leaves_alone_what_the_run_did_not_touch,
    replies_are_lines,
)
