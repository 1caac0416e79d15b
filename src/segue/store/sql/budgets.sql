-- name: spent_in(conversation)
-- What each turn of a conversation has cost, and what those that run are expected to cost.
SELECT agent, role, cost_usd, CASE WHEN state IN ('running', 'needs_you') THEN predicted_usd END
FROM turns
WHERE conversation = :conversation AND via <> 'fork'
    AND (cost_usd IS NOT NULL OR state IN ('running', 'needs_you'));

-- name: spent_by(flow, tier)
-- The same of a flow; of all its tiers, or of one.
SELECT agent, role, cost_usd, CASE WHEN state IN ('running', 'needs_you') THEN predicted_usd END
FROM turns
WHERE flow = :flow AND (CAST(:tier AS INTEGER) IS NULL OR tier = :tier)
    AND (cost_usd IS NOT NULL OR state IN ('running', 'needs_you'));

-- name: spent_since(since_ms)
-- The turns of all conversations that have ended since then.
SELECT c.key, t.account, t.cost_usd, NULL
FROM turns AS t JOIN conversations AS c ON c.id = t.conversation
WHERE t.cost_usd IS NOT NULL AND t.ended_ms >= :since_ms AND t.via <> 'fork';

-- name: not_ended()
-- The same of those that have not ended: what they cost until they were parked, and what they are expected to cost.
SELECT c.key, t.account, t.cost_usd, CASE WHEN t.state IN ('running', 'needs_you') THEN t.predicted_usd END
FROM turns AS t JOIN conversations AS c ON c.id = t.conversation
WHERE t.state IN ('queued', 'running', 'needs_you', 'parked')
    AND (t.cost_usd IS NOT NULL OR t.state IN ('running', 'needs_you'));

-- name: summaries_of(conversation)
-- What the summaries cost that were written for a conversation. Their own turns are deleted.
SELECT from_agent, '', cost_usd, NULL FROM carries WHERE conversation = :conversation AND cost_usd IS NOT NULL;

-- name: summaries_since(since_ms)
SELECT conversation, from_account, cost_usd, NULL FROM carries WHERE at_ms >= :since_ms AND cost_usd IS NOT NULL;

-- name: last_cost(conversation, agent, role)^
SELECT cost_usd FROM turns
WHERE conversation = :conversation AND agent = :agent AND role = :role AND cost_usd IS NOT NULL AND via <> 'fork'
ORDER BY started_ms DESC, id DESC LIMIT 1;

-- name: last_cost_anywhere(agent, role)^
SELECT cost_usd FROM turns
WHERE agent = :agent AND role = :role AND cost_usd IS NOT NULL AND via <> 'fork'
ORDER BY ended_ms DESC, id DESC LIMIT 1;

-- name: raised(scope, name, day)^
SELECT usd FROM raised_budgets WHERE scope = :scope AND name = :name AND day = :day;

-- name: raise_to(scope, name, day, usd, conversation, raised_ms)!
-- A budget is never lowered by an answer to an older question.
INSERT INTO raised_budgets (scope, name, day, usd, conversation, raised_ms)
VALUES (:scope, :name, :day, :usd, :conversation, :raised_ms)
ON CONFLICT (scope, name, day) DO UPDATE SET usd = excluded.usd, raised_ms = excluded.raised_ms
WHERE excluded.usd > raised_budgets.usd;

-- name: ask_afterwards(run, id, question, request, asked_ms)!
-- The run never began. Who answers runs it once more.
INSERT INTO questions (run, id, conversation, question, state, request, asked_ms)
SELECT t.id, CAST(:id AS TEXT), t.conversation, CAST(:question AS TEXT), 'lapsed', CAST(:request AS TEXT),
    CAST(:asked_ms AS BIGINT)
FROM turns AS t WHERE t.id = :run AND t.state = 'withdrawn'
ON CONFLICT (run, id) DO UPDATE SET state = 'lapsed', question = excluded.question, request = excluded.request,
    answer = NULL;

-- name: keep_request(run, id, request)!
UPDATE questions SET request = :request WHERE run = :run AND id = :id;

-- name: drop_earlier(conversation)!
-- Only the last message is asked about.
UPDATE questions SET state = 'over' WHERE conversation = :conversation AND state = 'lapsed' AND request IS NOT NULL;

-- name: request_of(run, id)^
SELECT request FROM questions WHERE run = :run AND id = :id;
