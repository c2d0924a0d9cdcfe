-- History lies in partitions by execution id, and ids begin with their time (docs/adr/0053). The first partition has no beginning and the
-- last one no end, so that every id has a place, by any clock. Maintenance cuts the last one ahead of time and folds those that
-- are over. A fold drops partitions and keeps the rows of executions that are still there.
--
-- Both change the table under a lock that stops every commit, so they wait for it for a moment only, and are tried again later. They take
-- the lock of the table before any other, as every statement does; a weaker lock, which only they take, keeps two of them apart. The role
-- of the functions may not change the schema: these run as its owner, and remove no row of an execution that is there.

-- The partitions in the order of their ids. low NULL: without a beginning; past NULL: without an end.
CREATE OR REPLACE FUNCTION noetl.history_parts() RETURNS TABLE (part OID, name TEXT, low BIGINT, past BIGINT)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
    SELECT c.oid, c.relname::text, substring(b.bounds FROM 'FROM \(''(\d+)''\)')::bigint, substring(b.bounds FROM 'TO \(''(\d+)''\)')::bigint
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    CROSS JOIN LATERAL (SELECT pg_get_expr(c.relpartbound, c.oid) AS bounds) b
    WHERE i.inhparent = 'noetl.event'::regclass
    ORDER BY 3 NULLS FIRST
$$;

-- End the last partition at an id, and begin a new one there. Rows of later ids go to the new one. Postgres reads the whole partition under
-- the lock, unless a valid constraint "history_end" shows that it holds no such row; so one of more than p_most bytes is left alone without it.
-- Returns 'cut', 'done' (there is an end at or behind this id), 'large' or 'busy' (ask again later).
CREATE OR REPLACE FUNCTION noetl.cut_history(p_at BIGINT, p_most BIGINT) RETURNS TEXT
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '250ms' AS $$
DECLARE
    last RECORD;
    proven BOOLEAN;
BEGIN
    LOCK TABLE ONLY noetl.event IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
    FOR look IN 1..2 LOOP
        SELECT * INTO STRICT last FROM noetl.history_parts() p WHERE p.past IS NULL;
        IF coalesce(last.low, 0) >= p_at THEN
            RETURN 'done';
        END IF;
        proven := EXISTS (
            SELECT FROM pg_constraint c WHERE c.conrelid = last.part AND c.conname = 'history_end' AND c.convalidated
               AND substring(pg_get_constraintdef(c.oid) FROM '< ''?(\d+)')::bigint <= p_at);
        IF NOT proven AND pg_relation_size(last.part) > p_most THEN
            RETURN 'large';
        END IF;
        IF look = 1 THEN
            LOCK TABLE ONLY noetl.event IN ACCESS EXCLUSIVE MODE;
        END IF;
    END LOOP;
    EXECUTE format('ALTER TABLE noetl.event DETACH PARTITION noetl.%I', last.name);
    EXECUTE format('CREATE TABLE noetl.%I PARTITION OF noetl.event FOR VALUES FROM (%s) TO (MAXVALUE) WITH (autovacuum_vacuum_scale_factor = 0.02)',
                   'event_' || p_at, p_at);
    EXECUTE format('WITH later AS (DELETE FROM noetl.%I WHERE execution_id >= %s RETURNING *) INSERT INTO noetl.event SELECT * FROM later',
                   last.name, p_at);
    EXECUTE format('ALTER TABLE noetl.event ATTACH PARTITION noetl.%I FOR VALUES FROM (%s) TO (%s)',
                   last.name, coalesce(last.low::text, 'MINVALUE'), p_at);
    EXECUTE format('ALTER TABLE noetl.%I DROP CONSTRAINT IF EXISTS history_end', last.name);
    RETURN 'cut';
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    RETURN 'busy';
END $$;

