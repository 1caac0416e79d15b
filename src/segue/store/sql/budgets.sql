-- name: spent_in(conversation, key)
-- What the turns of a conversation have cost, by voice; what is reserved for those that run, and how many of these have no
-- known price. Also what was spent under its key in conversations that were removed.
SELECT agent, role, COUNT(cost_usd), SUM(cost_usd),
    SUM(CASE WHEN state IN ('running', 'needs_you') THEN reserved_usd END),
    COUNT(CASE WHEN state IN ('running', 'needs_you') AND reserved_usd IS NULL THEN 1 END)
FROM turns
WHERE (conversation = :conversation OR counts_for = :key) AND via <> 'fork'
    AND (cost_usd IS NOT NULL OR state IN ('running', 'needs_you'))
GROUP BY agent, role
UNION ALL
SELECT agent, role, COUNT(*), SUM(usd), NULL, 0 FROM deleted_costs WHERE key = :key GROUP BY agent, role;

-- name: spent_by(flow, tier)
-- The same of a flow; of all its tiers, or of one.
SELECT agent, role, COUNT(cost_usd), SUM(cost_usd),
    SUM(CASE WHEN state IN ('running', 'needs_you') THEN reserved_usd END),
    COUNT(CASE WHEN state IN ('running', 'needs_you') AND reserved_usd IS NULL THEN 1 END)
FROM turns
WHERE flow = :flow AND (CAST(:tier AS INTEGER) IS NULL OR tier = :tier) AND via <> 'fork'
    AND (cost_usd IS NOT NULL OR state IN ('running', 'needs_you'))
GROUP BY agent, role
UNION ALL
SELECT agent, role, COUNT(*), SUM(usd), NULL, 0 FROM deleted_costs
WHERE flow = :flow AND (CAST(:tier AS INTEGER) IS NULL OR tier = :tier)
GROUP BY agent, role;

-- name: spent_since(since_ms)
-- The same of all conversations, by key and account: of the turns that have ended since then, or have not ended.
SELECT c.key, t.account, COUNT(*), SUM(t.cost_usd), NULL, 0
FROM turns AS t JOIN conversations AS c ON c.id = t.conversation
WHERE t.cost_usd IS NOT NULL AND t.ended_ms >= :since_ms AND t.via <> 'fork'
GROUP BY c.key, t.account
UNION ALL
SELECT c.key, t.account, COUNT(CASE WHEN t.ended_ms IS NULL THEN t.cost_usd END),
    SUM(CASE WHEN t.ended_ms IS NULL THEN t.cost_usd END),
    SUM(CASE WHEN t.state IN ('running', 'needs_you') THEN t.reserved_usd END),
    COUNT(CASE WHEN t.state IN ('running', 'needs_you') AND t.reserved_usd IS NULL THEN 1 END)
FROM turns AS t JOIN conversations AS c ON c.id = t.conversation
WHERE t.state IN ('queued', 'running', 'needs_you', 'parked')
    AND (t.cost_usd IS NOT NULL OR t.state IN ('running', 'needs_you'))
GROUP BY c.key, t.account
UNION ALL
SELECT key, account, COUNT(*), SUM(usd), NULL, 0 FROM deleted_costs WHERE ended_ms >= :since_ms GROUP BY key, account;

-- name: last_cost(conversation, agent, role)^
-- Of turns that answered: one that failed at once cost 0, and a reservation of 0 would let everything begin.
SELECT cost_usd FROM turns
WHERE conversation = :conversation AND agent = :agent AND role = :role AND state = 'done' AND cost_usd > 0
    AND via <> 'fork'
ORDER BY ended_ms DESC, id DESC LIMIT 1;

-- name: last_cost_of_voice(agent, role)^
SELECT cost_usd FROM turns
WHERE agent = :agent AND role = :role AND state = 'done' AND cost_usd > 0 AND via <> 'fork'
ORDER BY ended_ms DESC, id DESC LIMIT 1;

-- name: last_cost_of_agent(agent)^
SELECT cost_usd FROM turns
WHERE agent = :agent AND state = 'done' AND cost_usd > 0 AND via <> 'fork'
ORDER BY ended_ms DESC, id DESC LIMIT 1;

-- name: has_answered(agent)^
SELECT 1 FROM turns WHERE agent = :agent AND state = 'done' AND via <> 'fork' LIMIT 1;

-- name: reserved(id)^
SELECT reserved_usd FROM turns WHERE id = :id;

-- name: wait_for(id, budget)!
UPDATE turns SET waits = :budget WHERE id = :id AND state = 'queued' AND COALESCE(waits, '') <> :budget;

-- name: still_waits(id)^
SELECT state, cancel_asked_ms FROM turns WHERE id = :id;

-- name: in_front(id, budget)
-- The runs that wait for the same budget longer, the oldest first.
SELECT w.id FROM turns AS w JOIN turns AS t ON t.id = :id
WHERE w.waits = :budget AND w.state = 'queued' AND w.id <> t.id
    AND (w.started_ms < t.started_ms OR (w.started_ms = t.started_ms AND w.id < t.id))
ORDER BY w.started_ms, w.id;

-- name: reservations()^
-- Changes when a budget may cover more than before: something that runs has ended, or a budget was raised.
SELECT COUNT(*), COALESCE(SUM(reserved_usd), 0), (SELECT COALESCE(MAX(raised_ms), 0) FROM raised_budgets)
FROM turns WHERE state IN ('running', 'needs_you');

-- name: begun()
-- The runs that hold a reservation, in all conversations.
SELECT DISTINCT conversation FROM turns WHERE state IN ('running', 'needs_you');

-- name: keep_costs(conversation, key)!
-- Its turns are about to be deleted; what they cost is kept, under this key or the conversation's own.
INSERT INTO deleted_costs
    (run, key, agent, role, account, mode, agent_version, flow, tier, input, cache_read, cache_write, output, usd,
    estimated, started_ms, ended_ms)
SELECT t.id, COALESCE(CAST(:key AS TEXT), t.counts_for, c.key), t.agent, t.role, t.account, t.mode, t.agent_version, t.flow, t.tier,
    t.input, t.cache_read, t.cache_write, t.output, t.cost_usd, t.cost_estimated, t.started_ms,
    COALESCE(t.ended_ms, t.started_ms)
FROM turns AS t JOIN conversations AS c ON c.id = t.conversation
WHERE t.conversation = :conversation AND t.cost_usd IS NOT NULL AND t.via <> 'fork';

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
