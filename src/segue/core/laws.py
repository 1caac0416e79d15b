"""The laws that every turn keeps, and the doors by which turns come.

What each law says, in plain words, is in ``docs/guarantees.md``.
"""

import enum
from typing import Literal

Law = Literal["trust", "wall", "permission", "secrets", "one writer", "budget"]
Consent = Literal["none", "user", "trusted file", "policy"]
"""Who wants words to pass between two logins of one agent: nobody; the user, who named both accounts or asked
for a carry; a trusted file of a project; the user's own rule, after a limit."""


class Door(enum.Enum):
    """How a run came to be, or how something was done to a conversation without an agent."""

    RUN = "run"
    RETRY = "retry"
    QUEUE = "queue run"
    SCHEDULED = "scheduled"
    WAKES = "parked run that wakes"
    ANSWER = "answer to a lapsed question"
    AGAIN = "asking again"
    RETRY_STEP = "retry-step"
    CONTINUE = "continue"
    ADOPT = "adopt"
    FORK = "fork"
    IMPORT = "import"
    SUMMARY = "summary"
    HAND_OFF = "hand-off"
    FAILOVER = "failover"
    FLOW = "flow"
    REVIEW = "review"
    ESCALATE = "escalate"
    COMPARE = "compare"
    RECOVERY = "recovery of what was killed"
    ADOPTION = "adoption of what was killed"


STARTS_NO_AGENT = (Door.FORK, Door.IMPORT, Door.HAND_OFF, Door.RECOVERY, Door.ADOPTION)
"""Doors by which no agent is started: the gate never sees them."""
