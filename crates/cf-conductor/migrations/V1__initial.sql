-- Times are integers in milliseconds since the Unix epoch, UTC. Ids are hyphenated lower-case UUIDs.
-- `*_seq` columns hold the number of the event that a change was recorded under, so "newer than" is a comparison.

CREATE TABLE task (
    pk            INTEGER PRIMARY KEY,
    id            TEXT    NOT NULL UNIQUE,
    key           TEXT,
    title         TEXT    NOT NULL,
    description   TEXT    NOT NULL,
    run           TEXT,
    verify        TEXT,
    engine        TEXT,
    model         TEXT,
    timeout_ms    INTEGER,
    env           TEXT    NOT NULL,               -- a JSON object of strings
    priority      INTEGER NOT NULL,
    status        TEXT    NOT NULL CHECK (status IN ('BACKLOG','READY','IN_PROGRESS','BLOCKED','FAILED','DONE','MERGED')),
    version       INTEGER NOT NULL,               -- moves with every status write
    status_by     TEXT    NOT NULL,               -- the actor of the last status write
    status_via    TEXT,                           -- the attempt whose question was answered by that write
    status_seq    INTEGER NOT NULL,               -- the event of that write
    claim         TEXT,                           -- the batch that works on it
    attempt       TEXT,                           -- its newest attempt
    generation    INTEGER NOT NULL,               -- how many attempts there were
    created_at_ms INTEGER NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    deleted_at_ms INTEGER                         -- deleted tasks stay for history
) STRICT;
CREATE UNIQUE INDEX task_key ON task (key) WHERE key IS NOT NULL AND deleted_at_ms IS NULL;
CREATE INDEX task_status ON task (status) WHERE deleted_at_ms IS NULL;

CREATE TABLE dependency (
    task       TEXT NOT NULL REFERENCES task (id),
    depends_on TEXT NOT NULL REFERENCES task (id),
    PRIMARY KEY (task, depends_on)
) STRICT, WITHOUT ROWID;
CREATE INDEX dependency_reverse ON dependency (depends_on);

CREATE TABLE link (
    pk            INTEGER PRIMARY KEY,
    task          TEXT    NOT NULL REFERENCES task (id),
    kind          TEXT    NOT NULL CHECK (kind IN ('issue','pr')),
    host          TEXT    NOT NULL,
    repo          TEXT    NOT NULL COLLATE NOCASE,
    number        INTEGER NOT NULL,
    created_at_ms INTEGER NOT NULL,
    spent         TEXT,                           -- the closure that acted already and was overruled
    UNIQUE (task, host, repo, number)
) STRICT;

CREATE TABLE blocker (
    pk             INTEGER PRIMARY KEY,
    id             TEXT    NOT NULL UNIQUE,
    task           TEXT    REFERENCES task (id),
    question       TEXT    NOT NULL,
    answer         TEXT,
    status         TEXT    NOT NULL CHECK (status IN ('OPEN','ANSWERED','RESOLVED')),
    asked_by       TEXT    NOT NULL CHECK (asked_by IN ('system','agent','human')),
    asked_attempt  TEXT,
    asked_at_ms    INTEGER NOT NULL,
    answered_at_ms INTEGER,
    asked_seq      INTEGER NOT NULL,
    closed_seq     INTEGER                        -- the event that answered or resolved it
) STRICT;
CREATE INDEX blocker_task ON blocker (task);
CREATE INDEX blocker_attempt ON blocker (asked_attempt) WHERE asked_attempt IS NOT NULL;
CREATE INDEX blocker_open ON blocker (status) WHERE status = 'OPEN';

CREATE TABLE comment (
    pk          INTEGER PRIMARY KEY,
    task        TEXT    NOT NULL REFERENCES task (id),
    link        INTEGER NOT NULL REFERENCES link (pk) ON DELETE CASCADE,
    remote_id   TEXT    NOT NULL,
    author      TEXT    NOT NULL,
    trusted     INTEGER NOT NULL,
    body        TEXT    NOT NULL,
    at_ms       INTEGER NOT NULL,
    stored_seq  INTEGER NOT NULL,
    UNIQUE (task, link, remote_id)
) STRICT;

