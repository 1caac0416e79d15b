-- name: save(id, agent, account, native_id, host, home, cwd, path, conversation, created_ms, last_used_ms, retired_ms, retired_reason, parent, how, intended, totals, context, host_id)!
-- Where it came from, how it was made, and that it was retired stay.
INSERT INTO sessions
    (id, agent, account, native_id, host, home, cwd, path, conversation, created_ms, last_used_ms, retired_ms,
    retired_reason, parent, how, intended, totals, context, host_id)
VALUES
    (:id, :agent, :account, :native_id, :host, :home, :cwd, :path, :conversation, :created_ms, :last_used_ms,
    :retired_ms, :retired_reason, :parent, :how, :intended, :totals, :context, :host_id)
ON CONFLICT (id) DO UPDATE SET
    native_id = excluded.native_id, host = excluded.host, host_id = excluded.host_id, home = excluded.home,
    cwd = excluded.cwd, path = COALESCE(excluded.path, sessions.path), conversation = excluded.conversation,
    last_used_ms = excluded.last_used_ms,
    retired_ms = COALESCE(sessions.retired_ms, excluded.retired_ms),
    retired_reason = COALESCE(sessions.retired_reason, excluded.retired_reason),
    parent = COALESCE(sessions.parent, excluded.parent), intended = excluded.intended, totals = excluded.totals,
    context = excluded.context;

-- name: retire(id, reason, now_ms)!
UPDATE sessions SET retired_ms = :now_ms, retired_reason = :reason WHERE id = :id AND retired_ms IS NULL;

-- name: by_id(id)^
SELECT id, agent, account, native_id, host, home, cwd, path, conversation, created_ms, last_used_ms, retired_ms,
    retired_reason, parent, how, intended, totals, context, host_id
FROM sessions WHERE id = :id;

-- name: by_native_id(agent, native_id)
-- A fork has a row of its own for the session it shares: the row it came from is the one that counts.
SELECT id, agent, account, native_id, host, home, cwd, path, conversation, created_ms, last_used_ms, retired_ms,
    retired_reason, parent, how, intended, totals, context, host_id
FROM sessions WHERE native_id = :native_id AND agent = :agent
ORDER BY conversation IS NULL, created_ms, id;

-- name: every()
SELECT id, agent, account, native_id, host, home, cwd, path, conversation, created_ms, last_used_ms, retired_ms,
    retired_reason, parent, how, intended, totals, context, host_id
FROM sessions ORDER BY last_used_ms DESC, id DESC;

-- name: of(conversation)
SELECT id, agent, account, native_id, host, home, cwd, path, conversation, created_ms, last_used_ms, retired_ms,
    retired_reason, parent, how, intended, totals, context, host_id
FROM sessions WHERE conversation = :conversation ORDER BY last_used_ms DESC, id DESC;

-- name: hold(session, seq, message, revision, anchor, second_hand, correction)!
INSERT INTO held (session, seq, message, revision, anchor, second_hand, correction)
VALUES (:session, :seq, :message, :revision, :anchor, :second_hand, :correction);

-- name: let_go(session, seq)!
DELETE FROM held WHERE session = :session AND seq >= :seq;

-- name: let_all_go(conversation)!
DELETE FROM held WHERE session IN (SELECT id FROM sessions WHERE conversation = :conversation);

-- name: held(session)
SELECT message, revision, anchor, second_hand, correction FROM held WHERE session = :session ORDER BY seq;

-- name: pin(conversation, role, agent, account, login, session, succeeded_ms, made_under)!
INSERT INTO pins (conversation, role, agent, account, login, session, succeeded_ms, made_under)
VALUES (:conversation, :role, :agent, :account, :login, :session, :succeeded_ms, :made_under)
ON CONFLICT (conversation, role, agent, account, login) DO UPDATE SET
    session = excluded.session, succeeded_ms = excluded.succeeded_ms, made_under = excluded.made_under;

-- name: pinned(conversation, role, agent, account, login)^
-- One that names no login counts only where there is none that does.
SELECT login, made_under FROM pins
WHERE conversation = :conversation AND role = :role AND agent = :agent AND account = :account
    AND login IN (:login, '')
ORDER BY login DESC LIMIT 1;

-- name: pins(conversation)
SELECT login, made_under FROM pins WHERE conversation = :conversation
ORDER BY succeeded_ms DESC, agent, role, account, login;

-- name: every_pin()
SELECT p.session, c.key FROM pins AS p JOIN conversations AS c ON c.id = p.conversation
ORDER BY p.succeeded_ms, c.key;

-- name: tried()
-- The native sessions that attempts made, whether or not they were pinned in the end; and who made them.
SELECT t.agent, COALESCE(a.native_id, a.new_id), t.owner
FROM attempts AS a JOIN turns AS t ON t.id = a.turn
WHERE COALESCE(a.native_id, a.new_id) IS NOT NULL
    AND (a.resumed_from IS NULL OR a.resumed_from <> COALESCE(a.native_id, a.new_id));

-- name: pinned_by(agent, native_id)^
-- On whatever host: homes may be shared, and hosts renamed.
SELECT c.key FROM pins AS p JOIN sessions AS s ON s.id = p.session JOIN conversations AS c ON c.id = p.conversation
WHERE s.native_id = :native_id AND s.agent = :agent
ORDER BY c.key LIMIT 1;

-- name: pinned_homes()
SELECT DISTINCT s.home FROM pins AS p JOIN sessions AS s ON s.id = p.session;

-- name: under_way()
-- The native sessions of attempts that have not ended, as far as their ids are known or chosen.
SELECT t.agent, a.native_id, a.new_id
FROM attempts AS a JOIN turns AS t ON t.id = a.turn
WHERE t.state IN ('queued', 'running', 'needs_you', 'parked') OR a.ended_ms IS NULL;
