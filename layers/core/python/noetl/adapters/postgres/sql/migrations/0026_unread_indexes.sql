-- No query reads them: lists go by the primary key, and a status that is a parameter fits no partial index. They cost an entry for each
-- version of an execution that finds no room beside the one before.
DROP INDEX noetl.execution_live;
ALTER TABLE noetl.execution DROP CONSTRAINT execution_namespace_execution_id_key;
