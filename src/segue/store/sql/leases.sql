-- name: find(name)^
SELECT name, token, owner, process_group, taken_ms, renewed_ms FROM leases WHERE name = :name;

-- name: take(name, token, owner, now_ms)!
INSERT INTO leases (name, token, owner, process_group, taken_ms, renewed_ms)
VALUES (:name, :token, :owner, NULL, :now_ms, :now_ms)
ON CONFLICT (name) DO NOTHING;

-- name: take_over(name, token, owner, now_ms, seen_token, seen_ms)!
-- Only from the row that was judged: whoever renewed it meanwhile is alive. The group that was noted stays
-- until another is, so that a second crash does not hide it.
UPDATE leases SET token = :token, owner = :owner, taken_ms = :now_ms, renewed_ms = :now_ms
WHERE name = :name AND token = :seen_token AND renewed_ms = :seen_ms;

-- name: renew(name, token, now_ms)!
UPDATE leases SET renewed_ms = :now_ms WHERE name = :name AND token = :token;

-- name: note_group(name, token, process_group)!
UPDATE leases SET process_group = :process_group WHERE name = :name AND token = :token;

-- name: release(name, token)!
DELETE FROM leases WHERE name = :name AND token = :token;
