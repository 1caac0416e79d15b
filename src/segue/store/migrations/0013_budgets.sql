-- The amounts that the user has raised budgets to. scope: conversation, day or account. name: the conversation's id, the
-- account, or empty. day: the local date that it is for; empty if it is for the whole conversation.
CREATE TABLE raised_budgets (
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    day TEXT NOT NULL,
    usd REAL NOT NULL,
    conversation TEXT REFERENCES conversations (id) ON DELETE CASCADE,
    raised_ms INTEGER NOT NULL,
    PRIMARY KEY (scope, name, day)
) STRICT;

-- What turns cost since midnight is looked at before each turn.
CREATE INDEX turns_spent ON turns (ended_ms) WHERE cost_usd IS NOT NULL;

-- What was asked for, as JSON, if the run never began: the answer runs it once more.
ALTER TABLE questions ADD COLUMN request TEXT;
