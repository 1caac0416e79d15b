-- The ages of leases are told by the server's clock: those of the hosts may differ. (SQLite gets the same function
-- from the program.)
CREATE FUNCTION now_ms() RETURNS BIGINT LANGUAGE sql VOLATILE
AS 'SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)';

UPDATE pins SET login = COALESCE(substring(made_under FROM '"login":"([0-9a-f]+)"'), '');

INSERT INTO conversation_logins (conversation, agent, account, login)
SELECT p.conversation, p.agent, p.account, p.login FROM pins AS p WHERE p.login <> ''
ORDER BY p.succeeded_ms, p.role
ON CONFLICT DO NOTHING;
