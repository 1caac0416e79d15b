-- Who is logged in is a wall: a pin belongs to a login, and messages name it. For what was said before that was
-- noted, the login counts that was first seen: in the conversation, where a pin names it, else in the whole store.
CREATE TABLE logins (
    agent TEXT NOT NULL,
    account TEXT NOT NULL,
    login TEXT NOT NULL,
    PRIMARY KEY (agent, account)
) STRICT;

CREATE TABLE conversation_logins (
    conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    agent TEXT NOT NULL,
    account TEXT NOT NULL,
    login TEXT NOT NULL,
    PRIMARY KEY (conversation, agent, account)
) STRICT;

-- A pin of nobody knows which login has none ('').
CREATE TABLE pins_by_login (
    conversation TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    role TEXT NOT NULL,
    agent TEXT NOT NULL,
    account TEXT NOT NULL,
    login TEXT NOT NULL,
    session TEXT NOT NULL REFERENCES sessions (id),
    succeeded_ms INTEGER NOT NULL,
    made_under TEXT NOT NULL,
    PRIMARY KEY (conversation, role, agent, account, login)
) STRICT;

INSERT INTO pins_by_login (conversation, role, agent, account, login, session, succeeded_ms, made_under)
SELECT conversation, role, agent, account, '', session, succeeded_ms, made_under FROM pins;

DROP TABLE pins;

ALTER TABLE pins_by_login RENAME TO pins;

CREATE INDEX pins_session ON pins (session);
