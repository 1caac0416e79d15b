-- name: enqueue(id, request, not_before_ms, state)!
UPDATE turns SET request = :request, not_before_ms = :not_before_ms, state = :state WHERE id = :id;

-- name: ahead(run)
-- What waits before a run. Places are given when runs are accepted, whoever drives them.
SELECT q.id, q.conversation, q.message, q.answer, q.agent, q.role, q.account, q.model, q.cwd, q.host, q.mode, q.state,
    q.told, q.owner, q.started_ms, q.ended_ms, q.predicted_usd, q.retry_of, q.via, q.held_by
FROM turns AS q JOIN turns AS t ON t.id = :run AND q.conversation = t.conversation AND q.place < t.place
WHERE q.state IN ('queued', 'parked')
ORDER BY q.place, q.started_ms, q.id;

-- name: of(id)^
SELECT id, conversation, message, state, request, place, not_before_ms, claims, started_ms, cancel_asked_ms, host, held_by,
    waits
FROM turns WHERE id = :id;

-- name: line(conversation)
-- The runs of a conversation that wait, in their order.
SELECT id, conversation, message, state, request, place, not_before_ms, claims, started_ms, cancel_asked_ms, host, held_by,
    waits
FROM turns
WHERE conversation = :conversation AND request IS NOT NULL AND state IN ('queued', 'parked')
ORDER BY place, started_ms, id;

-- name: lines()
-- The same of all conversations.
SELECT id, conversation, message, state, request, place, not_before_ms, claims, started_ms, cancel_asked_ms, host, held_by,
    waits
FROM turns
WHERE request IS NOT NULL AND state IN ('queued', 'parked')
ORDER BY conversation, place, started_ms, id;

-- name: begun()
-- The runs of all conversations that have begun and are not settled.
SELECT id, conversation, message, state, request, place, not_before_ms, claims, started_ms, cancel_asked_ms, host, held_by,
    waits
FROM turns WHERE state IN ('running', 'needs_you')
ORDER BY conversation, started_ms, id;

-- name: counts()
-- How many runs there are in each state that is not an end. What does not begin until somebody answers needs somebody.
SELECT CASE
        WHEN t.state IN ('queued', 'parked') AND EXISTS (SELECT 1 FROM questions AS q WHERE q.run = t.id AND q.state = 'open')
        THEN 'needs_you' ELSE t.state END AS shown,
    COUNT(*)
FROM turns AS t WHERE t.state IN ('queued', 'running', 'needs_you', 'parked')
GROUP BY shown ORDER BY shown;

-- name: give_place(id, place)!
UPDATE turns SET place = :place WHERE id = :id AND request IS NOT NULL AND state IN ('queued', 'parked');

-- name: change(id, request)!
UPDATE turns SET request = :request WHERE id = :id AND request IS NOT NULL AND state IN ('queued', 'parked');

-- name: own(id, owner)!
-- Another process drives it from now on.
UPDATE turns SET owner = :owner WHERE id = :id AND state IN ('queued', 'parked');

-- name: park(id, request, not_before_ms)!
-- It met a limit while it ran. From now on it outlives the process that ran it.
UPDATE turns SET state = 'parked', request = :request, not_before_ms = :not_before_ms, via = 'queue', ended_ms = NULL
WHERE id = :id;

-- name: put_off(id, until_ms)!
-- Others that wait for the same limit wait as long.
UPDATE turns SET not_before_ms = :until_ms
WHERE id IN (
    SELECT o.id FROM turns AS o JOIN turns AS t ON t.id = :id
    WHERE o.state = 'parked' AND o.told IS NOT NULL AND o.id <> t.id AND o.not_before_ms < :until_ms
        AND o.agent = t.agent AND o.account = t.account AND o.host = t.host
        AND COALESCE(o.model, '') = COALESCE(t.model, '')
);

-- name: limited(id)
-- The unsettled runs that met a limit of the same agent and account, on the same host. The oldest first.
SELECT o.id, o.conversation, o.message, o.answer, o.agent, o.role, o.account, o.model, o.cwd, o.host, o.mode, o.state,
    o.told, o.owner, o.started_ms, o.ended_ms, o.predicted_usd, o.retry_of, o.via
FROM turns AS o JOIN turns AS t ON t.id = :id
WHERE o.told IS NOT NULL AND o.state IN ('queued', 'running', 'needs_you', 'parked') AND o.id <> t.id
    AND o.agent = t.agent AND o.account = t.account AND o.host = t.host
ORDER BY o.started_ms, o.id;

-- name: hold(conversation, run)!
-- A run failed: what waits behind it waits until somebody lets it go on.
UPDATE turns SET held_by = :run
WHERE conversation = :conversation AND id <> :run AND request IS NOT NULL AND state IN ('queued', 'parked');

-- name: let_go(conversation)!
UPDATE turns SET held_by = NULL WHERE conversation = :conversation AND held_by IS NOT NULL;

-- name: put_right(conversation, run)!
-- The run that held up the others has succeeded in its retry.
UPDATE turns SET held_by = NULL WHERE conversation = :conversation AND held_by = :run;

-- name: wake(id, not_before_ms, via)!
-- Only if it is still parked until the time that the caller knows.
-- via: a process waits for it and runs it, whatever holds up the others. Unless it is 'queue', it leaves the queue.
UPDATE turns
SET state = 'queued', not_before_ms = NULL, via = COALESCE(CAST(:via AS TEXT), via),
    request = CASE WHEN COALESCE(CAST(:via AS TEXT), 'queue') = 'queue' THEN request END,
    held_by = CASE WHEN CAST(:via AS TEXT) IS NULL THEN held_by END
WHERE id = :id AND state = 'parked' AND not_before_ms = :not_before_ms;

-- name: back(id)!
-- It was begun, and its process died before an attempt was planned. Those from before it was parked do not count.
UPDATE turns SET state = 'queued', claims = claims + 1
WHERE id = :id AND state = 'running' AND request IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM attempts AS a WHERE a.turn = turns.id AND a.task <> '{}');

-- name: wait_for_user(id)!
-- It has to wait until somebody has given it what it needs.
UPDATE turns SET state = 'parked', not_before_ms = NULL WHERE id = :id AND state = 'queued';

-- name: parked_before(conversation)
-- What a limit has parked, and nothing was done for. What a flow does goes on by itself.
SELECT t.id FROM turns AS t JOIN messages AS m ON m.id = t.message
WHERE t.conversation = :conversation AND t.state = 'parked' AND t.told IS NOT NULL AND t.not_before_ms IS NOT NULL
    AND t.flow IS NULL AND m.place IS NULL
ORDER BY t.id;

-- name: park_for_answer(id)!
UPDATE turns SET not_before_ms = NULL WHERE id = :id AND state = 'parked' AND not_before_ms IS NOT NULL;

-- name: go_on_parked(id, state, until_ms)!
UPDATE turns SET state = :state, not_before_ms = CAST(:until_ms AS BIGINT)
WHERE id = :id AND state = 'parked' AND not_before_ms IS NULL;

-- name: stop_waiting(id)!
UPDATE turns SET state = 'queued' WHERE id = :id AND state = 'parked' AND not_before_ms IS NULL;
