-- Failed items of a loop are found without a look at the others. Items that succeed are not in it.
CREATE INDEX event_failed_item ON noetl.event (execution_id, lane, seq) WHERE lane > 0 AND type = 'call.error';