-- Which ids have their history removed by folds, once their executions are gone: deferred_from <= id < deferred_until. Not those of
-- partitions that ended by p_overdue, or are being swept: too much in them is still needed for a fold. Nor those of partitions that end
-- after p_soon, or never.
CREATE OR REPLACE FUNCTION noetl.deferred_history(p_overdue BIGINT, p_soon BIGINT) RETURNS TABLE (deferred_from BIGINT, deferred_until BIGINT)
LANGUAGE sql STABLE AS $$
    SELECT coalesce(max(p.past) FILTER (WHERE p.past <= p_overdue OR obj_description(p.part, 'pg_class') IS NOT NULL), 0),
           coalesce(max(p.past) FILTER (WHERE p.past <= p_soon), 0)
    FROM noetl.history_parts() p
$$;

-- How many rows of executions that are there a partition holds, and their bytes; neither is counted further than p_most rows and one more.
CREATE OR REPLACE FUNCTION noetl.history_needed(p_low BIGINT, p_past BIGINT, p_most BIGINT, OUT needed BIGINT, OUT size BIGINT)
LANGUAGE sql STABLE AS $$
    SELECT count(*), coalesce(sum(n.size), 0) FROM (
        SELECT v.size FROM noetl.execution e CROSS JOIN LATERAL (
            SELECT pg_column_size(v.facts) AS size FROM noetl.event v WHERE v.execution_id = e.execution_id OFFSET 0) v
        WHERE e.execution_id >= coalesce(p_low, 0) AND e.execution_id < p_past LIMIT p_most + 1
    ) n
$$;

-- Put neighbours that ended by p_past into one new partition, with the rows that are still needed, and drop them: the first ones that need
-- at most p_most rows (a kilobyte each) together. One alone is worth it when it is twice as large as that. Returns 'folded', 'done' or 'busy'.
CREATE OR REPLACE FUNCTION noetl.fold_history(p_past BIGINT, p_most BIGINT) RETURNS TEXT
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '250ms' AS $$
DECLARE
    one RECORD;
    parts OID[] := '{}';
    first_low BIGINT;
    last_past BIGINT;
    rows_needed BIGINT;
    bytes_needed BIGINT;
    folding OID;
BEGIN
    LOCK TABLE ONLY noetl.event IN SHARE UPDATE EXCLUSIVE MODE NOWAIT;
    FOR one IN SELECT p.part, p.low, p.past, n.needed, n.size, pg_relation_size(p.part) > 2048 * p_most AS large
               FROM noetl.history_parts() p CROSS JOIN LATERAL noetl.history_needed(p.low, p.past, p_most) n
               WHERE p.past <= p_past ORDER BY p.past
    LOOP
        IF cardinality(parts) > 0 AND rows_needed + one.needed <= p_most AND bytes_needed + one.size <= 1024 * p_most THEN
            parts := parts || one.part;
            rows_needed := rows_needed + one.needed;
            bytes_needed := bytes_needed + one.size;
        ELSE
            EXIT WHEN cardinality(parts) > 1;
            parts := '{}';
            CONTINUE WHEN one.needed > p_most OR one.size > 1024 * p_most;
            parts := ARRAY[one.part];
            first_low := one.low;
            rows_needed := one.needed;
            bytes_needed := one.size;
        END IF;
        last_past := one.past;
        EXIT WHEN one.large AND cardinality(parts) = 1;
    END LOOP;
    IF cardinality(parts) = 0 OR cardinality(parts) = 1 AND pg_relation_size(parts[1]) <= 2048 * p_most THEN
        RETURN 'done';
    END IF;

    LOCK TABLE ONLY noetl.event IN ACCESS EXCLUSIVE MODE;
    CREATE TABLE noetl.event_fold (LIKE noetl.event INCLUDING CONSTRAINTS INCLUDING INDEXES) WITH (autovacuum_vacuum_scale_factor = 0.02);
    INSERT INTO noetl.event_fold
    SELECT v.* FROM noetl.execution e CROSS JOIN LATERAL (SELECT v.* FROM noetl.event v WHERE v.execution_id = e.execution_id OFFSET 0) v
    WHERE e.execution_id >= coalesce(first_low, 0) AND e.execution_id < last_past;
    FOREACH folding IN ARRAY parts LOOP
        EXECUTE format('ALTER TABLE noetl.event DETACH PARTITION %s', folding::regclass);
        EXECUTE format('DROP TABLE %s', folding::regclass);
    END LOOP;
    EXECUTE format('ALTER TABLE noetl.event ATTACH PARTITION noetl.event_fold FOR VALUES FROM (%s) TO (%s)',
                   coalesce(first_low::text, 'MINVALUE'), last_past);
    EXECUTE format('ALTER TABLE noetl.event_fold RENAME TO %I', 'event_' || coalesce(first_low, 0));
    RETURN 'folded';
EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
    RETURN 'busy';
END $$;

-- Delete rows whose execution is gone from partitions that ended by p_past and were not folded, p_limit rows and executions at most. The
-- comment of a partition says how far that has come. Returns 'swept' (ask again), 'done' or 'busy'.
CREATE OR REPLACE FUNCTION noetl.sweep_history(p_past BIGINT, p_limit BIGINT) RETURNS TEXT
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '250ms' AS $$
DECLARE
    here RECORD;
    ids BIGINT[];
    gone BIGINT;
BEGIN
    SELECT p.*, coalesce(substring(obj_description(p.part, 'pg_class') FROM 'swept to (\d+)')::bigint, coalesce(p.low, 0) - 1) AS after
    INTO here FROM noetl.history_parts() p
    WHERE p.past <= p_past AND obj_description(p.part, 'pg_class') IS DISTINCT FROM 'swept' ORDER BY p.past LIMIT 1;
    IF NOT FOUND THEN
        RETURN 'done';
    END IF;
    EXECUTE format('LOCK TABLE noetl.%I IN SHARE UPDATE EXCLUSIVE MODE', here.name);
    EXECUTE format($sql$
        WITH RECURSIVE walk AS (
            (SELECT v.execution_id AS id, 1 AS place FROM noetl.%1$I v WHERE v.execution_id > $1 ORDER BY v.execution_id LIMIT 1)
            UNION ALL
            SELECT (SELECT v.execution_id FROM noetl.%1$I v WHERE v.execution_id > w.id ORDER BY v.execution_id LIMIT 1), w.place + 1
            FROM walk w WHERE w.id IS NOT NULL AND w.place < $2
        ) SELECT coalesce(array_agg(w.id ORDER BY w.id), '{}') FROM walk w WHERE w.id IS NOT NULL
    $sql$, here.name) INTO ids USING here.after, p_limit;
    EXECUTE format($sql$
        DELETE FROM noetl.%1$I v USING (
            SELECT v.execution_id, v.event_id FROM unnest($1) AS i (id) CROSS JOIN LATERAL (
                SELECT v.execution_id, v.event_id FROM noetl.%1$I v WHERE v.execution_id = i.id OFFSET 0) v
            WHERE NOT EXISTS (SELECT FROM noetl.execution e WHERE e.execution_id = i.id) LIMIT $2
        ) old WHERE v.execution_id = old.execution_id AND v.event_id = old.event_id
    $sql$, here.name) USING ids, p_limit;
    GET DIAGNOSTICS gone = ROW_COUNT;
    IF gone < p_limit THEN
        EXECUTE format('COMMENT ON TABLE noetl.%I IS %L', here.name,
                       CASE WHEN cardinality(ids) < p_limit THEN 'swept' ELSE 'swept to ' || ids[cardinality(ids)] END);
    END IF;
    RETURN 'swept';
EXCEPTION WHEN lock_not_available OR deadlock_detected OR undefined_table THEN
    RETURN 'busy';
END $$;

REVOKE EXECUTE ON FUNCTION noetl.cut_history, noetl.fold_history, noetl.sweep_history FROM PUBLIC;
