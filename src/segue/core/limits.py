"""Usage limits of an account: which of them are shown, how they are merged, and in words. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from segue.core.outcome import Outcome
from segue.core.situation import Situation
from segue.core.turn import Check
from segue.core.usage import Limit, LimitShown, Pays
from segue.core.verdicts import Said, failed, listed, passed, say, skipped

NEARLY = 0.9
"""From this share on, a limit is nearly used up."""
FIRST_MS, LONGEST_MS, DOUBLED = 30_000, 1_800_000, 20
"""How long a run waits at least that has met a limit again: doubled each time, up to the longest."""
STALE_MS = 5 * 3_600_000
"""How long a limit is shown whose reset is not known."""

PAYER: dict[Pays, str] = {
    "subscription": "a subscription",
    "api_key": "an API key",
    "cloud": "a cloud account",
    "unknown": "it is not known what",
}


def current(limits: Iterable[Limit], now_ms: int) -> tuple[Limit, ...]:
    """Without those that have been reset since they were seen."""
    return tuple(each for each in limits if now_ms < _ends(each))


def _ends(limit: Limit) -> int:
    return limit.seen_ms + STALE_MS if limit.resets_at is None else limit.resets_at


def with_refusal(outcome: Outcome, now_ms: int) -> tuple[Limit, ...]:
    """What the outcome tells about limits, including a refusal that names no window."""
    failure = outcome.failure
    if failure is None or failure.kind != "rate_limited" or failure.until is None:
        return outcome.limits
    if any(each.used is not None and each.used >= 1 for each in outcome.limits):
        return outcome.limits
    return *outcome.limits, Limit("unknown", 1.0, failure.until, "failure", now_ms)


def merged(known: Iterable[Limit], seen: Iterable[Limit]) -> tuple[Limit, ...]:
    """The latest per window. A report without a share does not replace one of the same period."""
    latest = {each.window: each for each in known}
    for each in seen:
        old = latest.get(each.window)
        if each.used is None and old is not None and old.used is not None and old.resets_at == each.resets_at:
            continue
        latest[each.window] = each
    return tuple(latest[name] for name in sorted(latest))


def shown(limits: Iterable[Limit], now_ms: int) -> tuple[LimitShown, ...] | None:
    """Those that still count, as they are reported; None: nothing is known.

    It is never empty: no CLI says that an account has no limits.
    """
    found = tuple(
        LimitShown(
            each.window, each.used, each.resets_at, each.source, max(0, (now_ms - each.seen_ms) // 1000)
        )
        for each in current(limits, now_ms)
    )
    return found or None


def used_up(limits: Iterable[Limit], now_ms: int) -> bool:
    """Whether one of them leaves nothing."""
    return any(each.used is not None and each.used >= 1 for each in current(limits, now_ms))


def share_used(limits: Iterable[Limit], now_ms: int) -> float:
    """Of the limit that leaves least; 0 if none is known."""
    return max((each.used or 0.0 for each in current(limits, now_ms)), default=0.0)


def next_reset(limits: Iterable[Limit], now_ms: int) -> float:
    """When the first of them is reset; infinite if that is not known."""
    return min(
        (each.resets_at for each in current(limits, now_ms) if each.resets_at is not None), default=math.inf
    )


def wait_until(
    until_ms: int, now_ms: int, wakes: int, *, first_ms: int = FIRST_MS, longest_ms: int = LONGEST_MS
) -> int:
    """Until when a run waits that has met a limit. ``until_ms``: when the limit ends, as the agent says.
    ``wakes``: how often the run has waited for it, and met it again: each time it waits longer."""
    if wakes < 1:
        return until_ms
    return max(until_ms, now_ms + min(first_ms << min(wakes - 1, DOUBLED), longest_ms))


def paid_otherwise(before: Pays, now: Pays) -> Said | None:
    """That something else pays than before; None if not, or if it is not known."""
    if before == now or "unknown" in (before, now):
        return None
    text = f"now paid by {PAYER[now]}, before by {PAYER[before]}"
    return say(text, "limits.payer", payer_now=now, payer_before=before)


def limits_check(now: Situation) -> Check:
    """It only warns. ``now`` knows a limit, or what pays."""
    standing = current(now.limits, now.now_ms)
    warnings = [
        _share(each, now.now_ms) for each in standing if each.used is not None and each.used >= NEARLY
    ]
    change = paid_otherwise(now.paid, now.pays)
    if change is not None:
        warnings.append(change)
    if warnings:
        return failed("limits", (), listed(warnings, "; "))
    known = [each for each in standing if each.used is not None]
    return passed("limits", listed(map(_share, known), ", ")) if known else skipped("limits")


def _share(limit: Limit, now_ms: int | None = None) -> Said:
    """``now_ms`` None: without the reset."""
    resets = limit.resets_at if now_ms is not None else None
    values: dict[str, str | int | float] = {"window": limit.window, "used": limit.used or 0.0}
    if resets is not None:
        values["resets_at"] = resets
    return say(words_of(limit, now_ms), "limits.used", **values)


def words_of(limit: Limit, now_ms: int | None = None) -> str:
    """``5h limit: 82% used, resets in 2 h 5 min``. ``now_ms`` None: without the reset."""
    name = "usage limit" if limit.window == "unknown" else f"{limit.window.replace('_', ' ')} limit"
    share = limit.used or 0.0
    used = "used up" if share >= 1 else f"{share:.0%} used"
    if now_ms is None or limit.resets_at is None:
        return f"{name} {used}"
    return f"{name} {used}, resets in {span_in_words(limit.resets_at - now_ms)}"


def span_in_words(ms: int) -> str:
    """``45 s``, ``12 min``, ``2 h 5 min``, ``3 d 4 h``."""
    seconds = max(1, round(ms / 1000))
    if seconds < 60:
        return f"{seconds} s"
    minutes = round(seconds / 60)
    for first, length, second, part in (("d", 1440, "h", 60), ("h", 60, "min", 1)):
        if minutes >= length:
            rest = minutes % length // part
            return f"{minutes // length} {first}" + (f" {rest} {second}" if rest else "")
    return f"{minutes} min"
