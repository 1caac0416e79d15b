-- name: page(conversation, before, count)
-- The newest messages before a place, the newest first.
SELECT m.id, m.facts, m.revision, m.size, m.created_ms, r.text, r.created_ms, m.place
FROM (
    SELECT id, facts, revision, size, created_ms, place
    FROM messages WHERE conversation = :conversation AND removed_ms IS NULL AND place < :before
    ORDER BY place DESC LIMIT :count
) AS m
JOIN revisions AS r ON r.message = m.id AND r.revision = m.revision
ORDER BY m.place DESC;

-- name: counts(conversation, before)^
-- How many messages stand, and how many of them before a place.
SELECT COUNT(*), COUNT(CASE WHEN place < :before THEN 1 END)
FROM messages WHERE conversation = :conversation AND removed_ms IS NULL AND place IS NOT NULL;

-- name: beyond(conversation, place, skip)^
-- The message that comes after a place and so many others.
SELECT place, created_ms FROM messages
WHERE conversation = :conversation AND removed_ms IS NULL AND place > :place
ORDER BY place LIMIT 1 OFFSET :skip;

-- name: answers_to(ids)
-- The answers that were ever given to these messages.
SELECT message, answer FROM turns WHERE message IN (:ids) AND answer IS NOT NULL;

-- name: wordings(ids)
-- How many wordings these messages have.
SELECT message, COUNT(*) FROM revisions WHERE message IN (:ids) GROUP BY message;

-- name: place_of(id, conversation)^
SELECT place, created_ms FROM messages
WHERE id = :id AND conversation = :conversation AND removed_ms IS NULL AND place IS NOT NULL;

-- name: said_from(conversation, place)^
-- When the earliest was said of all that stands from a place on: one that waited was said before others.
SELECT MIN(created_ms) FROM messages
WHERE conversation = :conversation AND removed_ms IS NULL AND place >= :place;

-- name: standing_among(ids)
SELECT id FROM messages WHERE id IN (:ids) AND removed_ms IS NULL AND place IS NOT NULL;

-- name: of_answers(ids)
SELECT id, conversation, message, answer, agent, role, account, model, cwd, host, mode, state, told, owner,
    started_ms, ended_ms, predicted_usd, retry_of, via
FROM turns WHERE answer IN (:ids);

-- name: versions(ids)
-- Every wording of these messages, and which of them stands.
SELECT m.id, r.revision, r.text, r.created_ms,
    CASE WHEN m.removed_ms IS NULL AND r.revision = m.revision THEN 1 ELSE 0 END
FROM messages AS m
JOIN revisions AS r ON r.message = m.id
WHERE m.id IN (:ids)
ORDER BY r.created_ms, m.id, r.revision;

-- name: found(pattern, said, asked, since_ms, count)
-- The newest messages with these words, of those that stand. ``said``, ``asked``: the facts of an agent's messages.
SELECT c.key, c.title, m.id, m.facts, m.created_ms, r.text
FROM messages AS m
JOIN revisions AS r ON r.message = m.id AND r.revision = m.revision
JOIN conversations AS c ON c.id = m.conversation
WHERE m.removed_ms IS NULL AND m.place IS NOT NULL AND m.created_ms >= :since_ms
    AND (m.facts LIKE :said ESCAPE '!' OR m.facts LIKE :asked ESCAPE '!')
    AND folded(r.text) LIKE :pattern ESCAPE '!'
ORDER BY m.created_ms DESC, m.id DESC LIMIT :count;

-- name: titled(pattern, agent, said, asked, since_ms, count)
-- ``agent``: the conversation's own, or one that took part in it; empty: any.
SELECT c.key, c.title, c.updated_ms FROM conversations AS c
WHERE (folded(c.title) LIKE :pattern ESCAPE '!' OR folded(c.key) LIKE :pattern ESCAPE '!')
    AND c.updated_ms >= :since_ms
    AND (
        CAST(:agent AS TEXT) = '' OR c.agent = :agent OR EXISTS (
            SELECT 1 FROM messages AS m
            WHERE m.conversation = c.id AND (m.facts LIKE :said ESCAPE '!' OR m.facts LIKE :asked ESCAPE '!')
        )
    )
