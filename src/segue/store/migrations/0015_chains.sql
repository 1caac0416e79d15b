-- What the turns of flows did that must not be done too often. scope: whose cooldowns they are. count: how often in this
-- step. They outlive their flow.
CREATE TABLE flow_actions (
    flow TEXT NOT NULL,
    step TEXT NOT NULL,
    scope TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    count INTEGER NOT NULL,
    ms INTEGER NOT NULL,
    PRIMARY KEY (flow, step, kind, key)
) STRICT;

CREATE INDEX flow_actions_scope ON flow_actions (scope, ms);

-- Chains are walked in both directions.
CREATE INDEX turns_retry ON turns (retry_of) WHERE retry_of IS NOT NULL;
