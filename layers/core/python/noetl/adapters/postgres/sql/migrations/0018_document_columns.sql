-- What the database looks at has columns of its own: operators of json refuse a document that holds a NUL or half of a surrogate pair
-- anywhere, and documents hold texts of users.

-- awaited_by: the run of the parent that waits for this execution; NULL when none does. program, path: of a Start.
ALTER TABLE noetl.execution ADD COLUMN awaited_by BIGINT;
ALTER TABLE noetl.outbox ADD COLUMN awaited_by BIGINT;
ALTER TABLE noetl.outbox ADD COLUMN program TEXT NOT NULL DEFAULT '';
ALTER TABLE noetl.outbox ADD COLUMN path TEXT NOT NULL DEFAULT '';

-- Whether a command stands for work that goes on outside of this system.
ALTER TABLE noetl.command ADD COLUMN remote BOOLEAN NOT NULL DEFAULT false;

-- The queue that a trigger of the kind sqs watches.
ALTER TABLE noetl.trigger ADD COLUMN queue TEXT;

-- Their signatures change: they are made again with the functions of this version.
DROP FUNCTION IF EXISTS noetl.commit_changes;
DROP FUNCTION IF EXISTS noetl.commit_items;
DROP FUNCTION IF EXISTS noetl.continue_items;
DROP FUNCTION IF EXISTS noetl.post;
DROP FUNCTION IF EXISTS noetl.is_given_up;