CREATE TABLE batch (
    pk            INTEGER PRIMARY KEY,
    id            TEXT    NOT NULL UNIQUE,
    status        TEXT    NOT NULL CHECK (status IN ('PENDING','RUNNING','COMPLETED','PARTIAL','FAILED','CANCELLED')),
    settings      TEXT    NOT NULL,               -- JSON, see `Settings`
    stop          TEXT    CHECK (stop IN ('drain','force')),
    exit_code     INTEGER,
    started_at_ms INTEGER NOT NULL,
    ended_at_ms   INTEGER
) STRICT;
CREATE INDEX batch_live ON batch (status) WHERE status IN ('PENDING','RUNNING');

CREATE TABLE batch_task (
    batch         TEXT    NOT NULL REFERENCES batch (id),
    position      INTEGER NOT NULL,
    task          TEXT    NOT NULL REFERENCES task (id),
    phase         TEXT    NOT NULL CHECK (phase IN ('waiting','queued','running','stopping','held','finished')),
    outcome       TEXT    CHECK (outcome IN ('COMPLETED','FAILED','BLOCKED','SKIPPED','CANCELLED')),
    reason        TEXT,
    attempts      INTEGER NOT NULL DEFAULT 0,     -- attempts in this batch
    failures      INTEGER NOT NULL DEFAULT 0,     -- how many of them failed by themselves, since take-up
    not_before_ms INTEGER,                        -- a retry is due then
    since_seq     INTEGER NOT NULL DEFAULT 0,     -- the event that began the hold, or gave the outcome
    take_up_seq   INTEGER NOT NULL DEFAULT 0,     -- status writes up to this event are not news to the batch
    started_at_ms INTEGER,
    ended_at_ms   INTEGER,
    PRIMARY KEY (batch, task),
    CHECK ((phase = 'finished') = (outcome IS NOT NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX batch_task_task ON batch_task (task);

CREATE TABLE attempt (
    pk              INTEGER PRIMARY KEY,
    id              TEXT    NOT NULL UNIQUE,
    task            TEXT    NOT NULL REFERENCES task (id),
    batch           TEXT    NOT NULL REFERENCES batch (id),
    generation      INTEGER NOT NULL,
    engine          TEXT    NOT NULL,
    stage           TEXT    NOT NULL CHECK (stage IN ('agent','verify')),
    supervisor      TEXT    NOT NULL,
    supervisor_pid  INTEGER NOT NULL,
    start_ticks     INTEGER NOT NULL,             -- of the supervisor, field 22 of /proc/PID/stat
    boot_id         TEXT    NOT NULL,
    pid_ns          INTEGER NOT NULL,
    open            INTEGER NOT NULL,             -- 1 until an exit record, a clean receipt, or `lost`
    ending          TEXT    CHECK (ending IN ('exited','killed','unclean','lost','never_started')),
    agent_ending    TEXT,                         -- JSON, how the agent's process ended
    success         INTEGER,
    reason          TEXT,
    report          TEXT,                         -- the status that the agent reported for its task
    last_said       TEXT,
    session         TEXT,
    tokens          INTEGER,
    cost_micro_usd  INTEGER,
    left_behind     INTEGER NOT NULL DEFAULT 0,
    record          TEXT,                         -- JSON, the exit record or kill receipt
    started_at_ms   INTEGER NOT NULL,
    ended_at_ms     INTEGER,
    UNIQUE (task, generation)
) STRICT;
CREATE INDEX attempt_open ON attempt (task) WHERE open = 1;
CREATE INDEX attempt_batch ON attempt (batch);

CREATE TABLE event (
    seq     INTEGER PRIMARY KEY,
    at_ms   INTEGER NOT NULL,
    type    TEXT    NOT NULL,
    task    TEXT,
    batch   TEXT,
    attempt TEXT,
    actor   TEXT    NOT NULL,
    data    TEXT    NOT NULL                      -- a JSON object
) STRICT;
CREATE INDEX event_task ON event (task, seq) WHERE task IS NOT NULL;
CREATE INDEX event_batch ON event (batch, seq) WHERE batch IS NOT NULL;
CREATE INDEX event_action ON event (batch, seq) WHERE json_extract(data, '$.action') IS NOT NULL;
CREATE TRIGGER event_is_append_only_update BEFORE UPDATE ON event
BEGIN SELECT raise(ABORT, 'the event log is append-only'); END;
CREATE TRIGGER event_is_append_only_delete BEFORE DELETE ON event
BEGIN SELECT raise(ABORT, 'the event log is append-only'); END;

CREATE TABLE github_cache (
    key           TEXT PRIMARY KEY,
    snapshot      TEXT NOT NULL,
    fetched_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

PRAGMA application_id = 1667637094;
PRAGMA user_version = 1;
