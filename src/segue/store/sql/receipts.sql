-- name: find(conversation, key, since_ms)^
SELECT run, body FROM receipts WHERE conversation = :conversation AND key = :key AND ms >= :since_ms;

-- name: keep(conversation, key, run, body, ms)!
INSERT INTO receipts (conversation, key, run, body, ms) VALUES (:conversation, :key, :run, :body, :ms);

-- name: pass_on(conversation, key, run, failed)!
-- The run failed, and the same call tries again.
UPDATE receipts SET run = :run WHERE conversation = :conversation AND key = :key AND run = :failed;

-- name: drop(before_ms)!
DELETE FROM receipts WHERE ms < :before_ms;
