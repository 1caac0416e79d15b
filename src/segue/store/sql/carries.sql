-- name: add(id, conversation, at_ms, from_agent, from_account, to_agent, to_account, mode, bytes, turns, omitted, asked_by, cost_usd, message, why, left_out)!
INSERT INTO carries
    (id, conversation, at_ms, from_agent, from_account, to_agent, to_account, mode, bytes, turns, omitted, asked_by, cost_usd, message, why, left_out)
VALUES
    (:id, :conversation, :at_ms, :from_agent, :from_account, :to_agent, :to_account, :mode, :bytes, :turns, :omitted, :asked_by, :cost_usd, :message, :why, :left_out);

-- name: every(count)
SELECT id, conversation, at_ms, from_agent, from_account, to_agent, to_account, mode, bytes, turns, omitted, asked_by, cost_usd, message, why, left_out
FROM carries ORDER BY at_ms DESC, id DESC LIMIT :count;

-- name: of(conversation, count)
SELECT id, conversation, at_ms, from_agent, from_account, to_agent, to_account, mode, bytes, turns, omitted, asked_by, cost_usd, message, why, left_out
FROM carries WHERE conversation = :conversation ORDER BY at_ms DESC, id DESC LIMIT :count;

-- name: move(id, request, agent, account)!
UPDATE turns SET request = :request, agent = :agent, account = :account, model = NULL
WHERE id = :id AND request IS NOT NULL AND state IN ('queued', 'parked');
