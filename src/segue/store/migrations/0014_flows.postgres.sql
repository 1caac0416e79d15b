CREATE TABLE artefacts (
    hash TEXT PRIMARY KEY NOT NULL,
    data BYTEA NOT NULL
);

CREATE OR REPLACE FUNCTION feed_append() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE number BIGINT; changed RECORD; owner TEXT; turn_id TEXT; part TEXT; what TEXT; BEGIN INSERT INTO counters AS c (name, n) VALUES ('feed', 1) ON CONFLICT (name) DO UPDATE SET n = c.n + 1 RETURNING c.n INTO number; what := TG_ARGV[0]; IF TG_OP = 'DELETE' THEN changed := OLD; ELSE changed := NEW; END IF; CASE what WHEN 'conversation' THEN owner := changed.id; WHEN 'removed' THEN owner := changed.id; part := changed.key; WHEN 'message' THEN owner := changed.conversation; part := changed.id; WHEN 'run' THEN owner := changed.conversation; turn_id := changed.id; WHEN 'flow' THEN part := changed.id; WHEN 'flow_step' THEN part := changed.flow; what := 'flow'; ELSE turn_id := changed.turn; part := changed.seq; SELECT conversation INTO owner FROM turns WHERE id = turn_id; END CASE; INSERT INTO feed VALUES (number, what, owner, turn_id, part, now_ms()); RETURN NULL; END $$;

CREATE CONSTRAINT TRIGGER feed_flow AFTER INSERT OR UPDATE ON flows
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION feed_append('flow');

CREATE CONSTRAINT TRIGGER feed_flow_step AFTER INSERT OR UPDATE ON flow_steps
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION feed_append('flow_step');
