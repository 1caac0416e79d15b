-- name: find(conversation, key, since_ms)^
SELECT run, body FROM receipts WHERE conversation = :conversation AND key = :key AND ms >= :since_ms;

-- name: keep(conversation, key, run, body, ms, since_ms)^
-- Returns a row if it is kept. Nothing is changed if the key belongs to another run. One that was used long ago is free.
INSERT INTO receipts (conversation, key, run, body, ms) VALUES (:conversation, :key, :run, :body, :ms)
ON CONFLICT (conversation, key) DO UPDATE SET run = excluded.run, body = excluded.body, ms = excluded.ms
WHERE receipts.ms < :since_ms
RETURNING run;

-- name: pass_on(conversation, key, run, failed)!
-- The run failed, and the same call tries again.
UPDATE receipts SET run = :run WHERE conversation = :conversation AND key = :key AND run = :failed;

-- name: drop(before_ms)!
DELETE FROM receipts WHERE ms < :before_ms;
