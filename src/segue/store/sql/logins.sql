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
