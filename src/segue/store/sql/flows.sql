-- name: add(id, key, kind, version, source, label, input, state, cwd, tree, host, rounds, created_ms, budget)!
-- Whoever comes first has the key; the second writes nothing.
INSERT INTO flows
    (id, key, kind, version, source, label, input, state, cwd, tree, host, rounds, created_ms, budget)
VALUES
    (:id, :key, :kind, :version, :source, :label, :input, :state, :cwd, :tree, :host, :rounds, :created_ms, :budget)
ON CONFLICT DO NOTHING;

-- name: by_id(id)^
SELECT id, key, kind, version, source, label, input, state, needs, wake_ms, cwd, tree, host, asked, rounds, ending, result,
    artefact, failure, created_ms, ended_ms, budget
FROM flows WHERE id = :id;

-- name: by_key(key)^
SELECT id, key, kind, version, source, label, input, state, needs, wake_ms, cwd, tree, host, asked, rounds, ending, result,
    artefact, failure, created_ms, ended_ms, budget
FROM flows WHERE key = :key;

-- name: newest(count)
SELECT id, key, kind, version, source, label, input, state, needs, wake_ms, cwd, tree, host, asked, rounds, ending, result,
    artefact, failure, created_ms, ended_ms, budget
FROM flows ORDER BY created_ms DESC, id DESC LIMIT :count;

-- name: unfinished()
SELECT id, key, kind, version, source, label, input, state, needs, wake_ms, cwd, tree, host, asked, rounds, ending, result,
    artefact, failure, created_ms, ended_ms, budget
FROM flows WHERE state IN ('running', 'needs_you', 'parked', 'paused') ORDER BY created_ms, id;

-- name: change(id, version, state, needs, wake_ms, ending, result, artefact, failure, ended_ms, goes_on, name, token, generation)^
-- Only under its lease. goes_on: what was asked of it is still to be done.
UPDATE flows
SET version = :version, state = :state, needs = :needs, wake_ms = :wake_ms, ending = :ending, result = :result,
    artefact = :artefact, failure = :failure, ended_ms = :ended_ms,
    asked = CASE WHEN CAST(:goes_on AS INTEGER) = 1 THEN asked END
WHERE id = :id
    AND EXISTS (SELECT 1 FROM leases WHERE name = :name AND token = :token AND generation = :generation)
RETURNING id, key, kind, version, source, label, input, state, needs, wake_ms, cwd, tree, host, asked, rounds, ending,
    result, artefact, failure, created_ms, ended_ms, budget;

-- name: count_round(id, rounds)!
UPDATE flows SET rounds = :rounds WHERE id = :id AND rounds < :rounds;

-- name: wait_for_answer(id, needs)!
-- Unless somebody has answered meanwhile.
UPDATE flows SET state = 'needs_you', needs = :needs
WHERE id = :id AND EXISTS (SELECT 1 FROM flow_steps WHERE flow = :id AND state = 'waiting');

-- name: answered(id)!
UPDATE flows SET state = 'running', needs = NULL WHERE id = :id AND state = 'needs_you';

-- name: ask_for(id, asked)!
-- Whoever runs it does that; the wish to cancel stays.
UPDATE flows SET asked = :asked
WHERE id = :id AND state IN ('running', 'needs_you', 'parked', 'paused') AND COALESCE(asked, '') <> 'cancel';

-- name: asked(id)^
SELECT asked FROM flows WHERE id = :id;

-- name: steps(flow)
SELECT flow, key, tries, n, together, kind, state, run, previous, conversation, agent, role, tier, question, result,
    artefact, failure, wake_ms, began_ms, ended_ms
FROM flow_steps WHERE flow = :flow ORDER BY COALESCE(n, 1000000000), began_ms, key;

-- name: step(flow, key)^
SELECT flow, key, tries, n, together, kind, state, run, previous, conversation, agent, role, tier, question, result,
    artefact, failure, wake_ms, began_ms, ended_ms
FROM flow_steps WHERE flow = :flow AND key = :key;

-- name: write_step(flow, key, tries, n, together, kind, state, run, previous, conversation, agent, role, tier, question, result, artefact, failure, wake_ms, began_ms, ended_ms, heeds, name, token, generation)^
-- Only under its lease. heeds: not if somebody has asked the flow to stop. Returns a row if it is written.
INSERT INTO flow_steps
    (flow, key, tries, n, together, kind, state, run, previous, conversation, agent, role, tier, question, result,
    artefact, failure, wake_ms, began_ms, ended_ms)
SELECT :flow, :key, :tries, :n, :together, :kind, :state, :run, :previous, :conversation, :agent, :role, :tier,
    :question, :result, :artefact, :failure, :wake_ms, :began_ms, :ended_ms
