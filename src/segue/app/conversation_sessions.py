"""The native sessions of a conversation: where they are, and how to open each in a terminal."""

from __future__ import annotations

from pathlib import Path

from segue.agents import registry
from segue.agents.base import StoredSession
from segue.app.conversation_shapes import ConversationSession
from segue.app.workspace import Workspace
from segue.config.schema import Config
from segue.core.errors import SegueError
from segue.core.model import Host, Pin
from segue.sessions.resume_command import ResumeCommands


def sessions(workspace: Workspace, key: str) -> list[ConversationSession]:
    conversation, config, host = workspace.conversation(key), workspace.config, workspace.host
    store, commands = workspace.projected(conversation), ResumeCommands(workspace.env, config)
    used = {row.id: row.last_used_ms for row in store.sessions(conversation.id)}
    return [
        _shown(pin, used.get(pin.session), _found(pin, config, host), commands)
        for pin in store.pins(conversation.id)
    ]


def _shown(
    pin: Pin, used_ms: int | None, found: tuple[StoredSession, int | None] | None, commands: ResumeCommands
) -> ConversationSession:
    stored, expires = found if found is not None else (None, None)
    line = commands.line(pin.voice.agent, pin.home, pin.native_id, pin.workdir.path)
    return ConversationSession(
        agent=pin.voice.agent,
        role=pin.voice.role or None,
        account=pin.account or None,
        session=pin.native_id,
        cwd=pin.workdir.path,
        home=pin.home,
        path=stored.file if stored is not None else None,
        size=stored.size if stored is not None else None,
        context=pin.context,
        last_used=used_ms,
        expires=expires,
        command=line if stored is not None else None,
    )


def _found(pin: Pin, config: Config, host: Host) -> tuple[StoredSession, int | None] | None:
    """The session on disk, and when it expires; None: it is not here, or its format is not known."""
    if not host.has(pin):
        return None
    try:
        agent = registry.get(pin.voice.agent, config)
    except SegueError:
        return None
    stored = (
        agent.format.find(Path(pin.home), pin.native_id, Path(pin.workdir.path))
        if agent.format is not None
        else None
    )
    archive = agent.archive()
    if stored is None or archive is None:
        return None
    return stored, archive.expires_ms(stored, archive.brief(stored))
