-- name: now()^
SELECT now_ms();

-- name: find(name)^
SELECT name, token, generation, owner, process_group, taken_ms, renewed_ms, now_ms() - renewed_ms
FROM leases WHERE name = :name;

-- name: next_generation()!
INSERT INTO counters (name, n) VALUES ('lease', 1) ON CONFLICT (name) DO UPDATE SET n = counters.n + 1;

-- name: take(name, token, owner)!
INSERT INTO leases (name, token, generation, owner, process_group, taken_ms, renewed_ms)
SELECT :name, :token, n, :owner, NULL, now_ms(), now_ms() FROM counters WHERE name = 'lease'
ON CONFLICT (name) DO NOTHING;

-- name: take_over(name, token, owner, seen_token, seen_ms)!
-- Only from the row that was judged: whoever renewed it meanwhile is alive. The group that was noted stays
-- until another is, so that a second crash does not hide it.
UPDATE leases
SET token = :token, generation = (SELECT n FROM counters WHERE name = 'lease'), owner = :owner,
    taken_ms = now_ms(), renewed_ms = now_ms()
WHERE name = :name AND token = :seen_token AND renewed_ms = :seen_ms;

-- name: renew(name, token, generation)^
UPDATE leases SET renewed_ms = now_ms() WHERE name = :name AND token = :token AND generation = :generation
RETURNING generation;

-- name: note_group(name, token, generation, process_group)^
UPDATE leases SET process_group = :process_group
WHERE name = :name AND token = :token AND generation = :generation
RETURNING generation;

-- name: release(name, token, generation)^
DELETE FROM leases WHERE name = :name AND token = :token AND generation = :generation
RETURNING generation;

-- name: drop(name)!
DELETE FROM leases WHERE name = :name;
