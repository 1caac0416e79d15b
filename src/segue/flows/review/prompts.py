"""What each role is told: all of it in a new session, later only what is new."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from segue.flows.commands import CheckResult
from segue.flows.review.findings import Findings
from segue.flows.review.verdict import Finding

LONGEST_WORDS = 4_000
"""How much of what the coder said is shown to the reviewer."""
LONGEST_OBJECTIVE = 200

CODER = (
    "You write the code for the task below, in the current directory. A reviewer looks at your changes"
    " afterwards. Do the whole task, and nothing else. Say in a few sentences what you did."
)
REVIEWER = (
    "You review the changes that a coder made for the task below. Judge whether they do what the task asks,"
    " and do it right. Read any file that you need, but change nothing."
)
COORDINATOR = (
    "A coder and a reviewer are making no progress on the task below: the changes were rejected {rejections}"
    " times in a row. Find out what is in the way, and write guidance for the coder: what to do next, and"
    " what to leave alone. Change nothing. Your answer is given to the coder as it is."
)
VERDICT = """End your answer with your verdict, a JSON object in a fenced block:

```json
{"verdict": "reject", "findings": [{"id": "f1", "text": "what is wrong, and where", "severity": "major", \
"state": "open"}], "notes": "what the coder should know", "context_reset": false}
```

- verdict: "approve" if nothing has to be changed, else "reject".
- findings: everything that has to be changed. severity: "blocker", "major" or "minor". state: "open" or \
"resolved". A finding keeps its id in all rounds. What is resolved is not raised again.
- A topic that is not part of the task is a finding with the state "outside". Nobody works on it.
- context_reset: true only if the coder is on a wrong track and should start over without its memory."""
REMINDER = (
    "End your answer with your verdict in the same form as before: one fenced JSON block with verdict,"
    ' findings (id, text, severity, state "open", "resolved" or "outside"), notes and context_reset. Say of'
    " each open finding whether it is resolved. Raise only what the task asks for."
)
AGAIN = "Your verdict could not be read: {reason}. Give it once more, and nothing else.\n\n{form}"


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where the work stands."""

    task: str
    round: int
    rounds: int
    commands: tuple[str, ...] = ()
    """The commands of the checks."""
    findings: Findings = Findings()
    notes: str = ""
    """The reviewer's last notes."""
    checks: tuple[CheckResult, ...] = ()
    """The last results of the checks."""
    guidance: str = ""
    """What the coordinator says."""

    @property
    def position(self) -> str:
        return f"Round {self.round} of at most {self.rounds}."


def objective(task: str) -> str:
    """The first line of the task."""
    lines = (line.strip().lstrip("#").strip() for line in task.splitlines())
    return next(filter(None, lines), "")[:LONGEST_OBJECTIVE]


def coder_full(place: Place, note: str = "") -> str:
    """``note``: what the session before had done, and why it is not continued."""
    return _sections(
        CODER if place.round == 1 and not note else f"{CODER}\n\n{place.position}",
        ("Task", place.task),
        ("Checks", _commands(place.commands)),
        ("Before", note),
        ("Guidance", place.guidance),
        *_rejected(place),
    )


def coder_delta(place: Place, told: Sequence[CheckResult] = ()) -> str:
    """``told``: the results of the checks that the session was told before."""
    return _sections(
        f"{place.position} The reviewer has rejected the changes. Resolve the open findings.",
        ("Open findings", _findings(place.findings.open)),
        ("Resolved; leave it as it is", _ids(place.findings.resolved)),
        ("The reviewer's notes", place.notes),
        ("Checks that failed", _results(_failed(place.checks), told)),
    )


def reviewer_full(place: Place, diff: str, said: str, note: str = "", unseen: str = "") -> str:
    """``diff``: all changes so far. ``said``: the coder's last answer. ``unseen``: what is not shown."""
    return _sections(
        f"{REVIEWER}\n\n{place.position}",
        ("Task", place.task),
        ("Before", note),
        ("Findings so far", _findings((*place.findings.known, *place.findings.outside))),
        ("Your notes of the last round", place.notes),
        ("What the coder says", _quoted(_bounded(said, LONGEST_WORDS))),
        ("All changes so far", _quoted(diff, "diff") if diff else _nothing(unseen)),
        _not_shown(unseen),
        ("Checks", _results(place.checks)),
        ("Verdict", VERDICT),
    )


