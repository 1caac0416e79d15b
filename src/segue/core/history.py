"""What one voice may know of a conversation: the wall between logins, the view, and the epochs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from segue.core.marks import mark, old_mark
from segue.core.model import History, Message, Voice


def visible(messages: Sequence[Message], voice: Voice, account: str, login: str) -> list[Message]:
    """What this voice may see under this account and login, from where it was last started over.

    An account is a wall, and so is who is logged in to it: what may repeat words said under another one of
    the same agent is not seen.
    """
    seen = in_front(messages, voice, account, login)
    blanks = (at for at in range(len(seen) - 1, -1, -1) if seen[at].blank and seen[at].voice == voice)
    return seen[next(blanks, 0) :]


def in_front(messages: Sequence[Message], voice: Voice, account: str, login: str) -> list[Message]:
    """Those on this side of the wall."""
    marks = _in_front(messages, voice, account, login)
    return [message for message in messages if message.under in marks]


def hidden(messages: Sequence[Message], voice: Voice, account: str, login: str) -> int:
    """How many messages stand behind the wall."""
    return len(messages) - len(in_front(messages, voice, account, login))


def view(seen: list[Message], voice: Voice, history: History) -> list[Message]:
    """What the voice should know now: all that is visible, or its own slice of it."""
    return seen if history == "all" else own_slice(seen, voice)


def own_slice(messages: Sequence[Message], voice: Voice) -> list[Message]:
    """Only what follows the most recent assistant message of another voice."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].sender == "assistant" and messages[at].voice != voice:
            return list(messages[at + 1 :])
    return list(messages)


def risen(before: Sequence[Message], after: Sequence[Message], voices: Iterable[Voice]) -> list[Voice]:
    """The voices whose epoch rises by a change of the history: those whose own slice it changed.

    The slices themselves are compared, not the place of the change: dropping another voice's answer moves
    the beginning of a slice that never contained it.
    """
    return [voice for voice in voices if _slice_marks(before, voice) != _slice_marks(after, voice)]


def under(view: Iterable[Message], agent: str, account: str, login: str) -> tuple[str, ...]:
    """Whose words an answer may repeat: its own login's, and those of all it was given.

    With ``history = "own"`` that is more than the view: also what the session holds from before.
    """
    marks = {mark(agent, account, login)}
    for message in view:
        marks.update(message.under)
    return tuple(sorted(marks))


def _slice_marks(messages: Sequence[Message], voice: Voice) -> list[tuple[str, int]]:
    return [(message.id, message.revision) for message in own_slice(messages, voice)]


def _in_front(messages: Sequence[Message], voice: Voice, account: str, login: str) -> set[tuple[str, ...]]:
    """Which values of ``under`` are on this side of the wall. There are few different ones."""
    prefix = f"{voice.agent}/"
    mine = (mark(voice.agent, account, login), old_mark(voice.agent, account))
    values = {message.under for message in messages}
    return {value for value in values if all(each in mine or not each.startswith(prefix) for each in value)}
