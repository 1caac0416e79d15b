
CREATE TRIGGER feed_conversation_new AFTER INSERT ON conversations BEGIN INSERT INTO counters (name, n) VALUES ('feed', 1) ON CONFLICT (name) DO UPDATE SET n = n + 1; INSERT INTO feed SELECT n, 'conversation', NEW.id, NULL, NULL, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) FROM counters WHERE name = 'feed'; END;

CREATE TRIGGER feed_conversation AFTER UPDATE ON conversations BEGIN INSERT INTO counters (name, n) VALUES ('feed', 1) ON CONFLICT (name) DO UPDATE SET n = n + 1; INSERT INTO feed SELECT n, 'conversation', NEW.id, NULL, NULL, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) FROM counters WHERE name = 'feed'; END;

CREATE TRIGGER feed_conversation_gone AFTER DELETE ON conversations BEGIN INSERT INTO counters (name, n) VALUES ('feed', 1) ON CONFLICT (name) DO UPDATE SET n = n + 1; INSERT INTO feed SELECT n, 'removed', OLD.id, NULL, OLD.key, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) FROM counters WHERE name = 'feed'; END;

CREATE TRIGGER feed_message AFTER UPDATE ON messages BEGIN INSERT INTO counters (name, n) VALUES ('feed', 1) ON CONFLICT (name) DO UPDATE SET n = n + 1; INSERT INTO feed SELECT n, 'message', NEW.conversation, NULL, NEW.id, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) FROM counters WHERE name = 'feed'; END;

CREATE TRIGGER feed_run_new AFTER INSERT ON turns BEGIN INSERT INTO counters (name, n) VALUES ('feed', 1) ON CONFLICT (name) DO UPDATE SET n = n + 1; INSERT INTO feed SELECT n, 'run', NEW.conversation, NEW.id, NULL, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) FROM counters WHERE name = 'feed'; END;

CREATE TRIGGER feed_run AFTER UPDATE OF state, mode, place, not_before_ms, question, message, cancel_asked_ms ON turns BEGIN INSERT INTO counters (name, n) VALUES ('feed', 1) ON CONFLICT (name) DO UPDATE SET n = n + 1; INSERT INTO feed SELECT n, 'run', NEW.conversation, NEW.id, NULL, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) FROM counters WHERE name = 'feed'; END;

CREATE TRIGGER feed_event AFTER INSERT ON events BEGIN INSERT INTO counters (name, n) VALUES ('feed', 1) ON CONFLICT (name) DO UPDATE SET n = n + 1; INSERT INTO feed SELECT n, 'event', (SELECT conversation FROM turns WHERE id = NEW.turn), NEW.turn, CAST(NEW.seq AS TEXT), NEW.ms FROM counters WHERE name = 'feed'; END;
