"""When a usage limit ends, from the words in which Codex says it."""

import re
from datetime import datetime

_IN = re.compile(r"try again in ([\d.]+)\s?(ms|s|m|h)", re.I)
_AT = re.compile(r"try again at (?:(\w{3}) (\d{1,2})\w\w, (\d{4}) )?(\d{1,2}:\d\d [AP]M)", re.I)
_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}


def until(message: str, now_ms: int) -> int | None:
    """Epoch milliseconds. A wait is counted from ``now_ms``; a time of day is the machine's own."""
    wait = _IN.search(message)
    if wait:
        return now_ms + int(float(wait[1]) * _MS[wait[2].lower()])
    moment = _AT.search(message)
    if not moment:
        return None
    month, day, year, clock = moment.groups()
    date = f"{month} {day} {year}" if month else datetime.fromtimestamp(now_ms / 1000).strftime("%b %d %Y")
    try:
        return int(datetime.strptime(f"{date} {clock}", "%b %d %Y %I:%M %p").timestamp() * 1000)
    except ValueError:
        return None
