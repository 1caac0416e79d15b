-- name: runs_of_session(session)
-- The turns that wrote to a native session, or continued it.
SELECT DISTINCT turn FROM attempts WHERE native_id = :session OR resumed_from = :session ORDER BY turn;

-- name: runs_of_conversation(conversation)
SELECT id FROM turns WHERE conversation = :conversation ORDER BY started_ms, id;

-- name: chain(ids)
-- From these turns up to where they began, and from there down to everything that came out of it. UNION keeps each turn
-- once, so a cycle ends the walk.
WITH RECURSIVE ways (n) AS (SELECT 1 UNION ALL SELECT 2),
above (id) AS (
    SELECT id FROM turns WHERE id IN (:ids)
    UNION
    SELECT CASE w.n WHEN 1 THEN l.parent ELSE t.retry_of END
    FROM above AS a
    JOIN turns AS t ON t.id = a.id
    CROSS JOIN ways AS w
    LEFT JOIN lineage AS l ON w.n = 1 AND l.child = t.id
    WHERE CASE w.n WHEN 1 THEN l.parent ELSE t.retry_of END IS NOT NULL
),
all_of (id) AS (
    SELECT id FROM above
    UNION
    SELECT CASE w.n WHEN 1 THEN l.child ELSE r.id END
    FROM all_of AS a
    CROSS JOIN ways AS w
    LEFT JOIN lineage AS l ON w.n = 1 AND l.parent = a.id
    LEFT JOIN turns AS r ON w.n = 2 AND r.retry_of = a.id
    WHERE CASE w.n WHEN 1 THEN l.child ELSE r.id END IS NOT NULL
)
SELECT t.id, c.key, t.flow, t.step, t.role, t.tier, t.agent, t.model, t.mode, t.state, t.retry_of, t.input, t.cache_read,
    t.cache_write, t.output, t.cost_usd, t.cost_estimated, t.started_ms, t.told
FROM all_of AS a JOIN turns AS t ON t.id = a.id JOIN conversations AS c ON c.id = t.conversation
ORDER BY t.started_ms, t.id;

-- name: parents(ids)
SELECT child, parent, kind FROM lineage WHERE child IN (:ids) AND parent IS NOT NULL ORDER BY ms, child, kind;
