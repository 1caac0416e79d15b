
DROP TRIGGER feed_run ON turns;

CREATE CONSTRAINT TRIGGER feed_run
AFTER INSERT OR UPDATE OF state, mode, place, not_before_ms, question, message, cancel_asked_ms, held_by, waits ON turns
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION feed_append('run');
