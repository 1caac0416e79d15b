-- name: add(id, conversation, at_ms, from_agent, from_account, to_agent, to_account, mode, bytes, turns, omitted, asked_by, cost_usd, message, why)!
INSERT INTO carries
    (id, conversation, at_ms, from_agent, from_account, to_agent, to_account, mode, bytes, turns, omitted, asked_by, cost_usd, message, why)
VALUES
    (:id, :conversation, :at_ms, :from_agent, :from_account, :to_agent, :to_account, :mode, :bytes, :turns, :omitted, :asked_by, :cost_usd, :message, :why);

-- name: every(count)
SELECT id, conversation, at_ms, from_agent, from_account, to_agent, to_account, mode, bytes, turns, omitted, asked_by, cost_usd, message, why
FROM carries ORDER BY at_ms DESC, id DESC LIMIT :count;

-- name: of(conversation, count)
SELECT id, conversation, at_ms, from_agent, from_account, to_agent, to_account, mode, bytes, turns, omitted, asked_by, cost_usd, message, why
FROM carries WHERE conversation = :conversation ORDER BY at_ms DESC, id DESC LIMIT :count;

-- name: move(id, request, agent, account)!
UPDATE turns SET request = :request, agent = :agent, account = :account, model = NULL
WHERE id = :id AND request IS NOT NULL AND state IN ('queued', 'parked');
