-- History is one plain table (docs/adr/0040). The default partition becomes it, so no row of it is moved; rows of partitions that an operator
-- attached are.
ALTER TABLE noetl.event DETACH PARTITION noetl.event_default;
DO $$
DECLARE
    attached REGCLASS;
BEGIN
    FOR attached IN SELECT i.inhrelid::regclass FROM pg_inherits i WHERE i.inhparent = 'noetl.event'::regclass LOOP
        EXECUTE format('INSERT INTO noetl.event_default SELECT * FROM %s', attached);
    END LOOP;
END $$;
DROP TABLE noetl.event;
ALTER TABLE noetl.event_default RENAME TO event;
ALTER INDEX noetl.event_default_pkey RENAME TO event_pkey;
ALTER INDEX noetl.event_default_execution_id_seq_idx RENAME TO event_main;
ALTER INDEX noetl.event_default_execution_id_lane_seq_idx RENAME TO event_item;
ALTER TABLE noetl.event SET (autovacuum_vacuum_scale_factor = 0.02);
