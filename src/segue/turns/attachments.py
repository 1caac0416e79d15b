"""The attachments of a turn: read from where the caller has them, and chosen for what is sent.

Loaded only if a message has any.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from segue.agents import registry
from segue.agents.base import Agent
from segue.config.named_files import read_typed
from segue.config.schema import Config
from segue.core.attachments import (
    ALL_LARGEST,
    LARGEST,
    MOST_SENT,
    Attachment,
    checked,
    file_name,
    refuse_large,
    refuse_many,
    size_words,
)
from segue.core.errors import Broken, Misuse
from segue.core.model import Attached, Message, NewAttachment
from segue.core.prompt_parts import one_line
from segue.core.request import AttachedFile, Capabilities
from segue.core.turn import Mode
from segue.core.verdicts import Said, listed, say
from segue.store.store import Store
from segue.system.files import write_whole

FOLDER = "attachments"
"""The directory of the copies in a run's directory."""
NAME_LENGTH = 80

Given = str | Path | Attachment


def load(given: Sequence[Given], here: Path, env: Mapping[str, str]) -> tuple[NewAttachment, ...]:
    """The attachments that a caller gave, checked. ``here``: the base of relative paths."""
    if isinstance(given, str | bytes | Path | Attachment):
        raise Misuse("attachments takes a list")
    refuse_many(len(given), 0)
    loaded = tuple(
        checked(each if isinstance(each, Attachment) else _read(each, env, here)) for each in given
    )
    refuse_many(len(loaded), sum(each.shown.bytes for each in loaded))
    return loaded


def _read(given: object, env: Mapping[str, str], here: Path) -> Attachment:
    if not isinstance(given, str | Path):
        raise Misuse(f"an attachment is a path or an Attachment, not {given!r:.60}")
    path = here / os.path.expanduser(given)
    name = path.name or "attachment"
    with suppress(OSError, ValueError):
        refuse_large(name, os.stat(path).st_size)
    found = read_typed(path, env, here, said=f"cannot attach {path}", most=LARGEST)
    return Attachment(name, found.data)


def refuse_unsupported(
    attachments: Sequence[Attached], agent: Agent, name: str, can: Capabilities, config: Config
) -> None:
    """Raise ``Misuse`` if the agent cannot take one of them, with the agents that can."""
    refused = [each for each in attachments if each.media_type not in can.attachments]
    if not refused:
        return
    wanted = {each.media_type for each in attachments}
    others = [
        each.facts.name
        for each in registry.preferred(config)
        if each.facts.name != agent.facts.name and wanted <= set(each.facts.attachments)
    ]
    what = f"{name} does not take {refused[0].name} ({refused[0].media_type})"
    takes = f"; it takes {', '.join(can.attachments)}" if can.attachments else ", nor any other attachment"
    raise Misuse(f"{what}{takes}; agents that do: {', '.join(others) or 'none'}")


class ChosenAttachments(msgspec.Struct, frozen=True):
    """What is sent, in order; remarks by message for the agent; and what the user should know."""

    sent: tuple[Attached, ...] = ()
    remarks: dict[str, tuple[str, ...]] = {}
    notices: tuple[Said, ...] = ()


def choose(
    text: Sequence[Message],
    found: Mapping[str, Sequence[Attached]],
    can: Capabilities,
    *,
    mode: Mode,
    label: str,
) -> ChosenAttachments:
    """``text``: the messages that are sent as text, the new one last. Its own attachments come first when
    there are too many, then the newest."""
    refused: dict[tuple[str, int], Said] = {}
    count, size = 0, 0
    for message in reversed(text):
        is_new = message is text[-1]
        for n, each in enumerate(found.get(message.id, ())):
            why = None
            if each.media_type not in can.attachments:
                kind = each.media_type
                why = say(f"{label} does not take {kind}", "notice.not_taken", agent=label, kind=kind)
            elif mode == "recap" and not is_new:
                why = say("only a part of the conversation is sent", "notice.part_sent")
            elif not is_new and (count >= MOST_SENT or size + each.bytes > ALL_LARGEST):
                why = say("there are too many", "notice.too_many")
            if why is not None:
                refused[message.id, n] = why
            else:
                count, size = count + 1, size + each.bytes
    return _chosen(text, found, refused)


def _chosen(
    text: Sequence[Message], found: Mapping[str, Sequence[Attached]], refused: Mapping[tuple[str, int], Said]
) -> ChosenAttachments:
    sent: list[Attached] = []
    remarks: dict[str, tuple[str, ...]] = {}
    notices: list[Said] = []
    for message in text:
        for n, each in enumerate(found.get(message.id, ())):
            name, why = one_line(each.name, NAME_LENGTH), refused.get((message.id, n))
            if why is None:
                sent.append(each)
                remark = f"attached: {name}, file {len(sent)} of those sent with this"
            else:
                what = f"attachment {name}, {size_words(each.bytes)}, was not sent again"
                unsent = say(what, "notice.unsent", name=name, bytes=each.bytes)
                notices.append(listed((unsent, why), ": "))
                remark = notices[-1].text
            remarks[message.id] = (*remarks.get(message.id, ()), remark)
    return ChosenAttachments(tuple(sent), remarks, tuple(notices))


def lost_in_session(store: Store, messages: Sequence[str], name: str) -> tuple[Said, ...]:
    """The notice that a resumed session does not show earlier attachments any more, if it has any."""
    found = [each.name for attached in store.attachments(messages).values() for each in attached]
    if not found:
        return ()
    names = ", ".join(one_line(each, NAME_LENGTH) for each in found)
    text = f"{name} no longer sees the attachments of earlier messages ({names}); attach them again if needed"
    return (say(text, "notice.unseen", agent=name, names=names),)


def write_copies(store: Store, attachments: Sequence[Attached], run_dir: Path) -> tuple[AttachedFile, ...]:
    """Write the files where a CLI can read them: for one attempt, and for this user alone."""
    folder = run_dir / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = []
    for number, each in enumerate(attachments, 1):
        data = store.attachment_data(each.id)
        if data is None:
            raise Broken(f"the attachment {each.name} is missing in the store")
        path = folder / file_name(number, each)
        write_whole(path, data, durable=False)
        made.append(AttachedFile(path, each.name, each.media_type))
    return tuple(made)
