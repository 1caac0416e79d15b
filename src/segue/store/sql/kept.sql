-- name: find(agent, account, native_id)^
SELECT agent, account, native_id, conversation, host, home, cwd, size, packed, garbage, version, kept_ms, used_ms,
    manifest, host_id
FROM kept WHERE agent = :agent AND account = :account AND native_id = :native_id;

-- name: every()
SELECT agent, account, native_id, conversation, host, home, cwd, size, packed, garbage, version, kept_ms, used_ms,
    manifest, host_id
FROM kept ORDER BY used_ms DESC, agent, native_id;

-- name: add(agent, account, native_id, conversation, host, home, cwd, size, packed, garbage, version, kept_ms, used_ms, manifest, host_id)!
-- Nothing for a conversation that was forgotten meanwhile.
INSERT INTO kept
    (agent, account, native_id, conversation, host, home, cwd, size, packed, garbage, version, kept_ms, used_ms,
    manifest, host_id)
SELECT
    :agent, :account, :native_id, id, :host, :home, :cwd, :size, :packed, :garbage, :version, :kept_ms, :used_ms,
    :manifest, :host_id
FROM conversations WHERE id = :conversation
ON CONFLICT (agent, account, native_id) DO NOTHING;

-- name: change(agent, account, native_id, conversation, host, home, cwd, size, packed, garbage, version, kept_ms, used_ms, manifest, host_id, seen)!
-- Nothing, if it is not the one that was seen.
UPDATE kept SET conversation = :conversation, host = :host, home = :home, cwd = :cwd, size = :size,
    packed = :packed, garbage = :garbage, version = :version, kept_ms = :kept_ms, used_ms = :used_ms,
    manifest = :manifest, host_id = :host_id
WHERE agent = :agent AND account = :account AND native_id = :native_id AND version = :seen;

-- name: drop(agent, account, native_id, seen)!
-- Not if somebody renewed it meanwhile.
DELETE FROM kept
WHERE agent = :agent AND account = :account AND native_id = :native_id AND version = :seen;

-- name: forget(conversation)!
-- What the conversation kept or would go on with, and no other one would.
DELETE FROM kept
WHERE (
    conversation = :conversation OR EXISTS (
        SELECT 1 FROM sessions AS s JOIN pins AS p ON p.session = s.id
        WHERE s.native_id = kept.native_id AND p.agent = kept.agent AND p.account = kept.account
            AND p.conversation = :conversation
    )
) AND NOT EXISTS (
    SELECT 1 FROM sessions AS s JOIN pins AS p ON p.session = s.id
    WHERE s.native_id = kept.native_id AND p.agent = kept.agent AND p.account = kept.account
        AND p.conversation <> :conversation
);

-- name: hand_on(conversation)!
-- What the conversation kept is now of another one that would go on with it.
UPDATE kept SET conversation = COALESCE((
    SELECT p.conversation FROM sessions AS s JOIN pins AS p ON p.session = s.id
    WHERE s.native_id = kept.native_id AND p.agent = kept.agent AND p.account = kept.account
        AND p.conversation <> :conversation
    ORDER BY p.succeeded_ms DESC, p.conversation LIMIT 1
), conversation)
WHERE conversation = :conversation;

-- name: totals()^
SELECT COALESCE(SUM(packed), 0), COALESCE(SUM(garbage), 0), MIN(used_ms) FROM kept;

-- name: oldest_first(before_ms, recent_ms)
-- First those that no conversation would go on with. (A turn pins its session just after it was kept.)
SELECT agent, account, native_id, version, packed, used_ms, needed
FROM (
    SELECT agent, account, native_id, version, packed, used_ms,
        CASE WHEN used_ms >= :recent_ms OR EXISTS (
            SELECT 1 FROM sessions AS s JOIN pins AS p ON p.session = s.id
            WHERE s.native_id = kept.native_id AND p.agent = kept.agent AND p.account = kept.account
        ) THEN 1 ELSE 0 END AS needed
    FROM kept WHERE used_ms < :before_ms
) AS found
ORDER BY needed, used_ms, native_id;

-- name: manifests()
SELECT manifest FROM kept;

-- name: no_garbage()!
UPDATE kept SET garbage = 0 WHERE garbage > 0;

-- name: use_chunk(name, packed)!
-- The server's clock tells the ages of pieces: those of the hosts may differ.
UPDATE kept_chunks SET used_ms = CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)
WHERE name = :name AND length(data) >= :packed;

-- name: chunks_there(ids)
SELECT name, length(data) FROM kept_chunks WHERE name IN (:ids);

-- name: put_chunk(name, data)!
INSERT INTO kept_chunks (name, data, used_ms)
VALUES (:name, :data, CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT))
ON CONFLICT (name) DO UPDATE SET data = excluded.data, used_ms = excluded.used_ms;

-- name: chunk(name)^
SELECT data FROM kept_chunks WHERE name = :name;

-- name: delete_chunk(name, unused_ms)!
DELETE FROM kept_chunks
WHERE name = :name
    AND used_ms < CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) - :unused_ms;

-- name: chunk_sizes()
SELECT name, length(data) FROM kept_chunks;
