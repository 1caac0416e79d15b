
CREATE FUNCTION feed_append() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE number BIGINT; changed RECORD; owner TEXT; turn_id TEXT; part TEXT; what TEXT; BEGIN INSERT INTO counters AS c (name, n) VALUES ('feed', 1) ON CONFLICT (name) DO UPDATE SET n = c.n + 1 RETURNING c.n INTO number; what := TG_ARGV[0]; IF TG_OP = 'DELETE' THEN changed := OLD; ELSE changed := NEW; END IF; CASE what WHEN 'conversation' THEN owner := changed.id; WHEN 'removed' THEN owner := changed.id; part := changed.key; WHEN 'message' THEN owner := changed.conversation; part := changed.id; WHEN 'run' THEN owner := changed.conversation; turn_id := changed.id; ELSE turn_id := changed.turn; part := changed.seq; SELECT conversation INTO owner FROM turns WHERE id = turn_id; END CASE; INSERT INTO feed VALUES (number, what, owner, turn_id, part, now_ms()); RETURN NULL; END $$;

CREATE TRIGGER feed_conversation AFTER INSERT OR UPDATE ON conversations FOR EACH ROW EXECUTE FUNCTION feed_append('conversation');

CREATE TRIGGER feed_conversation_gone AFTER DELETE ON conversations FOR EACH ROW EXECUTE FUNCTION feed_append('removed');

CREATE TRIGGER feed_message AFTER UPDATE ON messages FOR EACH ROW EXECUTE FUNCTION feed_append('message');

CREATE TRIGGER feed_run AFTER INSERT OR UPDATE OF state, mode, place, not_before_ms, question, message, cancel_asked_ms ON turns FOR EACH ROW EXECUTE FUNCTION feed_append('run');

CREATE TRIGGER feed_event AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION feed_append('event');
