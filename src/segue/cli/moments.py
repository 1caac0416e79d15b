"""A moment in the future, as people write it: ``+30m``, ``18:30``, ``2026-12-24T18:00``."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from segue.core.errors import Misuse
from segue.system import clock

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LATER = re.compile(r"\+(\d{1,6})([smhd])")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})")


def parse_moment(text: str) -> int:
    """Milliseconds since 1970. A time of day is its next occurrence. Raises ``Misuse``."""
    now_ms = clock.now_ms()
    if later := _LATER.fullmatch(text):
        return now_ms + int(later[1]) * _UNITS[later[2]] * 1000
    now = datetime.fromtimestamp(now_ms / 1000).astimezone()
    try:
        if at := _CLOCK.fullmatch(text):
            moment = now.replace(hour=int(at[1]), minute=int(at[2]), second=0, microsecond=0)
            moment += timedelta(days=1) if moment <= now else timedelta()
        else:
            given = datetime.fromisoformat(text)
            moment = given if given.tzinfo is not None else given.replace(tzinfo=now.tzinfo)
    except ValueError:
        raise Misuse(f'"{text}" is not a time; use +30m, 18:30 or 2026-12-24T18:00') from None
    if moment <= now:
        raise Misuse(f"{text} is in the past")
    return int(moment.timestamp() * 1000)
