"""Marks say under whom something was said: ``agent/account/login``, as in ``Message.under``.

The login is a fingerprint of whoever is logged in to that account; an unknown login counts as a separate one.
A mark that begins with a plus names whose words were carried over with the user's consent. It is no wall.
Before logins were recorded a mark was ``agent/account``: such a message counts as said under the login that
was seen there first or, if none was seen yet, under the current one.

A login is told apart by its route as well: the variables and settings that say where requests go, hashed. The
first route that a login is seen with keeps the login's own fingerprint, so that older marks stay true; the
same login by another route gets a fingerprint of both. A route ends with a dot and a fingerprint of the keys
that the agent is given. Those from before keys counted have no dot: the keys that are seen first are theirs.

What one voice may know of a conversation: the wall between logins, the view, and the epochs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from segue.core.model import History, Message, Voice

UNKNOWN = "unknown"
"""The login if it cannot be determined; fingerprints are hexadecimal."""
CONSENTED = "+"
Closed = Callable[[str], bool]
"""Whether the words of an account must not come here."""
UNREADABLE = "unreadable"
"""The login if its file is broken just now. It is in no mark: the last known login counts."""


class Identity(NamedTuple):
    """Who answers under an account: who is logged in, where requests go, and how marks name both together."""

    login: str
    route: str
    mark: str


def is_same_user(one: Identity, other: Identity) -> bool:
    """Whether two accounts of an agent are known to be one user's: by their keys, else by their login."""
    keys = [each.route.partition(".")[2] for each in (one, other)]
    if any(keys):
        return keys[0] == keys[1]
    return one.login == other.login != UNKNOWN


def identify(
    known: Sequence[Identity], login: str | None, routes: Sequence[str], both: Callable[[str, str], str]
) -> Identity:
    """Who it is. ``known``: who it was before, the last one first. ``both``: makes a fingerprint of two.
    ``routes``: the route, and what else it may be recorded as.

    A login of None and no route: it cannot be read just now, so it counts as unchanged.
    """
    if login is None:
        login = known[0].login if known else UNKNOWN
    routes = routes or [next((each.route for each in known if each.login == login), "")]
    route = routes[0]
    for recorded in routes:
        for each in known:
            if (each.login, each.route) == (login, recorded):
                return each._replace(route=route)
    is_first = all(each.mark != login for each in known)
    return Identity(login, route, login if is_first else both(login, route))


def account_mark(agent: str, account: str, login: str) -> str:
    return f"{agent}/{account}/{login}"


def old_account_mark(agent: str, account: str) -> str:
    """The mark from before logins were recorded."""
    return f"{agent}/{account}"


def consented(mark: str) -> str:
    """The mark of words that were carried over with the user's consent."""
    return mark if is_consented(mark) else f"{CONSENTED}{mark}"


def is_consented(mark: str) -> bool:
    return mark.startswith(CONSENTED)


def plain(mark: str) -> str:
    """The mark without the sign of consent."""
    return mark.removeprefix(CONSENTED)


def mark_parts(text: str) -> tuple[str, str, str | None]:
    """Agent, account and login; the login of an old mark is None."""
    agent, _, rest = text.partition("/")
    account, slash, login = rest.partition("/")
    return agent, account, login if slash else None


def has_walls(marks: Iterable[str]) -> bool:
    """Whether one agent was spoken to under more than one account or login."""
    whole = {mark_parts(each) for each in marks if not is_consented(each)}
    return len(whole) > len({agent for agent, _, _ in whole})


def told_apart(marks: Iterable[str], first: Callable[[str, str], str | None]) -> tuple[str, ...]:
    """The marks; those without a login get the one that was first seen (by agent and account)."""
    return tuple(sorted({_told_apart(each, first) for each in marks}))


def _told_apart(text: str, first: Callable[[str, str], str | None]) -> str:
    agent, account, login = mark_parts(text)
    if login is not None or is_consented(text):
        return text
    seen = first(agent, account)
    return text if seen is None else account_mark(agent, account, seen)


