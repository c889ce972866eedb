-- What is understood of an agent's output, and the session of an earlier attempt that one goes on with.

ALTER TABLE attempt ADD COLUMN format        TEXT;    -- how its output is read: a `SuccessRule`
ALTER TABLE attempt ADD COLUMN cached_tokens INTEGER; -- of `tokens`, those that the model read from a cache
ALTER TABLE attempt ADD COLUMN output_tokens INTEGER; -- of `tokens`, those that the model wrote
ALTER TABLE attempt ADD COLUMN resumes       TEXT;    -- the session that it was started to go on with
CREATE INDEX attempt_used ON attempt (batch) WHERE tokens IS NOT NULL OR cost_micro_usd IS NOT NULL;

PRAGMA user_version = 4;
