-- name: see(agent, account, login)!
INSERT INTO logins (agent, account, login) VALUES (:agent, :account, :login) ON CONFLICT DO NOTHING;

-- name: own_pins(agent, account, login)!
UPDATE pins SET login = :login WHERE agent = :agent AND account = :account AND login = '';

-- name: first(conversation, agent, account)^
SELECT login FROM (
    SELECT 1 AS nearness, login FROM conversation_logins
    WHERE conversation = :conversation AND agent = :agent AND account = :account
    UNION ALL
    SELECT 2 AS nearness, login FROM logins WHERE agent = :agent AND account = :account
) AS seen
ORDER BY nearness LIMIT 1;

-- name: see_limit(agent, account, login, span, used, resets_ms, source, seen_ms)!
-- The latest per window. A report without a share does not replace one of the same period.
INSERT INTO limits (agent, account, login, span, used, resets_ms, source, seen_ms)
VALUES (:agent, :account, :login, :span, :used, :resets_ms, :source, :seen_ms)
ON CONFLICT (agent, account, login, span) DO UPDATE
SET used = excluded.used, resets_ms = excluded.resets_ms, source = excluded.source, seen_ms = excluded.seen_ms
WHERE limits.seen_ms <= excluded.seen_ms
AND (excluded.used IS NOT NULL OR limits.used IS NULL OR COALESCE(limits.resets_ms, 0) <> COALESCE(excluded.resets_ms, 0));

-- name: limits(agent, account, login)
SELECT span, used, resets_ms, source, seen_ms FROM limits
WHERE agent = :agent AND account = :account AND login = :login
ORDER BY span;

-- name: see_payer(agent, account, login, pays, seen_ms)!
INSERT INTO payers (agent, account, login, pays, seen_ms) VALUES (:agent, :account, :login, :pays, :seen_ms)
ON CONFLICT (agent, account, login) DO UPDATE SET pays = excluded.pays, seen_ms = excluded.seen_ms;

-- name: payer(agent, account, login)^
SELECT pays FROM payers WHERE agent = :agent AND account = :account AND login = :login;