class Viewer(NamedTuple):
    """Who looks at a conversation: a voice, under an account and its login. ``closed``: what the rules keep
    away from it."""

    voice: Voice
    account: str
    login: str
    closed: Closed | None = None


def visible(messages: Sequence[Message], viewer: Viewer) -> list[Message]:
    """What the viewer may see, from the point where its voice was last started over.

    An account is a wall, and so is its login: a message that may repeat words said under another account or
    login of the same agent is hidden. So is what is closed to the viewer, of any agent. A carried block is
    for those who may not see what it repeats: others are shown the original messages, as they are now.
    """
    passes = _passing(viewer)
    seen = [each for each in in_front(messages, viewer) if not _repeats(each, passes)]
    blanks = (at for at in range(len(seen) - 1, -1, -1) if seen[at].blank and seen[at].voice == viewer.voice)
    return seen[next(blanks, 0) :]


def in_front(messages: Sequence[Message], viewer: Viewer) -> list[Message]:
    """The messages on this side of the wall."""
    marks = _in_front(messages, viewer)
    return [message for message in messages if message.under in marks]


def hidden(messages: Sequence[Message], viewer: Viewer) -> int:
    """How many messages are behind the wall, and were not carried over either."""
    marks = _in_front(messages, viewer)
    count, carried = 0, set[str]()
    for message in reversed(messages):
        if message.under in marks:
            carried.update(message.under if message.kind == "carried" else ())
        elif not carried.issuperset(map(consented, message.under)):
            count += 1
    return count


def view(seen: list[Message], voice: Voice, history: History) -> list[Message]:
    """What the voice should know now: everything that is visible, or its own slice of it."""
    return seen if history == "all" else own_slice(seen, voice)


def own_slice(messages: Sequence[Message], voice: Voice) -> list[Message]:
    """Only what follows the most recent assistant message of another voice."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].sender == "assistant" and messages[at].voice != voice:
            return list(messages[at + 1 :])
    return list(messages)


def risen(before: Sequence[Message], after: Sequence[Message], voices: Iterable[Voice]) -> list[Voice]:
    """The voices whose epoch rises with a change of the history: those whose own slice it changed.

    The slices themselves are compared, not the position of the change: dropping another voice's answer moves
    the beginning of a slice that never contained it.
    """
    return [voice for voice in voices if _slice_marks(before, voice) != _slice_marks(after, voice)]


def under(view: Iterable[Message], viewer: Viewer) -> tuple[str, ...]:
    """Whose words an answer may repeat: those of its own login and of all the messages it was given.

    With ``history = "own"`` that is more than the view: it includes what the session holds from before.
    """
    marks = {account_mark(viewer.voice.agent, viewer.account, viewer.login)}
    for message in view:
        marks.update(message.under)
    return tuple(sorted(marks))


def _slice_marks(messages: Sequence[Message], voice: Voice) -> list[tuple[str, int]]:
    return [(message.id, message.revision) for message in own_slice(messages, voice)]


def _repeats(message: Message, passes: Callable[[str], bool]) -> bool:
    """Whether it is a carried block whose original messages are on this side of the wall."""
    if message.kind != "carried":
        return False
    return all(passes(plain(mark)) for mark in message.under if is_consented(mark))


def _in_front(messages: Sequence[Message], viewer: Viewer) -> set[tuple[str, ...]]:
    """The values of ``under`` on this side of the wall. There are only a few distinct ones."""
    passes = _passing(viewer)
    return {value for value in {message.under for message in messages} if all(map(passes, value))}


def _passing(viewer: Viewer) -> Callable[[str], bool]:
    """Whether words with a mark are on this side of the wall."""
    agent, closed = viewer.voice.agent, viewer.closed
    prefix = f"{agent}/"
    mine = (account_mark(agent, viewer.account, viewer.login), old_account_mark(agent, viewer.account))

    def passes(mark: str) -> bool:
        barred = mark.startswith(prefix) or (closed is not None and closed(account_of(mark)))
        return mark in mine or not barred

    return passes


def account_of(mark: str) -> str:
    return mark_parts(mark)[1]
