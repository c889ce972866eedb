-- What following GitHub remembers of a link, a comment and a task.

ALTER TABLE link ADD COLUMN comments_seen_ms  INTEGER; -- comments are stored as of this change of the item, by the tracker's clock
ALTER TABLE link ADD COLUMN comments_since_ms INTEGER; -- when the newest stored comment was written, by the tracker's clock
ALTER TABLE link ADD COLUMN acted_at_ms       INTEGER; -- the closing that ended the task, by the tracker's clock
ALTER TABLE link ADD COLUMN acted_seq         INTEGER; -- the newest event when it did
ALTER TABLE link ADD COLUMN forced_at_ms      INTEGER; -- a batch was forced then: earlier closings do not act
ALTER TABLE link ADD COLUMN forced_seq        INTEGER;
ALTER TABLE link ADD COLUMN question          TEXT;    -- the blocker that asks about its closing

ALTER TABLE comment ADD COLUMN news     INTEGER NOT NULL DEFAULT 0; -- written after the link was made
ALTER TABLE comment ADD COLUMN told_seq INTEGER;                    -- the event that told of it
CREATE INDEX comment_task ON comment (task);
CREATE INDEX comment_link ON comment (link);
CREATE INDEX comment_untold ON comment (task) WHERE news = 1 AND told_seq IS NULL;

ALTER TABLE task ADD COLUMN origin TEXT;               -- where somebody who is not trusted wrote it: its text is data

CREATE INDEX github_cache_time ON github_cache (fetched_at_ms);

PRAGMA user_version = 2;
