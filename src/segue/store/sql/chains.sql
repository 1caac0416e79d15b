-- name: runs_of_session(session)
-- The turns that wrote to a native session, or continued it.
SELECT DISTINCT turn FROM attempts WHERE native_id = :session OR resumed_from = :session ORDER BY turn;

-- name: runs_of_conversation(conversation)
-- Not those that a fork has copied.
SELECT id FROM turns WHERE conversation = :conversation AND via <> 'fork' ORDER BY started_ms, id;

-- name: chain(ids)
-- Everything that is connected with these turns: from each of them upwards and downwards, and so on. So it is the same
-- whichever of them it starts from. UNION keeps each turn once, so a cycle ends the walk.
WITH RECURSIVE ways (n) AS (SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4),
all_of (id) AS (
    SELECT id FROM turns WHERE id IN (:ids)
    UNION
    SELECT CASE w.n WHEN 1 THEN up.parent WHEN 2 THEN t.retry_of WHEN 3 THEN down.child ELSE r.id END
    FROM all_of AS a
    CROSS JOIN ways AS w
    LEFT JOIN lineage AS up ON w.n = 1 AND up.child = a.id
    LEFT JOIN turns AS t ON w.n = 2 AND t.id = a.id
    LEFT JOIN lineage AS down ON w.n = 3 AND down.parent = a.id
    LEFT JOIN turns AS r ON w.n = 4 AND r.retry_of = a.id
    WHERE CASE w.n WHEN 1 THEN up.parent WHEN 2 THEN t.retry_of WHEN 3 THEN down.child ELSE r.id END IS NOT NULL
)
SELECT t.id, c.key, t.flow, t.step, t.role, t.tier, t.agent, t.model, t.mode, t.state, t.retry_of, t.input, t.cache_read,
    t.cache_write, t.output, t.cost_usd, t.cost_estimated, t.started_ms, t.told
FROM all_of AS a JOIN turns AS t ON t.id = a.id JOIN conversations AS c ON c.id = t.conversation
ORDER BY t.started_ms, t.id;

-- name: parents(ids)
SELECT child, parent, kind FROM lineage WHERE child IN (:ids) AND parent IS NOT NULL
GROUP BY child, parent, kind ORDER BY MIN(ms), child, kind;
