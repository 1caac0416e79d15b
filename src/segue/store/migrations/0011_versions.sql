-- The version of the CLI that ran a turn, so that usage can be added up by it. Earlier turns did not record it.
ALTER TABLE turns ADD COLUMN agent_version TEXT;

-- The list of conversations adds up all turns from this index alone: their reports are long.
DROP INDEX turns_conversation;

CREATE INDEX turns_conversation ON turns (
    conversation, started_ms, id, state, via, ended_ms, input, cache_read, cache_write, output, cost_usd, cost_estimated,
    saved_usd
);
