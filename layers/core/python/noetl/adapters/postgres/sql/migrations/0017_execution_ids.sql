-- An execution id belongs to one Start; the ids of Starts of children say which parent asked (domain/ids.py).
DROP INDEX noetl.outbox_source;
CREATE INDEX outbox_source ON noetl.outbox (source) WHERE starts_with(event_id, 'start');
CREATE UNIQUE INDEX outbox_start ON noetl.outbox (execution_id) WHERE starts_with(event_id, 'start');
