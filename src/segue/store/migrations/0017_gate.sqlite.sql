
DROP TRIGGER feed_run;

CREATE TRIGGER feed_run AFTER UPDATE OF state, mode, place, not_before_ms, question, message, cancel_asked_ms, held_by, waits ON turns BEGIN INSERT INTO counters (name, n) VALUES ('feed', 1) ON CONFLICT (name) DO UPDATE SET n = n + 1; INSERT INTO feed SELECT n, 'run', NEW.conversation, NEW.id, NULL, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) FROM counters WHERE name = 'feed'; END;
