UPDATE pins SET login = COALESCE(substring(made_under FROM '"login":"([0-9a-f]+)"'), '');

INSERT INTO conversation_logins (conversation, agent, account, login)
SELECT p.conversation, p.agent, p.account, p.login FROM pins AS p WHERE p.login <> ''
ORDER BY p.succeeded_ms, p.role
ON CONFLICT DO NOTHING;