ORDER BY c.updated_ms DESC, c.id DESC LIMIT :count;

-- name: models(count)
-- The newest turns that were given a model, or told one.
SELECT agent, model, told FROM turns
WHERE model IS NOT NULL OR told IS NOT NULL
ORDER BY started_ms DESC, id DESC LIMIT :count;

-- name: runs(conversation)
SELECT id, message, answer, agent, role, account, model, mode, state, retry_of, cost_usd, cost_estimated, told, started_ms
FROM turns WHERE conversation = :conversation AND via <> 'fork'
ORDER BY started_ms, id;

-- name: usage(grouped, parted, since_ms, quarter_ms)
-- Sums of the turns that have begun and ended, or have cost something; also of conversations that were removed. By day: of
-- each quarter of an hour, which belongs to one day everywhere.
SELECT
    CASE CAST(:grouped AS TEXT)
        WHEN 'agent' THEN t.agent
        WHEN 'mode' THEN t.mode
        WHEN 'conversation' THEN t.key
        WHEN 'version' THEN CASE WHEN t.agent_version IS NULL THEN t.agent ELSE t.agent || ' ' || t.agent_version END
        ELSE CAST(t.started_ms / :quarter_ms AS TEXT) END AS name,
    CASE CAST(:parted AS TEXT)
        WHEN 'agent' THEN t.agent
        WHEN 'mode' THEN t.mode
        WHEN 'conversation' THEN t.key
        WHEN 'version' THEN CASE WHEN t.agent_version IS NULL THEN t.agent ELSE t.agent || ' ' || t.agent_version END
        WHEN 'day' THEN CAST(t.started_ms / :quarter_ms AS TEXT)
        ELSE '' END AS part,
    COUNT(*), COUNT(CASE WHEN t.mode IN ('resume', 'branch') THEN 1 END),
    CAST(SUM(t.input) AS BIGINT), CAST(SUM(t.cache_read) AS BIGINT),
    CAST(SUM(t.cache_write) AS BIGINT), CAST(SUM(t.output) AS BIGINT),
    SUM(t.cost_usd), MAX(t.cost_estimated), SUM(t.saved_usd),
    SUM(CASE WHEN t.cost_usd IS NOT NULL THEN t.predicted_usd END),
    SUM(CASE WHEN t.predicted_usd IS NOT NULL THEN t.cost_usd END)
FROM (
    SELECT c.key, r.agent, r.mode, r.agent_version, r.started_ms, r.input, r.cache_read, r.cache_write, r.output,
        r.cost_usd, r.cost_estimated, r.saved_usd, r.predicted_usd
    FROM turns AS r JOIN conversations AS c ON c.id = r.conversation
    WHERE r.started_ms >= :since_ms AND r.via <> 'fork'
        AND (r.state IN ('done', 'failed', 'cancelled') OR r.cost_usd IS NOT NULL)
    UNION ALL
    SELECT key, agent, mode, agent_version, started_ms, input, cache_read, cache_write, output, usd, estimated,
        NULL, NULL
    FROM deleted_costs WHERE started_ms >= :since_ms
) AS t
GROUP BY 1, 2;

-- name: unpaid(since_ms, notice, count)
-- Turns that continued a session and cost more than they saved, or were given a notice with these words.
SELECT t.id, t.conversation, t.message, t.answer, t.agent, t.role, t.account, t.model, t.cwd, t.host, t.mode, t.state,
    t.told, t.owner, t.started_ms, t.ended_ms, t.predicted_usd, t.retry_of, t.via, c.key
FROM turns AS t JOIN conversations AS c ON c.id = t.conversation
WHERE t.started_ms >= :since_ms AND t.mode IN ('resume', 'branch') AND t.via <> 'fork'
    AND t.state IN ('done', 'failed', 'cancelled') AND (t.saved_usd < 0 OR t.told LIKE :notice)
