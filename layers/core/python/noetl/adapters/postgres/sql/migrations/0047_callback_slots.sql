-- Open callbacks of all executions are found without a look at other slots.
CREATE INDEX slot_callback ON noetl.slot (execution_id, name) WHERE scope = 'callback';
