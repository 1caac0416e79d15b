"""What a rehearsal turn uses and costs: small, invented, but counted by the rules of the real services.

Tokens are bytes / 4. What the session held before is read from the cache, what is new is written to it, and
each request has a few tokens that no cache holds. A session that is not saved writes nothing to the cache.
"""

from collections.abc import Iterable

from segue.core.usage import Price, Usage
from segue.rehearsal.agent.store import Session

WINDOW = 200_000
FRAME_TOKENS = 3
PRICE = Price(input=1.0, output=5.0, cache_read=0.1, cache_write=1.25)


def tokens(size: int) -> int:
    return -(-size // 4)


class Meter:
    """Counts a run's requests."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._cached = self._size(session.held) if session.held else 0
        self.total = Usage(0, 0, 0, 0)
        self.requests = 0
        self.last_prompt = 0

    @property
    def prompt(self) -> int:
        """The tokens that the next request sends."""
        return FRAME_TOKENS + self._size(len(self._session.messages))

    @property
    def cost_usd(self) -> float:
        return round(PRICE.cost(self.total) or 0.0, 9)

    def count(self, said: Iterable[str]) -> Usage:
        """One request that was answered with this."""
        sent = self._size(len(self._session.messages))
        new = sent - self._cached
        plain, written = (FRAME_TOKENS, new) if self._session.saved else (FRAME_TOKENS + new, 0)
        usage = Usage(plain, self._cached, written, tokens(sum(len(text.encode()) for text in said)))
        self.last_prompt = usage.prompt or 0
        self._cached = sent if self._session.saved else self._cached
        self.total += usage
        self.requests += 1
        return usage

    def _size(self, messages: int) -> int:
        held = self._session.messages[:messages]
        return tokens(len(self._session.header.system.encode()) + sum(len(m.text.encode()) for m in held))
