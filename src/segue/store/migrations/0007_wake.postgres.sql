
-- The numbers are drawn at the end of a transaction, when it needs no other lock any more: whoever has drawn one
-- commits before the next is drawn, and nobody waits for a whole transaction of another writer.
DROP TRIGGER feed_conversation ON conversations;

DROP TRIGGER feed_conversation_gone ON conversations;

DROP TRIGGER feed_message ON messages;

DROP TRIGGER feed_run ON turns;

DROP TRIGGER feed_event ON events;

CREATE CONSTRAINT TRIGGER feed_conversation AFTER INSERT OR UPDATE ON conversations
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION feed_append('conversation');

CREATE CONSTRAINT TRIGGER feed_conversation_gone AFTER DELETE ON conversations
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION feed_append('removed');

CREATE CONSTRAINT TRIGGER feed_message AFTER UPDATE ON messages
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION feed_append('message');

CREATE CONSTRAINT TRIGGER feed_run
AFTER INSERT OR UPDATE OF state, mode, place, not_before_ms, question, message, cancel_asked_ms ON turns
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION feed_append('run');

CREATE CONSTRAINT TRIGGER feed_event AFTER INSERT ON events
DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION feed_append('event');

-- A notification is sent at commit, and only once for a transaction.
CREATE FUNCTION feed_notify() RETURNS trigger LANGUAGE plpgsql
AS $$ BEGIN PERFORM pg_notify('segue_feed', ''); RETURN NULL; END $$;

CREATE TRIGGER feed_notify AFTER INSERT ON feed FOR EACH STATEMENT EXECUTE FUNCTION feed_notify();
