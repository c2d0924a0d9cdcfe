-- How long executions rest (domain/state.py: rest_until): the seconds of rests that are over, and since when and until when at most the
-- present one lasts. What rested before this migration counts as work.

ALTER TABLE noetl.execution ADD COLUMN rested FLOAT8 NOT NULL DEFAULT 0, ADD COLUMN rests_since TIMESTAMPTZ, ADD COLUMN rests_until TIMESTAMPTZ;
