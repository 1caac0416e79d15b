"""Which turn came out of which, and which conversations came out of another."""

from __future__ import annotations

from segue.app.conversation_shapes import ConversationLineage, TurnChild, TurnLineage, TurnParent
from segue.app.workspace import Workspace
from segue.store.reading import RunRow
from segue.store.records import Descent


def lineage(workspace: Workspace, key: str) -> ConversationLineage:
    conversation, store = workspace.conversation(key), workspace.store
    parents: dict[str, list[Descent]] = {}
    for each in store.descents(conversation.id):
        parents.setdefault(each.run, []).append(each)
    return ConversationLineage(
        turns=tuple(_turn(run, parents.get(run.id, [])) for run in store.reading.runs(conversation.id)),
        children=tuple(
            TurnChild(kind=each.kind, run=each.run, conversation=each.key, parent=each.parent)
            for each in store.reading.children(conversation)
        ),
    )


def _turn(run: RunRow, parents: list[Descent]) -> TurnLineage:
    return TurnLineage(
        run=run.id,
        message=run.message,
        agent=run.voice.agent,
        role=run.voice.role or None,
        mode=run.mode,
        state=run.state,
        created=run.ms,
        session=next((each.session for each in parents if each.session), None),
        parents=tuple(map(_parent, parents)),
        n=run.n,
        model=run.model,
        account=run.account or None,
        cost_usd=run.cost_usd,
        cost_estimated=run.cost_estimated,
        duration_ms=run.duration_ms,
        retry_of=run.retry_of,
        stands=run.stands,
    )


def _parent(descent: Descent) -> TurnParent:
    return TurnParent(
        kind=descent.kind,
        run=descent.parent,
        conversation=descent.parent_key,
        session=descent.parent_session,
    )
