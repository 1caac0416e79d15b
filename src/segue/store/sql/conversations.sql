-- name: create(id, key, agent, account, model, role, cwd, title, created_ms, updated_ms, forked_from, forked_at)!
-- Whoever comes first has the key; the second writes nothing.
INSERT INTO conversations
    (id, key, agent, account, model, role, cwd, title, created_ms, updated_ms, forked_from, forked_at)
VALUES
    (:id, :key, :agent, :account, :model, :role, :cwd, :title, :created_ms, :updated_ms, :forked_from, :forked_at)
ON CONFLICT (key) DO NOTHING;

-- name: by_key(key)^
SELECT id, key, agent, account, model, role, cwd, title, created_ms, updated_ms, forked_from, forked_at
FROM conversations WHERE key = :key;

-- name: by_id(id)^
SELECT id, key, agent, account, model, role, cwd, title, created_ms, updated_ms, forked_from, forked_at
FROM conversations WHERE id = :id;

-- name: every()
SELECT id, key, agent, account, model, role, cwd, title, created_ms, updated_ms, forked_from, forked_at
FROM conversations;

-- name: keys_like(prefix, length)
SELECT key FROM conversations WHERE substr(key, 1, :length) = :prefix;

-- name: touch(id, now_ms)!
-- Also what makes writers of one conversation wait for each other.
UPDATE conversations
SET updated_ms = CASE WHEN updated_ms < :now_ms THEN :now_ms ELSE updated_ms END
WHERE id = :id;

-- name: rewrite(id)!
-- Something that was said reads otherwise now, or stands no longer.
UPDATE conversations SET rewrites = rewrites + 1 WHERE id = :id;

-- name: rewrites(id)^
SELECT rewrites FROM conversations WHERE id = :id;

-- name: remember(id, agent, account, model, role, cwd)!
UPDATE conversations
SET agent = :agent, account = :account, model = :model, role = :role, cwd = :cwd
WHERE id = :id;

-- name: remove(id)!
DELETE FROM conversations WHERE id = :id;

-- name: message_counts()
-- Per conversation and kind of message: how many stand, and where the first of them is.
SELECT conversation, facts, COUNT(*), MIN(place)
FROM messages WHERE removed_ms IS NULL AND place IS NOT NULL
GROUP BY conversation, facts;

-- name: beginnings(length)
-- The first words of the first message that stands, per conversation and kind of message.
SELECT m.conversation, m.facts, substr(r.text, 1, :length)
FROM messages AS m
JOIN (
    SELECT conversation, facts, MIN(place) AS place
    FROM messages WHERE removed_ms IS NULL AND place IS NOT NULL
    GROUP BY conversation, facts
) AS f ON f.conversation = m.conversation AND f.place = m.place
JOIN revisions AS r ON r.message = m.id AND r.revision = m.revision
ORDER BY m.place;

-- name: spent()
SELECT
    conversation,
    CAST(SUM(input) AS BIGINT), CAST(SUM(cache_read) AS BIGINT),
    CAST(SUM(cache_write) AS BIGINT), CAST(SUM(output) AS BIGINT),
    SUM(cost_usd), MAX(cost_estimated), SUM(saved_usd), MAX(COALESCE(ended_ms, started_ms)),
    MAX(CASE WHEN state = 'done' THEN ended_ms END)
FROM turns WHERE via <> 'fork' GROUP BY conversation;

-- name: newest_states()
-- The most urgent state of what is not finished, else that of the newest turn that had begun. A question that can be
-- answered needs the user, also if its run has ended.
SELECT conversation, state
FROM (
    SELECT conversation, state,
        ROW_NUMBER() OVER (
            PARTITION BY conversation
            ORDER BY
                CASE state WHEN 'needs_you' THEN 1 WHEN 'running' THEN 2 WHEN 'parked' THEN 3 WHEN 'queued' THEN 4
                    ELSE 5 END,
                started_ms DESC, id DESC
        ) AS back
    FROM (
        SELECT id, conversation, started_ms, CASE WHEN id IN (
            SELECT run FROM asked
        ) THEN 'needs_you' ELSE state END AS state
        FROM turns WHERE (state <> 'withdrawn' OR id IN (SELECT run FROM asked)) AND via <> 'fork'
    ) AS shown
) AS ranked
WHERE back = 1;

-- name: unfinished()
SELECT DISTINCT conversation FROM turns WHERE state IN ('queued', 'running', 'needs_you', 'parked');

-- name: grant(conversation, agent, role, granted)!
INSERT INTO postures (conversation, agent, role, granted) VALUES (:conversation, :agent, :role, :granted)
ON CONFLICT (conversation, agent, role) DO UPDATE SET granted = excluded.granted;

-- name: granted(conversation, agent, role)^
SELECT granted FROM postures WHERE conversation = :conversation AND agent = :agent AND role = :role;

-- name: all_granted(conversation)
SELECT agent, role, granted FROM postures WHERE conversation = :conversation;
