"""Which entries of a session stand behind an anchor, when they are read in order."""

from __future__ import annotations

from collections.abc import Callable

from segue.core.transcript import Entry


class Behind:
    """Call it with each entry in turn. ``upto`` says which belong to what ends at the anchor."""

    def __init__(self, upto: Callable[[Entry], bool]) -> None:
        self._upto = upto
        self.found = False
        """Whether the anchor is in the session at all."""

    def __call__(self, entry: Entry) -> bool:
        if self._upto(entry):
            self.found = True
            return False
        return self.found


def named(anchor: str) -> Behind:
    """For formats in which an anchor is a record's own id."""
    return Behind(lambda entry: entry.native == anchor or entry.native.startswith(f"{anchor}/"))
