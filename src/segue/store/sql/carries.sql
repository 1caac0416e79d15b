-- name: add(id, conversation, at_ms, from_agent, from_account, to_agent, to_account, mode, bytes, turns, omitted, asked_by, cost_usd, message, why, left_out)!
INSERT INTO carries
    (id, conversation, at_ms, from_agent, from_account, to_agent, to_account, mode, bytes, turns, omitted, asked_by, cost_usd, message, why, left_out)
VALUES
    (:id, :conversation, :at_ms, :from_agent, :from_account, :to_agent, :to_account, :mode, :bytes, :turns, :omitted, :asked_by, :cost_usd, :message, :why, :left_out);

-- name: add_once(id, conversation, at_ms, from_agent, from_account, to_agent, to_account, mode, bytes, turns, omitted, asked_by, cost_usd, message, why, flow)!
-- For a flow that is stored: each direction of its turns is recorded once.
INSERT INTO carries
    (id, conversation, at_ms, from_agent, from_account, to_agent, to_account, mode, bytes, turns, omitted, asked_by, cost_usd, message, why)
SELECT
    CAST(:id AS TEXT), CAST(:conversation AS TEXT), CAST(:at_ms AS BIGINT), CAST(:from_agent AS TEXT),
    CAST(:from_account AS TEXT), CAST(:to_agent AS TEXT), CAST(:to_account AS TEXT), CAST(:mode AS TEXT),
    CAST(:bytes AS BIGINT), CAST(:turns AS BIGINT), CAST(:omitted AS BIGINT), CAST(:asked_by AS TEXT),
    CAST(:cost_usd AS DOUBLE PRECISION), CAST(:message AS TEXT), CAST(:why AS TEXT)
FROM flows
WHERE flows.id = :flow AND NOT EXISTS (
    SELECT 1 FROM carries AS c
    WHERE c.conversation = :conversation AND c.mode = :mode AND c.from_agent = :from_agent
        AND c.from_account = :from_account AND c.to_agent = :to_agent AND c.to_account = :to_account
);

-- name: every(count)
SELECT id, conversation, at_ms, from_agent, from_account, to_agent, to_account, mode, bytes, turns, omitted, asked_by, cost_usd, message, why, left_out
FROM carries ORDER BY at_ms DESC, id DESC LIMIT :count;

-- name: of(conversation, count)
SELECT id, conversation, at_ms, from_agent, from_account, to_agent, to_account, mode, bytes, turns, omitted, asked_by, cost_usd, message, why, left_out
FROM carries WHERE conversation = :conversation ORDER BY at_ms DESC, id DESC LIMIT :count;

-- name: move(id, request, agent, account)!
UPDATE turns SET request = :request, agent = :agent, account = :account, model = NULL
WHERE id = :id AND request IS NOT NULL AND state IN ('queued', 'parked');
