-- name: waiting()
-- Per conversation: how many runs wait, and until when the first parked one does. (The index of what is not settled is
-- used if its condition is repeated.)
SELECT t.conversation, COUNT(*), (
    SELECT p.not_before_ms FROM turns AS p
    WHERE p.conversation = t.conversation AND p.state IN ('queued', 'running', 'needs_you', 'parked')
        AND p.state = 'parked' AND p.not_before_ms IS NOT NULL
    ORDER BY p.place, p.started_ms, p.id LIMIT 1
)
FROM turns AS t
WHERE t.state IN ('queued', 'running', 'needs_you', 'parked') AND t.state IN ('queued', 'parked') AND t.request IS NOT NULL
GROUP BY t.conversation;

-- name: waiting_in(conversation)
SELECT t.conversation, COUNT(*), (
    SELECT p.not_before_ms FROM turns AS p
    WHERE p.conversation = t.conversation AND p.state IN ('queued', 'running', 'needs_you', 'parked')
        AND p.state = 'parked' AND p.not_before_ms IS NOT NULL
    ORDER BY p.place, p.started_ms, p.id LIMIT 1
)
FROM turns AS t
WHERE t.conversation = :conversation AND t.state IN ('queued', 'running', 'needs_you', 'parked')
    AND t.state IN ('queued', 'parked') AND t.request IS NOT NULL
GROUP BY t.conversation;

-- name: newest()
-- What was reported of each conversation's newest turn that had begun.
SELECT c.id, (
    SELECT t.told FROM turns AS t
    WHERE t.conversation = c.id AND t.state NOT IN ('withdrawn', 'queued', 'parked') AND t.via <> 'fork'
    ORDER BY t.started_ms DESC, t.id DESC LIMIT 1
)
FROM conversations AS c;

-- name: newest_in(conversation)
SELECT c.id, (
    SELECT t.told FROM turns AS t
    WHERE t.conversation = c.id AND t.state NOT IN ('withdrawn', 'queued', 'parked') AND t.via <> 'fork'
    ORDER BY t.started_ms DESC, t.id DESC LIMIT 1
)
FROM conversations AS c WHERE c.id = :conversation;

-- name: loaded(ids)
-- The newest report of each conversation that says how full the context was.
SELECT c.id, (
    SELECT t.told FROM turns AS t
    WHERE t.conversation = c.id AND t.via <> 'fork'
        AND length(t.told) = length(replace(t.told, '"context":{"used":null', ''))
    ORDER BY t.started_ms DESC, t.id DESC LIMIT 1
)
FROM conversations AS c WHERE c.id IN (:ids);
