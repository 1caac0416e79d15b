"""The rehearsal agent's scenario. As each turn is a process, how often a rule was met stands in a file."""

import fcntl
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from segue.rehearsal import scenario
from segue.rehearsal.scenario import Tally
from segue.rehearsal.script import Script


def scripted(file: Path, home: Path) -> Script:
    """The script for a scenario; raises `ValueError` for a bad one."""
    rules = scenario.load(file)
    name = hashlib.sha256(msgspec.json.encode(rules)).hexdigest()[:16]
    return Script(rules, FiledTally(home / f"scenario-{name}.json"))


class FiledTally(Tally):
    """Counted across all turns of one home, also those that run at once."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def meet(self, rules: Sequence[int]) -> Mapping[int, int]:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self._path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            self._met = Counter(msgspec.json.decode(file.read() or b"{}", type=dict[int, int]))
            met = super().meet(rules)
            file.truncate(0)
            file.write(msgspec.json.encode(dict(met)))
        return met