def reviewer_delta(
    place: Place, diff: str, said: str, told: Sequence[CheckResult] = (), unseen: str = ""
) -> str:
    """``diff``: the changes since the reviewer's last look. ``told``: the results of the checks then."""
    return _sections(
        f"{place.position} The coder has worked on your findings.",
        ("Findings so far", _states(place.findings)),
        ("Your notes of the last round", place.notes),
        ("What the coder says", _quoted(_bounded(said, LONGEST_WORDS))),
        ("Changes since your last look", _quoted(diff, "diff") if diff else _nothing(unseen)),
        _not_shown(unseen),
        ("Checks", _results(place.checks, told)),
        ("Verdict", REMINDER),
    )


def verdict_again(reason: str) -> str:
    return AGAIN.format(reason=reason, form=VERDICT)


def coordinator_full(place: Place, diff: str, rejections: int, unseen: str = "") -> str:
    return _sections(
        f"{COORDINATOR.format(rejections=rejections)}\n\n{place.position}",
        ("Task", place.task),
        *_rejected(place),
        ("All changes so far", _quoted(diff, "diff") if diff else _nothing(unseen)),
        _not_shown(unseen),
    )


def _nothing(unseen: str) -> str:
    return "Nothing was changed, as far as it is shown." if unseen else "Nothing was changed."


def _not_shown(unseen: str) -> tuple[str, str]:
    return (
        "Not shown",
        f"The changes do not show what is inside these. Read them:\n\n{unseen}" if unseen else "",
    )


def _rejected(place: Place) -> list[tuple[str, str]]:
    return [
        ("Open findings", _findings(place.findings.open)),
        ("Resolved; leave it as it is", _findings(place.findings.resolved)),
        ("The reviewer's notes", place.notes),
        ("Checks that failed", _results(_failed(place.checks))),
    ]


def _sections(first: str, *sections: tuple[str, str]) -> str:
    """Those that have no text are left out."""
    return "\n\n".join([first, *(f"# {title}\n\n{text.strip()}" for title, text in sections if text.strip())])


def _commands(commands: Sequence[str]) -> str:
    if not commands:
        return ""
    lines = "\n".join(f"- `{each}`" for each in commands)
    return f"These commands are run after your turn. All of them should succeed.\n\n{lines}"


def _findings(findings: Iterable[Finding]) -> str:
    return "\n".join(f"- {each.id} ({each.severity}, {each.state}): {each.text}" for each in findings)


def _ids(findings: Iterable[Finding]) -> str:
    return ", ".join(each.id for each in findings)


def _states(findings: Findings) -> str:
    """What is open; the rest by its id, because the session knows what it is."""
    settled = (("resolved", _ids(findings.resolved)), ("outside", _ids(findings.outside)))
    lines = [_findings(findings.open), *(f"- {state}: {ids}" for state, ids in settled if ids)]
    return "\n".join(filter(None, lines))


def _failed(checks: Sequence[CheckResult]) -> list[CheckResult]:
    return [each for each in checks if not each.passed]


def _results(checks: Sequence[CheckResult], told: Sequence[CheckResult] = ()) -> str:
    return "\n\n".join(_result(each, each in told) for each in checks)


def _result(check: CheckResult, known: bool) -> str:
    how = "took too long and was ended" if check.code is None else f"exit code {check.code}"
    how = "succeeded" if check.passed else how
    if known and check.output.strip():
        return f"`{check.command}`: {how}, with the same output as last time"
    return f"`{check.command}`: {how}\n\n{_quoted(check.output)}".strip()


def _quoted(text: str, label: str = "") -> str:
    """The text in a fence that it does not contain itself."""
    if not text.strip():
        return ""
    longest = max((len(each) for each in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{label}\n{text.rstrip()}\n{fence}"


def _bounded(text: str, most: int) -> str:
    text = text.strip()
    return text if len(text) <= most else f"{text[:most]}\n(… {len(text) - most:,} more characters)"
