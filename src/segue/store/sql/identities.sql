-- name: of(agent, account)
SELECT login, route, mark FROM identities WHERE agent = :agent AND account = :account ORDER BY seen_ms DESC;

-- name: again(agent, account, login, route, seen_ms)!
UPDATE identities SET seen_ms = :seen_ms
WHERE agent = :agent AND account = :account AND login = :login AND route = :route;

-- name: see(agent, account, login, route, mark, seen_ms)!
INSERT INTO identities (agent, account, login, route, mark, seen_ms)
VALUES (:agent, :account, :login, :route, :mark, :seen_ms) ON CONFLICT DO NOTHING;

-- name: take_over(agent, account, login, route, mark, seen_ms, earlier)!
UPDATE identities SET route = :route, seen_ms = :seen_ms
WHERE agent = :agent AND account = :account AND login = :login AND mark = :mark AND route = :earlier;
