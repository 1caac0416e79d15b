-- name: raise_epoch(conversation, agent, role)!
INSERT INTO epochs (conversation, agent, role, epoch) VALUES (:conversation, :agent, :role, 1)
ON CONFLICT (conversation, agent, role) DO UPDATE SET epoch = epochs.epoch + 1;

-- name: set_epoch(conversation, agent, role, epoch)!
INSERT INTO epochs (conversation, agent, role, epoch) VALUES (:conversation, :agent, :role, :epoch);

-- name: epochs(conversation)
SELECT agent, role, epoch FROM epochs WHERE conversation = :conversation ORDER BY agent, role;

-- name: descend(child, parent, kind, session, parent_session, ms)!
INSERT INTO lineage (child, parent, kind, session, parent_session, ms)
VALUES (:child, :parent, :kind, :session, :parent_session, :ms)
ON CONFLICT (child, kind, session) DO NOTHING;

-- name: lineage(conversation)
SELECT l.child, l.parent, l.kind, l.session, l.parent_session, l.ms
FROM lineage AS l JOIN turns AS t ON t.id = l.child
WHERE t.conversation = :conversation
ORDER BY l.ms, l.child, l.kind;
