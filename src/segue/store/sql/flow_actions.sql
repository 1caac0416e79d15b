-- name: tool_events(flow, step)
SELECT e.event
FROM turns AS t JOIN events AS e ON e.turn = t.id
WHERE t.flow = :flow AND (t.step = :step OR substr(t.step, 1, length(:step) + 1) = CAST(:step AS TEXT) || '/')
    AND substr(e.event, 1, 14) = '{"type":"tool-'
ORDER BY t.started_ms, t.id, e.seq;

-- name: note(flow, step, scope, kind, key, count, ms)!
-- A step can run again after a kill: it counts once.
INSERT INTO flow_actions (flow, step, scope, kind, key, count, ms)
VALUES (:flow, :step, :scope, :kind, :key, :count, :ms)
ON CONFLICT (flow, step, kind, key) DO NOTHING;

-- name: since(scope, since_ms)
SELECT kind, key, count, ms, flow, step FROM flow_actions WHERE scope = :scope AND ms > :since_ms
ORDER BY ms, kind, key;

-- name: usage_events(turn)
SELECT event FROM events WHERE turn = :turn AND substr(event, 1, 15) = '{"type":"usage"' ORDER BY seq;