FROM leases
WHERE name = :name AND token = :token AND generation = :generation AND (
    CAST(:heeds AS INTEGER) = 0 OR NOT EXISTS (SELECT 1 FROM flows WHERE id = :flow AND asked IS NOT NULL)
)
ON CONFLICT (flow, key) DO UPDATE SET
    tries = excluded.tries, n = excluded.n, together = excluded.together, kind = excluded.kind, state = excluded.state,
    run = excluded.run, previous = excluded.previous, conversation = excluded.conversation, agent = excluded.agent,
    role = excluded.role, tier = excluded.tier, question = excluded.question, result = excluded.result,
    artefact = excluded.artefact, failure = excluded.failure, wake_ms = excluded.wake_ms,
    began_ms = excluded.began_ms, ended_ms = excluded.ended_ms
RETURNING key;

-- name: answer(flow, key, result, ended_ms)!
-- The first answer counts.
UPDATE flow_steps SET state = 'done', result = :result, ended_ms = :ended_ms
WHERE flow = :flow AND key = :key AND state = 'waiting';

-- name: budget_raised(flow, key, run)!
-- The turn that waits for it is tried again. The first answer counts.
UPDATE flow_steps SET state = 'running', question = NULL, tries = tries + 1, previous = run, run = :run
WHERE flow = :flow AND key = :key AND state = 'waiting' AND kind = 'turn';

-- name: budget_kept(flow, key)!
-- The turn that waits for it is not tried again: that it could not begin is its result.
UPDATE flow_steps SET state = 'running'
WHERE flow = :flow AND key = :key AND state = 'waiting' AND kind = 'turn';

-- name: keep(hash, data)!
INSERT INTO artefacts (hash, data) VALUES (:hash, :data) ON CONFLICT (hash) DO NOTHING;

-- name: name_artefact(flow, name, hash, media_type, size, made_ms)!
INSERT INTO flow_artefacts (flow, name, hash, media_type, size, made_ms)
VALUES (:flow, :name, :hash, :media_type, :size, :made_ms)
ON CONFLICT (flow, name) DO UPDATE SET
    hash = excluded.hash, media_type = excluded.media_type, size = excluded.size, made_ms = excluded.made_ms;

-- name: data(hash)^
SELECT data FROM artefacts WHERE hash = :hash;

-- name: artefacts(flow)
SELECT flow, name, hash, media_type, size, made_ms FROM flow_artefacts WHERE flow = :flow ORDER BY made_ms, name;

-- name: runs(flow)
SELECT t.id, t.step, c.key, t.agent, t.role, t.tier, t.model, t.mode, t.state, t.input, t.cache_read, t.cache_write,
    t.output, t.cost_usd, t.started_ms, t.ended_ms
FROM turns AS t JOIN conversations AS c ON c.id = t.conversation
WHERE t.flow = :flow ORDER BY t.started_ms, t.id;

-- name: told_since(flow, step, since_ms)
SELECT id, state, told FROM turns WHERE flow = :flow AND step = :step AND started_ms >= :since_ms
ORDER BY started_ms, id;

-- name: last_answer(flow, conversation, role, before_ms)^
-- When a role last answered, before a step of its began.
SELECT MAX(t.ended_ms) FROM turns AS t JOIN conversations AS c ON c.id = t.conversation
WHERE t.flow = :flow AND c.key = :conversation AND t.role = :role AND t.state = 'done' AND t.ended_ms <= :before_ms;

-- name: worked(flow, since_ms)
-- When agents worked, and functions.
SELECT a.started_ms, a.ended_ms FROM turns AS t JOIN attempts AS a ON a.turn = t.id
WHERE t.flow = :flow AND a.ended_ms > :since_ms
UNION ALL
SELECT began_ms, ended_ms FROM flow_steps WHERE flow = :flow AND kind = 'step' AND ended_ms > :since_ms;

-- name: at_work()
-- The attempts of turns that are not settled, of flows that have their working tree for themselves.
SELECT f.id, f.tree, a.run_dir, t.owner
FROM flows AS f JOIN turns AS t ON t.flow = f.id JOIN attempts AS a ON a.turn = t.id
WHERE f.state IN ('running', 'needs_you', 'parked', 'paused') AND f.tree IS NOT NULL
    AND t.state IN ('running', 'needs_you')
ORDER BY f.id, t.started_ms, a.seq;

-- name: spent(flow)^
SELECT SUM(usd) FROM (
    SELECT cost_usd AS usd FROM turns WHERE flow = :flow
    UNION ALL
    SELECT usd FROM deleted_costs WHERE flow = :flow
) AS costs;
