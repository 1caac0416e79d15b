"""What the daemon answers if it does not do what it was asked for."""

from __future__ import annotations

from segue.core.errors import SegueError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

ELSEWHERE = "elsewhere"


class Refused(SegueError):  # noqa: N818 - as in core/errors
    """What this process would have raised itself."""

    def __init__(self, frame: Mapping[str, Any]) -> None:
        super().__init__(str(frame["message"]))
        self.code, self.exit_code = str(frame["code"]), int(frame["exit_code"])


class Elsewhere(Exception):  # noqa: N818 - it is an answer, not an error
    """The daemon may not be used for this call."""


def refusal(frame: Mapping[str, Any]) -> Refused | Elsewhere:
    """The frame as what is to be raised."""
    return Elsewhere(frame["message"]) if frame["code"] == ELSEWHERE else Refused(frame)
