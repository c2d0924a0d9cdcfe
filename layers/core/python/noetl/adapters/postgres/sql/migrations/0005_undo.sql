-- Slots that come and go with step runs are found without reading the others: an execution may have registered many runs to undo.
CREATE INDEX slot_of_run ON noetl.slot (execution_id, scope) WHERE scope IN ('args', 'undo');
