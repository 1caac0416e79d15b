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

-- name: descents(conversation)
-- A turn that was parked may have been noted twice: without a session at first.
SELECT l.child, l.kind, l.parent, c.key, t.agent, t.role, s.native_id, o.native_id, l.ms
FROM lineage AS l
JOIN turns AS t ON t.id = l.child
LEFT JOIN turns AS p ON p.id = l.parent
LEFT JOIN conversations AS c ON c.id = p.conversation
LEFT JOIN sessions AS s ON s.id = l.session
LEFT JOIN sessions AS o ON o.id = l.parent_session
WHERE t.conversation = :conversation AND NOT (l.session = '' AND EXISTS (
    SELECT 1 FROM lineage AS m
    WHERE m.child = l.child AND m.kind = l.kind AND m.parent = l.parent AND m.session <> ''
))
ORDER BY l.ms, l.child, l.kind;

-- name: forks(conversation, key, created_ms)
-- The forks of a conversation: the key of each, its first turn that went on in a shared session, and the turn that it
-- begins after. An older conversation of the same key had forks of its own.
SELECT c.key, (
    SELECT l.child FROM lineage AS l JOIN turns AS t ON t.id = l.child
    WHERE t.conversation = c.id AND l.kind = 'fork' AND l.parent_session IS NOT NULL ORDER BY l.ms, l.child LIMIT 1
), (
    SELECT t.id FROM turns AS t
    WHERE t.conversation = :conversation AND (t.answer = c.forked_at OR t.message = c.forked_at)
    ORDER BY t.started_ms DESC, t.id DESC LIMIT 1
)
FROM conversations AS c WHERE c.forked_from = :key AND c.created_ms >= :created_ms
ORDER BY c.created_ms, c.id;

-- name: adoptions(conversation)
-- The other conversations that took over a session of this one, and the first turn of each that went on in it.
SELECT c.key, (
    SELECT l.child FROM lineage AS l WHERE l.parent_session = s.id ORDER BY l.ms, l.child LIMIT 1
)
FROM sessions AS s JOIN conversations AS c ON c.id = s.conversation
WHERE s.how = 'adopt' AND s.conversation <> :conversation AND EXISTS (
    SELECT 1 FROM sessions AS o
    WHERE o.native_id = s.native_id AND o.agent = s.agent AND o.conversation = :conversation
        AND o.created_ms < s.created_ms
)
ORDER BY s.created_ms, s.id;

-- name: left_by(session, seq, run)^
-- The turn that a session holds a message of: its answer, or what was asked in one that was interrupted.
SELECT t.id
FROM held AS h JOIN turns AS t ON t.answer = h.message OR t.message = h.message
WHERE h.session = :session AND h.seq = :seq AND t.id <> :run AND t.state NOT IN ('queued', 'running', 'needs_you', 'parked', 'withdrawn')
ORDER BY t.started_ms DESC, t.id DESC LIMIT 1;

-- name: before(run)^
-- The turn of the last message before that of a run that stands; and what tells whether it began anew, or in a fork.
SELECT m.facts, r.flow, c.forked_at, c.id, t.id, t.agent, t.account
FROM turns AS r
JOIN messages AS m ON m.id = r.message
JOIN conversations AS c ON c.id = r.conversation
LEFT JOIN turns AS t ON t.id = (
    SELECT o.id FROM messages AS e JOIN turns AS o ON o.message = e.id
    WHERE e.conversation = m.conversation AND e.place < m.place AND e.removed_ms IS NULL
        AND o.via <> 'fork' AND o.state NOT IN ('queued', 'withdrawn')
    ORDER BY e.place DESC, CASE o.state WHEN 'done' THEN 0 ELSE 1 END, o.started_ms DESC, o.id DESC LIMIT 1
)
WHERE r.id = :run;

-- name: fork_point(conversation)^
-- The turn of the message at which a conversation was forked. That may be a copy in a fork, too.
WITH RECURSIVE origin (message) AS (
    SELECT forked_at FROM conversations WHERE id = :conversation
    UNION
    SELECT c.forked_at
    FROM origin AS o JOIN messages AS m ON m.id = o.message JOIN conversations AS c ON c.id = m.conversation
)
SELECT t.id, t.agent, t.account
FROM origin AS o JOIN turns AS t ON t.answer = o.message OR t.message = o.message
WHERE t.via <> 'fork' AND t.state NOT IN ('queued', 'withdrawn')
ORDER BY t.started_ms DESC, t.id DESC LIMIT 1;

-- name: changed(id, conversation, kind, message, revision, facts, removed, last_place, run, ms)!
INSERT INTO changes (id, conversation, kind, message, revision, facts, removed, last_place, run, ms)
VALUES (:id, :conversation, :kind, :message, :revision, :facts, :removed, :last_place, :run, :ms);

-- name: last_change(conversation)^
SELECT id, kind, message, revision, facts, removed, last_place, run, ms
FROM changes WHERE conversation = :conversation AND undone_ms IS NULL
ORDER BY ms DESC, id DESC LIMIT 1;

-- name: undone(id, now_ms)!
UPDATE changes SET undone_ms = :now_ms WHERE id = :id;
