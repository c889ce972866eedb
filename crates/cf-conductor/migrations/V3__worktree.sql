-- Git worktrees of attempts, and the commit that a batch starts from.

ALTER TABLE batch ADD COLUMN base TEXT;           -- the commit that HEAD of the checkout stood on when it began

CREATE TABLE worktree (
    attempt TEXT PRIMARY KEY REFERENCES attempt (id),
    task    TEXT NOT NULL REFERENCES task (id),
    name    TEXT NOT NULL,                        -- its folder below .cf/worktrees
    branch  TEXT NOT NULL,                        -- the task's branch, by its short name
    base    TEXT,                                 -- the commit that its agent starts from; until then the branch is not cf's
    head    TEXT,                                 -- the newest commit of its finished work
    rescue  TEXT,                                 -- the ref under which is kept what it left
    removed_at_ms INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX worktree_task ON worktree (task);
CREATE INDEX worktree_branch ON worktree (branch);

PRAGMA user_version = 3;
