-- What keeps a long log quick to read, and what lets a person shorten it.

-- The few events about a batch as a whole, among all about its tasks.
CREATE INDEX event_whole_batch ON event (batch, seq) WHERE task IS NULL AND batch IS NOT NULL;
-- Deletions of tasks, which a batch looks for among everything since its take-up.
CREATE INDEX event_deletion ON event (seq) WHERE type = 'TASK_DELETED';

-- Counting the tasks by status needs nothing but this index.
DROP INDEX task_status;
CREATE INDEX task_status ON task (status, deleted_at_ms) WHERE deleted_at_ms IS NULL;

-- Only events with a smaller number may be removed, and only `cf events prune` moves it. It never goes back.
CREATE TABLE event_horizon (
    pk  INTEGER PRIMARY KEY CHECK (pk = 1),
    seq INTEGER NOT NULL
) STRICT;
INSERT INTO event_horizon (pk, seq) VALUES (1, 0);
CREATE TRIGGER event_horizon_never_goes_back BEFORE UPDATE ON event_horizon WHEN NEW.seq < OLD.seq
BEGIN SELECT raise(ABORT, 'the horizon of the event log never goes back'); END;
CREATE TRIGGER event_horizon_stays BEFORE DELETE ON event_horizon
BEGIN SELECT raise(ABORT, 'the horizon of the event log never goes back'); END;

DROP TRIGGER event_is_append_only_delete;
CREATE TRIGGER event_is_append_only_delete BEFORE DELETE ON event
WHEN OLD.seq >= coalesce((SELECT seq FROM event_horizon), 0)
BEGIN SELECT raise(ABORT, 'the event log is append-only'); END;

PRAGMA user_version = 5;
