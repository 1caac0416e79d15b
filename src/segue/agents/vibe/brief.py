"""A 2.x session at a glance: what its ``meta.json`` says, and the beginning and the end of its messages."""

from __future__ import annotations

from segue.agents.reader import HEAD, TAIL, Stored
from segue.agents.vibe import lines, meta
from segue.agents.vibe.folder import MESSAGES
from segue.agents.vibe.meta import Config, Meta, Stats
from segue.agents.vibe.store import ends
from segue.core.transcript import Brief, TitleBy


def _both(*beginnings: bytes) -> tuple[bytes, ...]:
    """As Vibe writes it, and as we do: without blanks."""
    return (*beginnings, *(one.replace(b" ", b"") for one in beginnings))


_ASKED = _both(b'{"role": "user", "content": "')
_SAID = _both(b'{"role": "assistant", "content": "')
_SILENT = _both(b'{"role": "assistant", "content": ""')
_OTHERS = _both(b'{"role": "tool"', b'{"role": "system"', b'{"role": "assistant", "content": null')
_PUT_IN = _both(b'"injected": true')
"""How the lines of a session begin, and the mark of a message that nobody said."""


def brief(stored: Stored) -> Brief:
    known, trouble = meta.known(stored.file)
    try:
        seen, size = ends(f"{stored.file}/{MESSAGES}", HEAD, TAIL)
    except OSError as error:
        return Brief(trouble=f"it cannot be read: {error.strerror or error}")
    whole = size <= HEAD + TAIL
    count = _count(seen)
    first, last = _first(seen[: size if whole else HEAD]), _last(seen if whole else seen[HEAD:])
    stats, config = known.stats or Stats(), known.config or Config()
    title, by = titled(known, first)
    return Brief(
        cwd=known.environment.working_directory if known.environment is not None else None,
        title=title,
        title_by=by,
        first_prompt=first,
        last_prompt=last or first,
        messages=count if whole else round(count * size / len(seen)),
        messages_estimated=not whole,
        tokens=total(stats.session_prompt_tokens, stats.session_completion_tokens),
        cost_usd=stats.session_cost,
        branch=known.git_branch,
        created_ms=meta.moment(known.start_time),
        last_used_ms=meta.moment(known.end_time) or stored.changed_ns // 1_000_000,
        model=config.active_model,
        context=stats.last_turn_prompt_tokens or None,
        after=stats.last_turn_completion_tokens or 0,
        window=config.window,
        tags=known.tags,
        agent_name=known.agent_profile.name if known.agent_profile is not None else None,
        parent=known.parent_session_id,
        empty=whole and count == 0,
        trouble=trouble,
    )


def titled(known: Meta, first: str | None) -> tuple[str | None, TitleBy | None]:
    """What the user called it; else what Vibe did, which may be just the beginning of the first prompt."""
    if not known.title:
        return (first, "prompt") if first else (None, None)
    if known.title_source == "manual":
        return known.title, "user"
    begins = first is not None and first.startswith(known.title.rstrip("….")[:40])
    return known.title, "prompt" if begins else "agent"


def total(*parts: int | None) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _count(seen: bytes) -> int:
    """Prompts and answers with words. Lines of the usual form are counted without being decoded."""
    count, at, size = 0, 0, len(seen)
    while at < size:
        end = seen.find(b"\n", at)
        end = end if end >= 0 else size
        if seen.startswith(_SAID, at):
            count += not seen.startswith(_SILENT, at)
        elif seen.startswith(_ASKED, at):
            count += seen.find(_PUT_IN[0], at, end) < 0 and seen.find(_PUT_IN[1], at, end) < 0
        elif not seen.startswith(_OTHERS, at):
            line = lines.decoded(seen[at:end])
            count += line is not None and (line.opens or (line.role == "assistant" and bool(line.words)))
        at = end + 1
    return count


def _first(window: bytes) -> str | None:
    at = 0
    while 0 <= at < len(window):
        end = window.find(b"\n", at)
        found = _prompt(window[at : end if end >= 0 else len(window)])
        if found is not None or end < 0:
            return found
        at = end + 1
    return None


def _last(window: bytes) -> str | None:
    end = len(window)
    while end > 0:
        at = window.rfind(b"\n", 0, end)
        found = _prompt(window[at + 1 : end])
        if found is not None:
            return found
        end = at
    return None


def _prompt(text: bytes) -> str | None:
    if text.startswith((*_SAID, *_OTHERS)):
        return None
    line = lines.decoded(text)
    return line.words.strip() if line is not None and line.opens else None
