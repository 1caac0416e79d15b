CREATE TABLE artefacts (
    hash TEXT PRIMARY KEY NOT NULL,
    data BLOB NOT NULL
) STRICT;

CREATE TRIGGER feed_flow_new AFTER INSERT ON flows BEGIN INSERT INTO counters (name, n) VALUES ('feed', 1) ON CONFLICT (name) DO UPDATE SET n = n + 1; INSERT INTO feed SELECT n, 'flow', NULL, NULL, NEW.id, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) FROM counters WHERE name = 'feed'; END;

CREATE TRIGGER feed_flow AFTER UPDATE ON flows BEGIN INSERT INTO counters (name, n) VALUES ('feed', 1) ON CONFLICT (name) DO UPDATE SET n = n + 1; INSERT INTO feed SELECT n, 'flow', NULL, NULL, NEW.id, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) FROM counters WHERE name = 'feed'; END;

CREATE TRIGGER feed_flow_step_new AFTER INSERT ON flow_steps BEGIN INSERT INTO counters (name, n) VALUES ('feed', 1) ON CONFLICT (name) DO UPDATE SET n = n + 1; INSERT INTO feed SELECT n, 'flow', NULL, NULL, NEW.flow, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) FROM counters WHERE name = 'feed'; END;

CREATE TRIGGER feed_flow_step AFTER UPDATE ON flow_steps BEGIN INSERT INTO counters (name, n) VALUES ('feed', 1) ON CONFLICT (name) DO UPDATE SET n = n + 1; INSERT INTO feed SELECT n, 'flow', NULL, NULL, NEW.flow, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) FROM counters WHERE name = 'feed'; END;
