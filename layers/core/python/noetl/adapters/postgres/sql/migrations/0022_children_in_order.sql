-- Retention reads the children of an execution in pages.
DROP INDEX noetl.execution_parent;
CREATE INDEX execution_parent ON noetl.execution (parent_execution_id, execution_id) WHERE parent_execution_id IS NOT NULL;
