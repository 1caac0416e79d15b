-- name: insert(id, conversation, message, agent, role, account, model, cwd, host, mode, status, owner, started_ms, predicted_usd, retry_of)!
INSERT INTO turns
    (id, conversation, message, agent, role, account, model, cwd, host, mode, status, owner, started_ms,
    predicted_usd, retry_of)
VALUES
    (:id, :conversation, :message, :agent, :role, :account, :model, :cwd, :host, :mode, :status, :owner, :started_ms,
    :predicted_usd, :retry_of);

-- name: begin(id)!
UPDATE turns SET status = 'running' WHERE id = :id AND status = 'waiting';

-- name: start(id, mode, predicted_usd)!
UPDATE turns SET status = 'running', mode = :mode, predicted_usd = :predicted_usd
WHERE id = :id AND status IN ('waiting', 'running');

-- name: settle(id, answer, account, model, mode, status, told, ended_ms, predicted_usd, input, cache_read, cache_write, output, cost_usd, saved_usd)!
-- A turn is settled once: the second writer finds nothing to change.
UPDATE turns
SET answer = :answer, account = :account, model = :model, mode = :mode, status = :status, told = :told,
    ended_ms = :ended_ms, predicted_usd = :predicted_usd, input = :input, cache_read = :cache_read,
    cache_write = :cache_write, output = :output, cost_usd = :cost_usd, saved_usd = :saved_usd
WHERE id = :id AND status IN ('waiting', 'running');

-- name: lose(id)!
UPDATE turns SET status = 'failed' WHERE id = :id AND status = 'waiting';

-- name: by_id(id)^
SELECT id, conversation, message, answer, agent, role, account, model, cwd, host, mode, status, told, owner,
    started_ms, ended_ms, predicted_usd, retry_of
FROM turns WHERE id = :id;

-- name: newest(conversation, count)
SELECT id, conversation, message, answer, agent, role, account, model, cwd, host, mode, status, told, owner,
    started_ms, ended_ms, predicted_usd, retry_of
FROM turns WHERE conversation = :conversation
ORDER BY started_ms DESC, id DESC LIMIT :count;

-- name: unsettled(conversation)
SELECT id, conversation, message, answer, agent, role, account, model, cwd, host, mode, status, told, owner,
    started_ms, ended_ms, predicted_usd, retry_of
FROM turns WHERE conversation = :conversation AND status IN ('waiting', 'running')
ORDER BY started_ms, id;

-- name: unplaced(conversation)
SELECT t.id, t.conversation, t.message, t.answer, t.agent, t.role, t.account, t.model, t.cwd, t.host, t.mode, t.status,
    t.told, t.owner, t.started_ms, t.ended_ms, t.predicted_usd, t.retry_of
FROM messages AS m JOIN turns AS t ON t.message = m.id
WHERE m.conversation = :conversation AND m.place IS NULL;

-- name: attempt(id, turn, seq, mode, session, resumed_from, new_id, run_dir, task, process, outcome, native_id, usage, cost_usd, tools_run, started_ms, ended_ms)!
-- Written before the spawn, and again once the process is known.
INSERT INTO attempts
    (id, turn, seq, mode, session, resumed_from, new_id, run_dir, task, process, outcome, native_id, usage,
    cost_usd, tools_run, started_ms, ended_ms)
VALUES
    (:id, :turn, :seq, :mode, :session, :resumed_from, :new_id, :run_dir, :task, :process, :outcome, :native_id,
    :usage, :cost_usd, :tools_run, :started_ms, :ended_ms)
ON CONFLICT (id) DO UPDATE SET
    session = excluded.session, new_id = excluded.new_id, run_dir = excluded.run_dir, task = excluded.task,
    process = excluded.process, started_ms = excluded.started_ms;

-- name: attempted(id, outcome, native_id, usage, cost_usd, tools_run, ended_ms)!
UPDATE attempts
SET outcome = :outcome, native_id = :native_id, usage = :usage, cost_usd = :cost_usd, tools_run = :tools_run,
    ended_ms = :ended_ms
WHERE id = :id;

-- name: attempts(turn)
SELECT id, turn, seq, mode, session, resumed_from, new_id, run_dir, task, process, outcome, native_id, usage,
    cost_usd, tools_run, started_ms, ended_ms
FROM attempts WHERE turn = :turn ORDER BY seq;
