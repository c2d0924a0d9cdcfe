-- What both writing lanes use.
--
-- Functions are applied again whenever their text changes, after all migrations. A change of signature or meaning gets a new name:
-- the engine before this one still calls the old function while both run.

-- End the transaction, naming the executions that are in asked but not in given.
CREATE OR REPLACE FUNCTION noetl.refuse(asked BIGINT[], given BIGINT[]) RETURNS VOID
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'version conflict' USING ERRCODE = 'NE001', DETAIL = (
        SELECT coalesce(string_agg(DISTINCT lost.id::text, ','), '')
        FROM (SELECT unnest(asked) AS id EXCEPT ALL SELECT unnest(given)) lost
    );
END $$;

-- domain/owners.py: the queue holds what it has; what is held waits for its paused execution; an invocation's name says until when; anybody else has a lease.
CREATE OR REPLACE FUNCTION noetl.is_alive(whose TEXT) RETURNS BOOLEAN
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN whose IN ('queue', 'held') THEN true
        WHEN whose ~ '^until:[0-9]{1,12}:' THEN split_part(whose, ':', 2)::bigint > extract(epoch FROM clock_timestamp())
        WHEN starts_with(whose, 'until:') THEN false
        ELSE EXISTS (SELECT FROM noetl.runtime r WHERE r.owner = whose AND r.lease_until > clock_timestamp())
    END
$$;

-- The pool and the worker (``pool:worker``) that an owner's name is the lease of; NULL for other owners.
CREATE OR REPLACE FUNCTION noetl.leaseholder(whose TEXT) RETURNS TEXT
LANGUAGE sql IMMUTABLE AS $$
    SELECT substring(whose FROM '^until:[0-9]{1,12}:http:([a-z][a-z0-9_-]*:.+)$')
$$;

CREATE OR REPLACE FUNCTION noetl.loop_done(execution_id BIGINT, run BIGINT, round INTEGER, step TEXT, program TEXT) RETURNS JSON
LANGUAGE sql STABLE AS $$
    SELECT json_build_object('type', 'loop.done', 'execution_id', execution_id, 'event_id', 'loop:' || run || ':' || round,
                             'program', program, 'run', run, 'round', round, 'step', step)
$$;

-- Put events into the outbox. Silent when all are new; otherwise 'partly', then a 'posted' for each that is.
CREATE OR REPLACE FUNCTION noetl.post(p_owner TEXT, o_execution BIGINT[], o_id TEXT[], o_source BIGINT[], o_payload TEXT[])
RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
DECLARE
    executions BIGINT[];
    events TEXT[];
BEGIN
    WITH fresh AS (
        INSERT INTO noetl.outbox (execution_id, event_id, source, owner, payload)
        SELECT o.execution, o.id, o.source, p_owner, o.payload::json
        FROM unnest(o_execution, o_id, o_source, o_payload) AS o (execution, id, source, payload)
        ON CONFLICT DO NOTHING
        RETURNING execution_id, event_id
    ) SELECT coalesce(array_agg(execution_id), '{}'), coalesce(array_agg(event_id), '{}') INTO executions, events FROM fresh;
    IF cardinality(executions) <> cardinality(o_execution) THEN
        RETURN QUERY SELECT 'partly', NULL::bigint, NULL, NULL::bigint[], NULL, NULL, NULL;
        RETURN QUERY SELECT 'posted', f.execution, f.id, NULL::bigint[], NULL, NULL, NULL
            FROM unnest(executions, events) AS f (execution, id);
    END IF;
END $$;

-- Rows of transient as they are after a change; one without a value goes. created_at stays what it was.
CREATE OR REPLACE FUNCTION noetl.write_variables(p_rows JSON) RETURNS INTEGER
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM noetl.transient t
    USING json_to_recordset(p_rows) AS v (execution BIGINT, name TEXT, value TEXT)
    WHERE v.value IS NULL AND t.execution_id = v.execution AND t.var_name = v.name;
    INSERT INTO noetl.transient (execution_id, var_name, var_type, var_value, source_step)
    SELECT v.execution, v.name, v.type, v.value::jsonb, v.step
    FROM json_to_recordset(p_rows) AS v (execution BIGINT, name TEXT, type TEXT, value TEXT, step TEXT)
    WHERE v.value IS NOT NULL
    ON CONFLICT (execution_id, var_name) DO UPDATE
    SET var_type = excluded.var_type, var_value = excluded.var_value, source_step = excluded.source_step, accessed_at = now();
    RETURN json_array_length(p_rows);
END $$;
