-- How the tasks of an ended batch ended, so that a list of batches reads a row for each and not every task of a year.

CREATE TABLE batch_total (
    batch          TEXT    PRIMARY KEY REFERENCES batch (id), -- ended; one that is resumed loses its row
    completed      INTEGER NOT NULL,
    failed         INTEGER NOT NULL,
    blocked        INTEGER NOT NULL,
    skipped        INTEGER NOT NULL,
    cancelled      INTEGER NOT NULL,
    tokens         INTEGER,                           -- that its agents report, at most 2^53
    cost_micro_usd INTEGER                            -- likewise
) STRICT, WITHOUT ROWID;

-- Nobody else writes meanwhile, and the copy that was made before has read far more.
INSERT INTO batch_total (batch, completed, failed, blocked, skipped, cancelled, tokens, cost_micro_usd)
SELECT batch,
       count(*) FILTER (WHERE outcome = 'COMPLETED'), count(*) FILTER (WHERE outcome = 'FAILED'),
       count(*) FILTER (WHERE outcome = 'BLOCKED'), count(*) FILTER (WHERE outcome = 'SKIPPED'),
       count(*) FILTER (WHERE outcome = 'CANCELLED'),
       (SELECT CAST(min(sum(tokens + 0.0), 9007199254740992) AS INTEGER) FROM attempt
        WHERE attempt.batch = batch_task.batch AND (tokens IS NOT NULL OR cost_micro_usd IS NOT NULL)),
       (SELECT CAST(min(sum(cost_micro_usd + 0.0), 9007199254740992) AS INTEGER) FROM attempt
        WHERE attempt.batch = batch_task.batch AND (tokens IS NOT NULL OR cost_micro_usd IS NOT NULL))
FROM batch_task
WHERE batch IN (SELECT id FROM batch WHERE status NOT IN ('PENDING','RUNNING'))
GROUP BY batch HAVING count(*) = count(outcome);

PRAGMA user_version = 8;
