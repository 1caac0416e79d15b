-- What agents asked in their runs (JSON), and the answers (JSON). state: open until somebody answers; answered until the
-- agent has been told; told; lapsed if the run ended without an answer, so that it can be answered by a message; over if
-- it cannot be answered any more. next: the run whose message has the answer to a lapsed question.
CREATE TABLE questions (
    run TEXT NOT NULL REFERENCES turns (id) ON DELETE CASCADE,
    id TEXT NOT NULL,
    conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    question TEXT NOT NULL,
    state TEXT NOT NULL,
    answer TEXT,
    next TEXT,
    asked_ms INTEGER NOT NULL,
    PRIMARY KEY (run, id)
) STRICT;

CREATE INDEX questions_waiting ON questions (conversation) WHERE state IN ('open', 'lapsed');

CREATE INDEX questions_next ON questions (next) WHERE next IS NOT NULL;

-- What somebody can answer. A message that was dropped takes its questions with it.
CREATE VIEW asked AS
SELECT q.run, q.id, q.conversation, q.question, q.state, q.answer, q.next, q.asked_ms
FROM questions AS q JOIN turns AS t ON t.id = q.run JOIN messages AS m ON m.id = t.message
WHERE q.state IN ('open', 'lapsed') AND m.removed_ms IS NULL;

-- The column turns.question is no longer read; writing it tells followers that the run has changed.
INSERT INTO questions SELECT id, id, conversation, question, 'open', NULL, NULL, started_ms
FROM turns WHERE question IS NOT NULL;

-- The tools that a voice may use because the user answered "always" when it asked.
CREATE TABLE allowed_tools (
    conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    agent TEXT NOT NULL,
    role TEXT NOT NULL,
    tool TEXT NOT NULL,
    allowed_ms INTEGER NOT NULL,
    PRIMARY KEY (conversation, agent, role, tool)
) STRICT;
