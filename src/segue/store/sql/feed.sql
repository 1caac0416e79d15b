-- name: after(seq, count)
SELECT f.seq, f.kind, f.conversation, f.run, f.item, f.ms, e.event
FROM feed AS f LEFT JOIN events AS e ON e.turn = f.run AND e.seq = CASE WHEN f.kind = 'event' THEN CAST(f.item AS INTEGER) END
WHERE f.seq > :seq ORDER BY f.seq LIMIT :count;

-- name: of_run(seq, run, count)
SELECT f.seq, f.kind, f.conversation, f.run, f.item, f.ms, e.event
FROM feed AS f LEFT JOIN events AS e ON e.turn = f.run AND e.seq = CASE WHEN f.kind = 'event' THEN CAST(f.item AS INTEGER) END
WHERE f.seq > :seq AND f.run = :run ORDER BY f.seq LIMIT :count;

-- name: before_feed(run)
SELECT seq, ms, event FROM events
WHERE turn = :run AND CAST(seq AS TEXT) NOT IN (SELECT item FROM feed WHERE run = :run AND kind = 'event')
ORDER BY seq;

-- name: bounds()^
-- The oldest number that is still there, and the newest one that was given.
SELECT (SELECT MIN(seq) FROM feed), COALESCE((SELECT n FROM counters WHERE name = 'feed'), 0);

-- name: named()^
-- When the feed began.
SELECT applied_ms FROM segue_migrations WHERE name = 'daemon';

-- name: forget(before_ms)!
DELETE FROM feed WHERE ms < :before_ms;

-- name: last_of_run(run)^
-- The newest change of a run's state.
SELECT MAX(seq) FROM feed WHERE run = :run AND kind = 'run';