ORDER BY t.started_ms DESC, t.id DESC LIMIT :count;

-- name: cuts(id)^
SELECT cuts FROM conversations WHERE id = :id;

-- name: cut(id)!
UPDATE conversations SET cuts = cuts + 1 WHERE id = :id;

-- name: marks_of(id)^
SELECT starred, read_ms FROM conversations WHERE id = :id;

-- name: kinds_of(conversation)
SELECT facts, COUNT(*), MIN(place)
FROM messages WHERE conversation = :conversation AND removed_ms IS NULL AND place IS NOT NULL
GROUP BY facts
ORDER BY MIN(place);

-- name: beginning(conversation, place, length)^
SELECT substr(r.text, 1, :length)
FROM messages AS m
JOIN revisions AS r ON r.message = m.id AND r.revision = m.revision
WHERE m.conversation = :conversation AND m.place = :place;

-- name: spent_in(conversation)^
SELECT
    CAST(SUM(input) AS BIGINT), CAST(SUM(cache_read) AS BIGINT),
    CAST(SUM(cache_write) AS BIGINT), CAST(SUM(output) AS BIGINT),
    SUM(cost_usd), MAX(cost_estimated), SUM(saved_usd), MAX(COALESCE(ended_ms, started_ms)),
    MAX(CASE WHEN state = 'done' THEN ended_ms END)
FROM turns WHERE conversation = :conversation AND via <> 'fork';

-- name: state_of(conversation)^
-- The most urgent state of what is not finished, else that of the newest turn that had begun. A question that can be
-- answered needs the user, also if its run has ended.
SELECT state
FROM (
    SELECT id, started_ms, CASE WHEN id IN (
        SELECT run FROM asked WHERE conversation = :conversation
    ) THEN 'needs_you' ELSE state END AS state
    FROM turns WHERE conversation = :conversation AND via <> 'fork'
        AND (state <> 'withdrawn' OR id IN (SELECT run FROM asked WHERE conversation = :conversation))
) AS shown
ORDER BY
    CASE state WHEN 'needs_you' THEN 1 WHEN 'running' THEN 2 WHEN 'parked' THEN 3 WHEN 'queued' THEN 4 ELSE 5 END,
    started_ms DESC, id DESC
LIMIT 1;

-- name: marks()
SELECT id, starred, read_ms FROM conversations;

-- name: star(id, starred)!
UPDATE conversations SET starred = :starred WHERE id = :id AND starred <> :starred;

-- name: give_title(id, title)!
UPDATE conversations SET title = :title WHERE id = :id AND title <> :title;

-- name: mark_read(id)!
-- Nothing is written if nothing is new: whoever follows the changes would be told for nothing.
UPDATE conversations
SET read_ms = (
    SELECT MAX(t.ended_ms) FROM turns AS t
    WHERE t.conversation = conversations.id AND t.state = 'done' AND t.via <> 'fork'
)
WHERE id = :id AND EXISTS (
    SELECT 1 FROM turns AS t
    WHERE t.conversation = conversations.id AND t.state = 'done' AND t.via <> 'fork'
        AND t.ended_ms > COALESCE(conversations.read_ms, -1)
);

-- name: runs_in(state, conversation, count)
-- The newest runs in a state; of one conversation, or of all (empty).
SELECT id, started_ms FROM turns
WHERE state = :state AND (CAST(:conversation AS TEXT) = '' OR conversation = :conversation)
ORDER BY started_ms DESC, id DESC LIMIT :count;

-- name: last_used(before_ms, before, count)
-- Conversations in the order of their last use, after a place in that order.
SELECT id FROM (
    SELECT c.id AS id, COALESCE(MAX(COALESCE(t.ended_ms, t.started_ms)), c.created_ms) AS used_ms
    FROM conversations AS c LEFT JOIN turns AS t ON t.conversation = c.id AND t.via <> 'fork'
    GROUP BY c.id, c.created_ms
) AS u
WHERE used_ms < :before_ms OR (used_ms = :before_ms AND id < :before)
ORDER BY used_ms DESC, id DESC LIMIT :count;
