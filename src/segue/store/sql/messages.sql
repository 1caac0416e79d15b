-- name: insert(id, conversation, place, facts, revision, size, created_ms)!
INSERT INTO messages (id, conversation, place, facts, revision, size, created_ms)
VALUES (:id, :conversation, :place, :facts, :revision, :size, :created_ms);

-- name: revise(message, revision, text, created_ms)!
INSERT INTO revisions (message, revision, text, created_ms) VALUES (:message, :revision, :text, :created_ms);

-- name: place(id)!
-- After all others, those that were removed included.
UPDATE messages
SET place = (
    SELECT COALESCE(MAX(o.place), 0) + 1 FROM messages AS o WHERE o.conversation = messages.conversation
)
WHERE id = :id AND place IS NULL;

-- name: unplace(id)!
-- It leaves the conversation until its run wakes.
UPDATE messages SET place = NULL WHERE id = :id;

-- name: address(id, facts)^
UPDATE messages SET facts = :facts WHERE id = :id RETURNING conversation;

-- name: standing(conversation)
SELECT id, facts, revision, size
FROM messages WHERE conversation = :conversation AND removed_ms IS NULL AND place IS NOT NULL
ORDER BY place;

-- name: whole(conversation)
SELECT m.id, m.facts, m.revision, m.size, m.created_ms, r.text, r.created_ms
FROM messages AS m
JOIN revisions AS r ON r.message = m.id AND r.revision = m.revision
WHERE m.conversation = :conversation AND m.removed_ms IS NULL AND m.place IS NOT NULL
ORDER BY m.place;

-- name: texts(ids)
SELECT m.id, r.text
FROM messages AS m
JOIN revisions AS r ON r.message = m.id AND r.revision = m.revision
WHERE m.id IN (:ids);

-- name: edit(id, size)^
-- A number that was used once and taken back is not used again for another text.
UPDATE messages
SET revision = (SELECT MAX(r.revision) + 1 FROM revisions AS r WHERE r.message = messages.id), size = :size
WHERE id = :id AND removed_ms IS NULL
RETURNING conversation, revision;

-- name: drop(id, conversation, now_ms)!
UPDATE messages SET removed_ms = :now_ms
WHERE id = :id AND conversation = :conversation AND removed_ms IS NULL;

-- name: remove_unplaced(id)!
DELETE FROM messages WHERE id = :id AND place IS NULL;

-- name: restore(id, conversation)!
UPDATE messages SET removed_ms = NULL WHERE id = :id AND conversation = :conversation;

-- name: revert(id, revision, facts)!
UPDATE messages SET revision = :revision, facts = :facts WHERE id = :id;

-- name: resize(id, size)!
UPDATE messages SET size = :size WHERE id = :id;

-- name: as_it_is(id)^
SELECT revision, facts FROM messages WHERE id = :id;

-- name: last_place(conversation)^
SELECT COALESCE(MAX(place), 0) FROM messages WHERE conversation = :conversation;

-- name: said_since(conversation, place)
SELECT id FROM messages WHERE conversation = :conversation AND place > :place;

-- name: withdrawn(conversation)
-- Messages that have no place: their turn waits, or never began.
SELECT m.id, m.facts, m.revision, m.size, m.created_ms, r.text, r.created_ms
FROM messages AS m
JOIN revisions AS r ON r.message = m.id AND r.revision = m.revision
WHERE m.conversation = :conversation AND m.place IS NULL
ORDER BY m.created_ms, m.id;

-- name: conversation_of(id)^
SELECT conversation FROM messages WHERE id = :id;

-- name: revisions(message)
SELECT revision, text, created_ms FROM revisions WHERE message = :message ORDER BY revision;

-- name: rewrite_unplaced(id, size)!
UPDATE messages SET size = :size WHERE id = :id AND place IS NULL;

-- name: rewrite_text(message, text)!
UPDATE revisions SET text = :text
WHERE message = :message AND EXISTS (SELECT 1 FROM messages AS m WHERE m.id = :message AND m.place IS NULL);
