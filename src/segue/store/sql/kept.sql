-- name: find(agent, account, native_id)^
SELECT agent, account, native_id, conversation, host, home, cwd, size, packed, garbage, version, kept_ms, used_ms,
    manifest
FROM kept WHERE agent = :agent AND account = :account AND native_id = :native_id;

-- name: every()
SELECT agent, account, native_id, conversation, host, home, cwd, size, packed, garbage, version, kept_ms, used_ms,
    manifest
FROM kept ORDER BY used_ms DESC, agent, native_id;

-- name: add(agent, account, native_id, conversation, host, home, cwd, size, packed, garbage, version, kept_ms, used_ms, manifest)!
INSERT INTO kept
    (agent, account, native_id, conversation, host, home, cwd, size, packed, garbage, version, kept_ms, used_ms,
    manifest)
VALUES
    (:agent, :account, :native_id, :conversation, :host, :home, :cwd, :size, :packed, :garbage, :version, :kept_ms,
    :used_ms, :manifest)
ON CONFLICT (agent, account, native_id) DO NOTHING;

-- name: change(agent, account, native_id, conversation, host, home, cwd, size, packed, garbage, version, kept_ms, used_ms, manifest, seen)!
-- Nothing, if it is not the one that was seen.
UPDATE kept SET conversation = :conversation, host = :host, home = :home, cwd = :cwd, size = :size,
    packed = :packed, garbage = :garbage, version = :version, kept_ms = :kept_ms, used_ms = :used_ms,
    manifest = :manifest
WHERE agent = :agent AND account = :account AND native_id = :native_id AND version = :seen;

-- name: drop(agent, account, native_id)!
DELETE FROM kept WHERE agent = :agent AND account = :account AND native_id = :native_id;

-- name: totals()^
SELECT COALESCE(SUM(packed), 0), COALESCE(SUM(garbage), 0), MIN(used_ms) FROM kept;

-- name: oldest_first()
SELECT agent, account, native_id, packed, used_ms FROM kept ORDER BY used_ms, native_id;

-- name: manifests()
SELECT manifest FROM kept;

-- name: no_garbage()!
UPDATE kept SET garbage = 0 WHERE garbage > 0;

-- name: use_chunk(name, now_ms)!
UPDATE kept_chunks SET used_ms = :now_ms WHERE name = :name;

-- name: put_chunk(name, data, now_ms)!
INSERT INTO kept_chunks (name, data, used_ms) VALUES (:name, :data, :now_ms)
ON CONFLICT (name) DO UPDATE SET data = excluded.data, used_ms = excluded.used_ms;

-- name: chunk(name)^
SELECT data FROM kept_chunks WHERE name = :name;

-- name: delete_chunk(name, before_ms)!
DELETE FROM kept_chunks WHERE name = :name AND used_ms < :before_ms;

-- name: chunk_sizes()
SELECT name, length(data) FROM kept_chunks;
