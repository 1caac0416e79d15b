-- Flows: functions whose steps are recorded, so that they can be entered again at any time. key: the caller's own name
-- for it, if it has one. source: where its code is (JSON); NULL for a flow that comes with Segue. input: what it was
-- started with (JSON). state: running, needs_you, parked, paused, done, failed, cancelled. needs: what it waits for.
-- wake_ms: parked until then. tree: the directory whose working tree it has for itself. host: where it runs.
-- asked: pause or cancel, until whoever runs it has done so. ending: its end in the flow's own word; result: what it
-- returned (JSON), or the hash of it.
CREATE TABLE flows (
    id TEXT PRIMARY KEY NOT NULL,
    key TEXT UNIQUE,
    kind TEXT NOT NULL,
    version INTEGER NOT NULL,
    source TEXT,
    label TEXT NOT NULL,
    input TEXT NOT NULL,
    state TEXT NOT NULL,
    needs TEXT,
    wake_ms INTEGER,
    cwd TEXT NOT NULL,
    tree TEXT,
    host TEXT NOT NULL,
    asked TEXT,
    rounds INTEGER NOT NULL,
    ending TEXT,
    result TEXT,
    artefact TEXT,
    failure TEXT,
    created_ms INTEGER NOT NULL,
    ended_ms INTEGER
) STRICT;

CREATE INDEX flows_created ON flows (created_ms, id);

CREATE INDEX flows_unfinished ON flows (state) WHERE state IN ('running', 'needs_you', 'parked', 'paused');

-- The steps of a flow. tries: how often it was begun. n: its place in the order in which steps began; NULL: it was taken back, and begins anew.
-- together: the group of steps that ran at the same time; empty: it ran alone. kind: step, turn, ask, wait. state:
-- running, waiting (for an answer), done, failed. run: of a turn; previous: the run of the try before it. question: what was
-- asked (JSON). result: JSON; a large one is an artefact, by its hash. wake_ms: when a step that waits goes on.
CREATE TABLE flow_steps (
    flow TEXT NOT NULL REFERENCES flows (id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    tries INTEGER NOT NULL,
    n INTEGER,
    together TEXT NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    run TEXT,
    previous TEXT,
    conversation TEXT,
    agent TEXT,
    role TEXT,
    tier INTEGER,
    question TEXT,
    result TEXT,
    artefact TEXT,
    failure TEXT,
    wake_ms INTEGER,
    began_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    PRIMARY KEY (flow, key)
) STRICT;

-- What flows keep that is large: each content once, by its hash. name: of the step whose result it is, or another one.
CREATE TABLE flow_artefacts (
    flow TEXT NOT NULL REFERENCES flows (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    hash TEXT NOT NULL,
    media_type TEXT NOT NULL,
    size INTEGER NOT NULL,
    made_ms INTEGER NOT NULL,
    PRIMARY KEY (flow, name)
) STRICT;

CREATE INDEX flow_artefacts_hash ON flow_artefacts (hash);

-- The turns of flows: which step they belong to, and which tier of a chain. The role is that of the voice.
ALTER TABLE turns ADD COLUMN flow TEXT;

ALTER TABLE turns ADD COLUMN step TEXT;

ALTER TABLE turns ADD COLUMN tier INTEGER;

CREATE INDEX turns_flow ON turns (flow, step, started_ms) WHERE flow IS NOT NULL;

CREATE INDEX turns_role ON turns (role, tier) WHERE role <> '';

CREATE INDEX lineage_parent ON lineage (parent);
