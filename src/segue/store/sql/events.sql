-- name: record(turn, seq, ms, event)!
-- What is recorded stays: whoever reads a stream again says the same.
INSERT INTO events (turn, seq, ms, event) VALUES (:turn, :seq, :ms, :event)
ON CONFLICT (turn, seq) DO NOTHING;

-- name: after(turn, seq)
SELECT seq, ms, event FROM events WHERE turn = :turn AND seq > :seq ORDER BY seq;

-- name: one(turn, seq)^
SELECT ms, event FROM events WHERE turn = :turn AND seq = :seq;

-- name: last_of(ids)
-- The events of these turns without those about usage, each with its place from the end, and how many there are.
SELECT turn, seq, ms, event,
    ROW_NUMBER() OVER (PARTITION BY turn ORDER BY seq DESC), COUNT(*) OVER (PARTITION BY turn)
FROM events WHERE turn IN (:ids) AND substr(event, 1, 15) <> '{"type":"usage"';

-- name: of_tools(ids)
-- What the tools did in the turns that gave these answers.
SELECT t.answer, e.event
FROM turns AS t JOIN events AS e ON e.turn = t.id
WHERE t.answer IN (:ids) AND substr(e.event, 1, 14) = '{"type":"tool-'
ORDER BY t.answer, e.seq;

-- name: forget(before_ms, count)!
-- Of turns that are over: what their tools did stays, for it is shown to other voices.
DELETE FROM events WHERE (turn, seq) IN (
    SELECT e.turn, e.seq FROM events AS e JOIN turns AS t ON t.id = e.turn
    WHERE e.ms < :before_ms AND substr(e.event, 1, 14) <> '{"type":"tool-' AND t.state NOT IN ('queued', 'running', 'needs_you', 'parked')
    LIMIT :count
);

-- name: switch_off(runtime, capability, reason, ms)!
INSERT INTO switched_off (runtime, capability, reason, ms) VALUES (:runtime, :capability, :reason, :ms)
ON CONFLICT (runtime, capability) DO UPDATE SET reason = excluded.reason, ms = excluded.ms;

-- name: switched_off(runtime)
SELECT capability, reason FROM switched_off WHERE runtime = :runtime ORDER BY capability;

-- name: copy_tools(turn, old)!
INSERT INTO events (turn, seq, ms, event)
SELECT CAST(:turn AS TEXT), seq, ms, event
FROM events WHERE turn = :old AND substr(event, 1, 14) = '{"type":"tool-';
