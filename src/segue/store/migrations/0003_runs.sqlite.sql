UPDATE pins SET login = COALESCE(json_extract(made_under, '$.login'), '') WHERE json_valid(made_under);

INSERT INTO conversation_logins (conversation, agent, account, login)
SELECT p.conversation, p.agent, p.account, p.login FROM pins AS p WHERE p.login <> ''
ORDER BY p.succeeded_ms, p.role
ON CONFLICT DO NOTHING;
