-- History lies in partitions by execution id, which retention drops (docs/adr/0053). The table that there is becomes the only one: its bounds
-- refuse no row, so nothing is read or moved here. Maintenance cuts it (functions/80_history.sql).
ALTER TABLE noetl.event RENAME TO event_0;
ALTER INDEX noetl.event_pkey RENAME TO event_0_pkey;
ALTER INDEX noetl.event_main RENAME TO event_0_execution_id_seq_idx;
ALTER INDEX noetl.event_item RENAME TO event_0_execution_id_lane_seq_idx;
CREATE TABLE noetl.event (LIKE noetl.event_0 INCLUDING CONSTRAINTS, PRIMARY KEY (execution_id, event_id)) PARTITION BY RANGE (execution_id);
CREATE UNIQUE INDEX event_main ON noetl.event (execution_id, seq) WHERE lane = 0;
CREATE INDEX event_item ON noetl.event (execution_id, lane, seq) WHERE lane <> 0;
ALTER TABLE noetl.event ATTACH PARTITION noetl.event_0 FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
