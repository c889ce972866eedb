-- Output of an agent that could not be written.

ALTER TABLE attempt ADD COLUMN output_lost INTEGER NOT NULL DEFAULT 0; -- in bytes

PRAGMA user_version = 6;
