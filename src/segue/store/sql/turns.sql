-- name: insert(id, conversation, message, agent, role, account, model, cwd, host, mode, state, owner, started_ms, predicted_usd, retry_of, via, flow, step, tier)!
INSERT INTO turns
    (id, conversation, message, agent, role, account, model, cwd, host, mode, state, owner, started_ms,
    predicted_usd, retry_of, via, flow, step, tier, place)
VALUES
    (:id, :conversation, :message, :agent, :role, :account, :model, :cwd, :host, :mode, :state, :owner, :started_ms,
    :predicted_usd, :retry_of, :via, :flow, :step, :tier,
    (SELECT COALESCE(MAX(other.place), 0) + 1 FROM turns AS other WHERE other.conversation = :conversation));

-- name: take_place(id, other)!
UPDATE turns SET place = (SELECT o.place FROM turns AS o WHERE o.id = :other) WHERE id = :id;

-- name: begin(id, door, reserved_usd, counts_for)!
-- One that only stood still for long may have been taken for dead and withdrawn: it begins all the same.
UPDATE turns SET state = 'running', door = :door, reserved_usd = :reserved_usd, waits = NULL,
    counts_for = :counts_for
WHERE id = :id AND held_by IS NULL AND (state = 'queued' OR (state = 'withdrawn' AND told IS NULL));

-- name: start(id, mode, predicted_usd, under)!
UPDATE turns SET mode = :mode, predicted_usd = :predicted_usd, under = COALESCE(:under, under)
WHERE id = :id AND state = 'running';

-- name: settle(id, answer, account, model, mode, state, told, ended_ms, predicted_usd, input, cache_read, cache_write, output, cost_usd, cost_estimated, saved_usd, agent_version)!
-- A turn is settled once: the second writer finds nothing to change.
UPDATE turns
SET answer = :answer, account = :account, model = :model, mode = :mode, state = :state, told = :told,
    ended_ms = :ended_ms, predicted_usd = :predicted_usd, input = :input, cache_read = :cache_read,
    cache_write = :cache_write, output = :output, cost_usd = :cost_usd,
    cost_estimated = :cost_estimated, saved_usd = :saved_usd, agent_version = :agent_version, request = NULL,
    question = NULL
WHERE id = :id AND state IN ('queued', 'running', 'needs_you', 'parked');

-- name: lapse(run, state)!
-- What a failed run has asked can still be answered by a message. An answer that did not reach the agent is asked again.
UPDATE questions SET state = CASE CAST(:state AS TEXT) WHEN 'failed' THEN 'lapsed' ELSE 'over' END, answer = NULL
WHERE run = :run AND state IN ('open', 'answered');

-- name: go_on(conversation)!
-- Something else is said: what was asked before is not answered any more.
UPDATE questions SET state = 'over' WHERE conversation = :conversation AND state = 'lapsed';

-- name: withdraw(id, conversation)!
-- Its process died while it waited.
UPDATE turns SET state = 'withdrawn', request = NULL
WHERE id = :id AND conversation = :conversation AND state IN ('queued', 'parked');

-- name: merge(id, message, retry_of)!
-- What it says was said before: it is another run of that message.
UPDATE turns SET message = :message, retry_of = :retry_of
WHERE id = :id AND (state = 'queued' OR (state = 'withdrawn' AND told IS NULL));

-- name: of_messages(ids)
SELECT id, conversation, message, answer, agent, role, account, model, cwd, host, mode, state, told, owner,
    started_ms, ended_ms, predicted_usd, retry_of, via
FROM turns WHERE message IN (:ids)
ORDER BY started_ms, id;

-- name: came_to_nothing(conversation)
-- The turns that began and gave no answer, of messages that got none later either. The newest last.
SELECT id, conversation, message, answer, agent, role, account, model, cwd, host, mode, state, told, owner,
    started_ms, ended_ms, predicted_usd, retry_of, via
FROM turns AS t
WHERE conversation = :conversation AND state IN ('failed', 'cancelled')
    AND NOT EXISTS (SELECT 1 FROM turns AS other WHERE other.message = t.message AND other.state = 'done')
ORDER BY started_ms, id;

-- name: copy(id, old, conversation, message, told, via)!
-- What it spent was spent once: those columns stay empty.
INSERT INTO turns
    (id, conversation, message, agent, role, account, model, cwd, host, mode, state, told, owner, started_ms, ended_ms,
    via)
SELECT
    CAST(:id AS TEXT), CAST(:conversation AS TEXT), CAST(:message AS TEXT), agent, role, account, model, cwd, host, mode,
    state, CAST(:told AS TEXT), owner, started_ms, ended_ms, CAST(:via AS TEXT)
FROM turns WHERE id = :old;

-- name: planned_no_more(turn)!
-- What was planned is of use only until it is settled.
UPDATE attempts SET task = '{}' WHERE turn = :turn;

-- name: answered(message)^
-- An answer as it was given, whatever became of it since.
SELECT text FROM revisions WHERE message = :message AND revision = 1;

-- name: by_id(id)^
SELECT id, conversation, message, answer, agent, role, account, model, cwd, host, mode, state, told, owner,
    started_ms, ended_ms, predicted_usd, retry_of, via
FROM turns WHERE id = :id;

-- name: answer_of(id)^
SELECT answer FROM turns WHERE id = :id;

-- name: newest(conversation, count)
SELECT id, conversation, message, answer, agent, role, account, model, cwd, host, mode, state, told, owner,
    started_ms, ended_ms, predicted_usd, retry_of, via
FROM turns WHERE conversation = :conversation
ORDER BY started_ms DESC, id DESC LIMIT :count;

-- name: newest_failed(conversation, count)
-- Those of the newest that ended without an answer.
SELECT id, conversation, message, answer, agent, role, account, model, cwd, host, mode, state, told, owner,
    started_ms, ended_ms, predicted_usd, retry_of, via
FROM turns
WHERE state IN ('failed', 'cancelled', 'withdrawn') AND id IN (
    SELECT id FROM turns WHERE conversation = :conversation ORDER BY started_ms DESC, id DESC LIMIT :count
)
ORDER BY started_ms DESC, id DESC;

-- name: newest_of(conversation, agent, count)
SELECT id, conversation, message, answer, agent, role, account, model, cwd, host, mode, state, told, owner,
    started_ms, ended_ms, predicted_usd, retry_of, via
FROM turns WHERE conversation = :conversation AND agent = :agent
ORDER BY started_ms DESC, id DESC LIMIT :count;

-- name: unsettled(conversation)
SELECT id, conversation, message, answer, agent, role, account, model, cwd, host, mode, state, told, owner,
    started_ms, ended_ms, predicted_usd, retry_of, via
FROM turns WHERE conversation = :conversation AND state IN ('queued', 'running', 'needs_you', 'parked')
ORDER BY started_ms, id;

-- name: unplaced(conversation)
SELECT t.id, t.conversation, t.message, t.answer, t.agent, t.role, t.account, t.model, t.cwd, t.host, t.mode, t.state,
    t.told, t.owner, t.started_ms, t.ended_ms, t.predicted_usd, t.retry_of, t.via
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

-- name: ask_cancel(id, now_ms)!
UPDATE turns SET cancel_asked_ms = COALESCE(cancel_asked_ms, :now_ms)
WHERE id = :id AND state IN ('queued', 'running', 'needs_you', 'parked');

-- name: cancel_asked(id)^
SELECT cancel_asked_ms FROM turns WHERE id = :id;
