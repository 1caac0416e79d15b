"""The checks for room: in the model's window, in a file that can be resumed, and in the prompt. Pure."""

from __future__ import annotations

from segue.core.prompt_recap import LEAST
from segue.core.situation import ASSUMED_WINDOW, FRAME_BYTES, Situation, tokens_of
from segue.core.turn import Check, Mode
from segue.core.usage import tokens_in_words
from segue.core.verdicts import SESSION, Said, failed, passed, say, skipped


def pressure(now: Situation) -> Check:
    """A chat continues if the CLI compacts by itself. Otherwise cutting at the same place would not help."""
    used, window = (now.pin.context.used, now.pin.context.window) if now.pin is not None else (None, None)
    if used is None or not window:
        return skipped("pressure")
    text = f"{used / window:.0%} of {tokens_in_words(window)}"
    share = say(text, "pressure.share", share=round(used / window, 3), window=window)
    if used / window < now.policy.context_threshold:
        return passed("pressure", share)
    if now.flow:
        hands_over = say(": the role hands over", "pressure.hands_over")
        return failed("pressure", (*SESSION, "graft", "replay"), share + hands_over)
    agent = now.label
    if now.runtime.capabilities.compacts:
        soon = say(
            f": {agent} will soon replace its history with a summary", "pressure.compacts", agent=agent
        )
        return failed("pressure", (), share + soon)
    stuck = say(f", and {agent} does not make room by itself", "pressure.stays", agent=agent)
    return failed("pressure", SESSION, share + stuck)


def size(now: Situation) -> Check:
    if now.pin is None or not now.file.present:
        return skipped("size")
    is_, limit = now.file.size, now.policy.max_session_bytes
    if is_ <= limit:
        return passed("size", say(_megabytes(is_), "size.is", bytes=is_))
    over = f"{_megabytes(is_)}, the limit is {_megabytes(limit)} ([continuity] max_session_mb)"
    return failed("size", (*SESSION, "graft"), say(over, "size.over", bytes=is_, max_bytes=limit))


def fits(now: Situation) -> Check:
    """What a session has to catch up on, or the new message alone, may also be too long."""
    if now.earlier == 0:
        return skipped("fits")
    late_over = now.pin is not None and (_is_over(now, _late(now)) or bool(now.too_long & {*SESSION}))
    bars: tuple[Mode, ...] = (*(SESSION if late_over else ()), "replay")
    if _is_over(now, now.new_bytes + LEAST) or "recap" in now.too_long:
        return failed("fits", (*bars, "recap"), _no_room(now))
    if late_over:
        late = _late(now)
        text = f"the messages that the session has not seen are {_beside_limit(now, late)}"
        return failed("fits", bars, say(text, "fits.late", **_limit(now, late)))
    why = _too_long(now)
    return failed("fits", bars, why) if why is not None else passed("fits")


def _late(now: Situation) -> int:
    """How many bytes would be sent in addition to the session."""
    text = now.cut.text
    return sum(each.size + FRAME_BYTES for each in text) if len(text) > 1 else now.new_bytes


def _is_over(now: Situation, size: int) -> bool:
    """Whether this size is certainly more than the CLI accepts: a character has up to four bytes."""
    can = now.runtime.capabilities
    each = 1 if can.prompt_unit == "bytes" else 4
    return can.prompt_limit is not None and size > can.prompt_limit * each


def _beside_limit(now: Situation, size: int) -> str:
    limit = _megabytes(now.runtime.capabilities.prompt_limit or 0)
    return f"{_megabytes(size)}; {now.label} accepts at most {limit}"


def _limit(now: Situation, size: int) -> dict[str, str | int | float]:
    return {"bytes": size, "agent": now.label, "max_bytes": now.runtime.capabilities.prompt_limit or 0}


def _no_room(now: Situation) -> Said:
    can, agent = now.runtime.capabilities, now.label
    limit, unit = can.prompt_limit or 0, can.prompt_unit
    text = (
        f"the new message leaves no room for what was said before ({agent} accepts at most {limit:,} {unit})"
    )
    return say(text, f"fits.no_room_{unit}", agent=agent, limit=limit)


def _too_long(now: Situation) -> Said | None:
    limit, length = now.runtime.capabilities.prompt_limit, now.view_bytes
    if limit is not None and (length > limit or "replay" in now.too_long):
        text = f"the conversation is {_beside_limit(now, length)}"
        return say(text, "fits.long", **_limit(now, length))
    window, needed = now.window or ASSUMED_WINDOW, tokens_of(length)
    if needed <= window / 2:
        return None
    half = f"more than half of the window of {tokens_in_words(window)}"
    text = f"the conversation is about {tokens_in_words(needed)} tokens, {half}"
    return say(text, "fits.window", tokens=needed, window=window)


def _megabytes(count: int) -> str:
    return f"{count / 1_048_576:.1f} MB" if count >= 104_858 else f"{count / 1024:.1f} KB"
