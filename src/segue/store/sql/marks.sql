-- name: of_flow(flow, run)
-- Of its turns that have begun, but for one. What is from before marks were recorded is told by its messages.
SELECT DISTINCT t.under, CASE WHEN t.under IS NULL THEN t.conversation END, CASE WHEN t.under IS NULL THEN t.agent END,
    CASE WHEN t.under IS NULL THEN t.account END, COALESCE(a.facts, m.facts)
FROM turns AS t
LEFT JOIN messages AS a ON t.under IS NULL AND a.id = t.answer
LEFT JOIN messages AS m ON t.under IS NULL AND m.id = t.message
WHERE t.flow = :flow AND t.id <> :run AND (t.under IS NOT NULL OR t.mode IS NOT NULL);

-- name: of_runs(ids)
SELECT DISTINCT t.under, CASE WHEN t.under IS NULL THEN t.conversation END, CASE WHEN t.under IS NULL THEN t.agent END,
    CASE WHEN t.under IS NULL THEN t.account END, COALESCE(a.facts, m.facts)
FROM turns AS t
LEFT JOIN messages AS a ON t.under IS NULL AND a.id = t.answer
LEFT JOIN messages AS m ON t.under IS NULL AND m.id = t.message
WHERE t.id IN (:ids) AND (t.under IS NOT NULL OR t.mode IS NOT NULL);

-- name: of_actions(scope, since_ms)
-- Of the turns that did what cooldowns count, by their steps. A step can have several turns.
SELECT DISTINCT x.flow, x.step, t.under, CASE WHEN t.under IS NULL THEN t.conversation END,
    CASE WHEN t.under IS NULL THEN t.agent END, CASE WHEN t.under IS NULL THEN t.account END,
    COALESCE(a.facts, m.facts)
FROM (SELECT DISTINCT flow, step FROM flow_actions WHERE scope = :scope AND ms > :since_ms) AS x
JOIN turns AS t ON t.flow = x.flow AND (t.step = x.step OR substr(t.step, 1, length(x.step) + 1) = x.step || '/')
LEFT JOIN messages AS a ON t.under IS NULL AND a.id = t.answer
LEFT JOIN messages AS m ON t.under IS NULL AND m.id = t.message
WHERE t.under IS NOT NULL OR t.mode IS NOT NULL;

-- name: of_native(agent, native_id)
-- Of the turns that began or continued a native session, whether or not it was pinned in the end.
SELECT DISTINCT t.under, CASE WHEN t.under IS NULL THEN t.conversation END, CASE WHEN t.under IS NULL THEN t.agent END,
    CASE WHEN t.under IS NULL THEN t.account END, COALESCE(a.facts, m.facts)
FROM attempts AS x
JOIN turns AS t ON t.id = x.turn
LEFT JOIN messages AS a ON t.under IS NULL AND a.id = t.answer
LEFT JOIN messages AS m ON t.under IS NULL AND m.id = t.message
WHERE t.agent = :agent AND :native_id IN (x.native_id, x.new_id) AND (t.under IS NOT NULL OR t.mode IS NOT NULL);

-- name: of_message(id)^
-- composed: Segue has written it, for a step of a flow or as the answer to a lapsed question.
SELECT m.conversation, m.facts, (
    SELECT MAX(CASE WHEN t.flow IS NOT NULL OR t.door = 'answer to a lapsed question' THEN 1 ELSE 0 END)
    FROM turns AS t WHERE t.message = m.id
)
FROM messages AS m WHERE m.id = :id;
