-- name: enqueue(id, request, not_before_ms, state)!
UPDATE turns SET request = :request, not_before_ms = :not_before_ms, state = :state WHERE id = :id;

-- name: ahead(run)
-- What stands in the line before a run, and who drives it.
SELECT q.state, q.owner
FROM turns AS q JOIN turns AS t ON t.id = :run AND q.conversation = t.conversation AND q.place < t.place
WHERE q.request IS NOT NULL AND q.state IN ('queued', 'parked')
ORDER BY q.place, q.started_ms, q.id;

-- name: of(id)^
SELECT id, conversation, message, state, request, place, not_before_ms, question, claims, started_ms, cancel_asked_ms, host
FROM turns WHERE id = :id;

-- name: line(conversation)
-- The runs of a conversation that wait, in their order.
SELECT id, conversation, message, state, request, place, not_before_ms, question, claims, started_ms, cancel_asked_ms, host
FROM turns
WHERE conversation = :conversation AND request IS NOT NULL AND state IN ('queued', 'parked')
ORDER BY place, started_ms, id;

-- name: lines()
-- The same of all conversations.
SELECT id, conversation, message, state, request, place, not_before_ms, question, claims, started_ms, cancel_asked_ms, host
FROM turns
WHERE request IS NOT NULL AND state IN ('queued', 'parked')
ORDER BY conversation, place, started_ms, id;

-- name: begun()
-- The runs of all conversations that have begun and are not settled.
SELECT id, conversation, message, state, request, place, not_before_ms, question, claims, started_ms, cancel_asked_ms, host
FROM turns WHERE state IN ('running', 'needs_you')
ORDER BY conversation, started_ms, id;

-- name: give_place(id, place)!
UPDATE turns SET place = :place WHERE id = :id AND request IS NOT NULL AND state IN ('queued', 'parked');

-- name: change(id, request)!
UPDATE turns SET request = :request WHERE id = :id AND request IS NOT NULL AND state IN ('queued', 'parked');

-- name: own(id, owner)!
-- Another process drives it from now on.
UPDATE turns SET owner = :owner WHERE id = :id AND state IN ('queued', 'parked');

-- name: wake(id, not_before_ms)!
-- Only if it is still parked until the time that the caller knows.
UPDATE turns SET state = 'queued', not_before_ms = NULL
WHERE id = :id AND state = 'parked' AND not_before_ms = :not_before_ms;

-- name: back(id)!
-- It was begun, and its process died before an attempt was planned.
UPDATE turns SET state = 'queued', claims = claims + 1
WHERE id = :id AND state = 'running' AND request IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM attempts AS a WHERE a.turn = turns.id);

-- name: ask(id, question)!
UPDATE turns SET state = 'needs_you', question = :question WHERE id = :id AND state IN ('running', 'needs_you');

-- name: answered(id, question)!
-- Only once: whoever comes second finds another question, or none.
UPDATE turns SET state = 'running', question = NULL
WHERE id = :id AND state = 'needs_you' AND question = :question;
