-- Children that are not over, and ended ones below which something may not be, are found without reading all the others.
ALTER TABLE noetl.execution ADD COLUMN leads_on BOOLEAN NOT NULL DEFAULT false;
CREATE INDEX execution_child_live ON noetl.execution (parent_execution_id) WHERE ended_at IS NULL AND parent_execution_id IS NOT NULL;
WITH RECURSIVE above AS (
    SELECT e.parent_execution_id AS id FROM noetl.execution e WHERE e.ended_at IS NULL AND e.parent_execution_id IS NOT NULL
    UNION
    SELECT o.source FROM noetl.outbox o WHERE starts_with(o.event_id, 'start') AND o.execution_id <> o.source
    UNION
    SELECT e.parent_execution_id FROM above l JOIN noetl.execution e ON e.execution_id = l.id WHERE e.parent_execution_id IS NOT NULL
)
UPDATE noetl.execution e SET leads_on = true FROM above l WHERE e.execution_id = l.id AND e.parent_execution_id IS NOT NULL;
CREATE INDEX execution_leading ON noetl.execution (parent_execution_id) WHERE leads_on AND parent_execution_id IS NOT NULL;
