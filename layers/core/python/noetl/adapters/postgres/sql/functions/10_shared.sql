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

-- End the transaction, naming execution ids that belong to other executions: NE003 those that Starts in an outbox ask for, NE004 those
-- that a Start begins. Does nothing when there are none.
CREATE OR REPLACE FUNCTION noetl.refuse_taken(taken BIGINT[], code TEXT) RETURNS VOID
LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(taken) > 0 THEN
        RAISE EXCEPTION 'execution ids are taken' USING ERRCODE = code, DETAIL = array_to_string(taken, ',');
    END IF;
END $$;

-- Whether a Start was kept, with the row of its execution or in the outbox, before it was sent (domain/ids.py).
CREATE OR REPLACE FUNCTION noetl.is_kept_start(p_event TEXT, p_parent BIGINT) RETURNS BOOLEAN
LANGUAGE sql IMMUTABLE AS $$
    SELECT p_parent IS NOT NULL OR starts_with(p_event, 'start@')
$$;

-- domain/workers/lease_owners.py: the queue holds what it has; what is held waits for its paused execution; an invocation's name says until when; every other owner has a lease.
CREATE OR REPLACE FUNCTION noetl.is_alive(whose TEXT) RETURNS BOOLEAN
LANGUAGE sql STABLE AS $$
    SELECT CASE
        WHEN whose IN ('queue', 'held') THEN true
        WHEN whose ~ '^until:[0-9]{1,12}:((later|unreadable)$|http:)' THEN split_part(whose, ':', 2)::bigint > extract(epoch FROM clock_timestamp())
        WHEN whose ~ '^until:[0-9]{1,12}:' THEN split_part(whose, ':', 2)::bigint - extract(epoch FROM clock_timestamp()) BETWEEN 0.000001 AND 180
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

-- For each of the numbers 1 .. p_most, whether it is among p_numbers. Asking such an array about a row costs the same however long it is;
-- "= ANY (array)" goes through the array, and a join of two sets in one statement through all pairs (hash joins are off here).
CREATE OR REPLACE FUNCTION noetl.marks(p_numbers INTEGER[], p_most INTEGER) RETURNS BOOLEAN[]
LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(array_agg(m.marked ORDER BY m.number), '{}') FROM (
        SELECT n.number, bool_or(n.marked) AS marked FROM (
            SELECT number, true AS marked FROM unnest(p_numbers) AS g (number)
            UNION ALL SELECT number, false FROM generate_series(1, p_most) AS a (number)
        ) n GROUP BY n.number
    ) m
$$;

-- Put events into the outbox. Silent when all are new; otherwise 'partly', then a 'posted' for each that is. Raises NE003 when a Start
-- names an execution that another Start began, or is about to begin, or one that is gone and has history left. The index outbox_start makes
-- two Starts wait for each other, and each statement sees what was committed before it, so no two executions get one id.
CREATE OR REPLACE FUNCTION noetl.post(
    p_owner TEXT, o_execution BIGINT[], o_id TEXT[], o_source BIGINT[], o_payload TEXT[], o_awaited_by BIGINT[], o_program TEXT[], o_path TEXT[]
) RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
DECLARE
    executions BIGINT[];
    events TEXT[];
    starts BIGINT[];
    -- partitions of history outside of these bounds are not opened (OFFSET 0: no plan reads all that lies between them)
    least_id BIGINT;
    most_id BIGINT;
BEGIN
    WITH fresh AS (
        INSERT INTO noetl.outbox (execution_id, event_id, source, owner, payload, awaited_by, program, path)
        SELECT o.execution, o.id, o.source, p_owner, o.payload::json, o.awaited_by, o.program, o.path
        FROM unnest(o_execution, o_id, o_source, o_payload, o_awaited_by, o_program, o_path)
            AS o (execution, id, source, payload, awaited_by, program, path)
        ON CONFLICT DO NOTHING
        RETURNING execution_id, event_id
    ) SELECT coalesce(array_agg(execution_id), '{}'), coalesce(array_agg(event_id), '{}') INTO executions, events FROM fresh;
    SELECT array_agg(o.execution), min(o.execution), max(o.execution) INTO starts, least_id, most_id
    FROM unnest(o_execution, o_id) AS o (execution, id) WHERE starts_with(o.id, 'start');
    IF starts IS NOT NULL THEN
        PERFORM noetl.refuse_taken(ARRAY(
            SELECT DISTINCT o.execution FROM unnest(o_execution, o_id) AS o (execution, id)
            WHERE starts_with(o.id, 'start') AND CASE
                WHEN EXISTS (SELECT FROM unnest(executions, events) AS f (execution, id) WHERE f.execution = o.execution AND f.id = o.id)
                THEN (EXISTS (SELECT FROM noetl.execution e WHERE e.execution_id = o.execution)
                      OR EXISTS (SELECT FROM noetl.event v WHERE v.execution_id = o.execution AND v.execution_id BETWEEN least_id AND most_id OFFSET 0))
                     AND NOT EXISTS (SELECT FROM noetl.event v WHERE v.execution_id = o.execution AND v.event_id = o.id
                                     AND v.execution_id BETWEEN least_id AND most_id OFFSET 0)
                ELSE NOT EXISTS (SELECT FROM noetl.outbox x WHERE x.execution_id = o.execution AND x.event_id = o.id)
            END), 'NE003');
    END IF;
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

-- The code of the error that a state holds, or its kind; escapes that text cannot hold become U+FFFD.
CREATE OR REPLACE FUNCTION noetl.failure_code(p_state JSON) RETURNS TEXT
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT COALESCE(s.error ->> 'code', s.error ->> 'kind', 'unknown')
    FROM (SELECT regexp_replace(p_state::text, '\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\\ufffd', 'g')::json -> 'error' AS error) s
$$;

-- Seconds that an execution has rested so far (domain/state.py: rest_until).
CREATE OR REPLACE FUNCTION noetl.rested(e noetl.execution) RETURNS FLOAT8
LANGUAGE sql STABLE AS $$
    SELECT e.rested + CASE WHEN e.rests_since IS NULL THEN 0
                      ELSE greatest(0, extract(epoch FROM least(now(), e.rests_until) - e.rests_since)::float8) END
$$;
