"""How long the store takes, in milliseconds of this thread's own time; the least of several tries.

python -m tests.integration.store.timing [URL]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from segue.core.model import Held
from segue.store.records import Conversation
from segue.store.store import open_store
from tests.integration.store.talking import CLAUDE, Talk, message, new_id, pin_to, session_row

MESSAGES = 10_000
TRIES = 20


def least_ms(job: Callable[[], object], tries: int = TRIES) -> tuple[float, float]:
    """Of processor time and of the clock."""
    found = []
    for _ in range(tries):
        clock, own = time.perf_counter(), time.thread_time()
        job()
        found.append((time.thread_time() - own, time.perf_counter() - clock))
    return min(own for own, _ in found) * 1000, min(clock for _, clock in found) * 1000


def main() -> None:
    url = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory() as directory, open_store(url, Path(directory) / "segue.db") as store:
        sides = ("user", "assistant")
        said = [(message(sender=sides[n % 2]), f"message {n} " * 20) for n in range(MESSAGES)]
        talk = Talk(store, new_id("k"))
        store.add(Conversation(id=talk.id, key=talk.made.key), said)
        session = session_row(talk.id)
        held = tuple(Held(m.id, 1, f"anchor-{m.id}") for m, _ in said)
        talk.say("pin", session=session, held=held, pin=pin_to(session))
        ids = [m.id for m, _ in said]
        jobs: dict[str, Callable[[], object]] = {
            "messages": lambda: store.messages(talk.id),
            "pin": lambda: store.pin(talk.id, CLAUDE, "work"),
            "texts": lambda: store.texts(ids),
            "log": lambda: store.log(talk.id),
            "a turn (receive to settle)": lambda: talk.say("hello"),
            "held, all written": lambda: talk.say("x", pin=pin_to(session), held=held),
            "opened again": lambda: open_store(url, Path(directory) / "segue.db").close(),
        }
        for name, job in jobs.items():
            own, clock = least_ms(job)
            print(f"{name:26}{own:8.2f} own {clock:8.2f} clock")


if __name__ == "__main__":
    main()
