-- name: ask(run, id, question, asked_ms)!
-- Only of a run that is not over. The same question again is the same.
INSERT INTO questions (run, id, conversation, question, state, asked_ms)
SELECT t.id, CAST(:id AS TEXT), t.conversation, CAST(:question AS TEXT), 'open', CAST(:asked_ms AS BIGINT)
FROM turns AS t WHERE t.id = :run AND t.state IN ('queued', 'running', 'needs_you', 'parked')
ON CONFLICT (run, id) DO NOTHING;

-- name: change(run, id, before, state, answer)!
-- Only once: whoever comes second finds another state.
UPDATE questions SET state = :state, answer = :answer WHERE run = :run AND id = :id AND state = :before;

-- name: tell(run, id)!
UPDATE questions SET state = 'told' WHERE run = :run AND id = :id AND state = 'answered';

-- name: carried(next)
SELECT run, id, conversation, question, state, answer, next, asked_ms FROM questions WHERE next = :next;

-- name: carry(run, id, next, answer)!
-- The message of another run answers it.
UPDATE questions SET state = 'told', next = :next, answer = :answer
WHERE run = :run AND id = :id AND state IN ('open', 'lapsed');

-- name: needs_you(run)!
-- It waits for the user as long as a question is open. Followers are told, whatever becomes of the state.
UPDATE turns SET question = NULL, state = CASE
    WHEN state NOT IN ('running', 'needs_you') THEN state
    WHEN EXISTS (SELECT 1 FROM questions AS q WHERE q.run = turns.id AND q.state = 'open') THEN 'needs_you'
    ELSE 'running' END
WHERE id = :run;

-- name: questions(run)
SELECT run, id, conversation, question, state, answer, next, asked_ms FROM questions WHERE run = :run
ORDER BY asked_ms, id;

-- name: asked()
-- What somebody can answer.
SELECT run, id, conversation, question, state, answer, next, asked_ms FROM asked
ORDER BY asked_ms, id;

-- name: asked_in(conversation)
SELECT run, id, conversation, question, state, answer, next, asked_ms FROM asked
WHERE conversation = :conversation
ORDER BY asked_ms, id;

-- name: allow_tool(conversation, agent, role, tool, allowed_ms)!
INSERT INTO allowed_tools (conversation, agent, role, tool, allowed_ms)
VALUES (:conversation, :agent, :role, :tool, :allowed_ms)
ON CONFLICT (conversation, agent, role, tool) DO NOTHING;

-- name: allowed_tools()
SELECT conversation, agent, role, tool FROM allowed_tools ORDER BY allowed_ms, tool;

-- name: allowed_tools_in(conversation)
SELECT conversation, agent, role, tool FROM allowed_tools WHERE conversation = :conversation
ORDER BY allowed_ms, tool;

-- name: disallow_tool(conversation, tool)!
DELETE FROM allowed_tools WHERE conversation = :conversation AND tool = :tool;

-- name: disallow_all(conversation, agent, role)!
DELETE FROM allowed_tools WHERE conversation = :conversation AND agent = :agent AND role = :role;

-- name: fork_allowed(old, new)!
INSERT INTO allowed_tools (conversation, agent, role, tool, allowed_ms)
SELECT CAST(:new AS TEXT), agent, role, tool, allowed_ms FROM allowed_tools WHERE conversation = :old;
