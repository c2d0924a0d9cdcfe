-- The main lane's write: any number of executions, one call, one transaction. Parallel arrays hold the common parts (a prefix per
-- part, one element per row); the rare parts are json documents, NULL when empty, whose nested documents are text.
--
-- Raises NE003 or NE004 when an execution id is taken (see noetl.refuse_taken), NE001 (see noetl.refuse) when a version moved on, an
-- execution is being removed, a fence is gone or a command exists at its turn already; a repeated event
-- violates the event table's key. Locks: execution -> event -> loop -> command, each ascending (arrays arrive sorted by execution).
--
-- Answers only what the caller cannot know: attempts of replaced commands ('replaced'), woken commands ('woken'), events that were
-- made here ('event': ends of loops, cancels), and, when some outbox row existed before, which did not ('partly', 'posted').
CREATE OR REPLACE FUNCTION noetl.commit_changes(
    p_owner TEXT,
    x_id BIGINT[], x_expected BIGINT[], x_status TEXT[], x_program TEXT[], x_state TEXT[], x_rests FLOAT8[],
    e_execution BIGINT[], e_id TEXT[], e_lane BIGINT[], e_seq BIGINT[], e_type TEXT[], e_facts TEXT[], e_at FLOAT8[],
    s_execution BIGINT[], s_name TEXT[], s_scope TEXT[], s_value TEXT[],
    d_execution BIGINT[], d_name TEXT[], d_scope TEXT[],
    c_execution BIGINT[], c_id TEXT[], c_attempt INTEGER[], c_turn INTEGER[],
    n_execution BIGINT[], n_id TEXT[], n_run BIGINT[], n_attempt INTEGER[], n_waiting BOOLEAN[], n_delay FLOAT8[], n_payload TEXT[],
    n_remote BOOLEAN[],
    o_execution BIGINT[], o_id TEXT[], o_source BIGINT[], o_payload TEXT[], o_awaited_by BIGINT[], o_program TEXT[], o_path TEXT[],
    h_execution BIGINT[], h_id TEXT[],
    p_created JSON, p_dropped JSON, p_ended BIGINT[], p_loops JSON, p_gates JSON, p_replaced JSON, p_wakes JSON, p_timers JSON,
    p_cleared JSON, p_variables JSON, p_cancels JSON
) RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
DECLARE
    fresh BIGINT[] := '{}';
    got BIGINT[];
    stored INTEGER;
    handed INTEGER := 0;
BEGIN
    -- Rows that are there first: a commit that pauses a parent has its row when it asks for rows of children that begin here.
    IF cardinality(x_id) > 1 THEN
        PERFORM FROM noetl.execution e WHERE e.execution_id = ANY(x_id) ORDER BY e.execution_id FOR UPDATE;
    END IF;
    IF p_created IS NOT NULL THEN
        -- One that is new is written once, as this commit leaves it: no first version that the next statement replaces.
        WITH made AS (
            INSERT INTO noetl.execution (execution_id, path, name, playbook_version, parent_execution_id, principal, awaited_by,
                                         started_at, version, status, program, state, ended_at, rests_since, rests_until)
            SELECT c.execution_id, c.path, c.name, c.playbook_version, c.parent, c.principal, c.awaited_by,
                   now() - make_interval(secs => coalesce(c.age, 0)), 1, x_status[x.at], x_program[x.at], x_state[x.at]::json,
                   CASE WHEN x_status[x.at] IN ('completed', 'failed', 'cancelled') THEN now() END,
                   CASE WHEN x_rests[x.at] IS NOT NULL THEN now() END, to_timestamp(x_rests[x.at])
            FROM json_to_recordset(p_created) AS c (
                execution_id BIGINT, path TEXT, name TEXT, playbook_version TEXT, parent BIGINT, principal TEXT, awaited_by BIGINT, age FLOAT8)
            CROSS JOIN LATERAL (SELECT array_position(x_id, c.execution_id) AS at OFFSET 0) x
            ON CONFLICT DO NOTHING RETURNING execution_id
        ) SELECT coalesce(array_agg(execution_id), '{}') INTO fresh FROM made;
        -- A row that was there, or a Start that waits, has to come from this very Start. One that was kept before (by a parent's commit, or by
        -- create_execution) begins nothing when both are gone: it comes again after its execution was removed.
        -- One look-up by key each: EXISTS may be planned as one look at the whole table.
        PERFORM noetl.refuse_taken(ARRAY(
            SELECT c.execution_id FROM json_to_recordset(p_created) AS c (execution_id BIGINT, start TEXT, parent BIGINT)
            WHERE c.start <> ''
                AND (SELECT true FROM noetl.outbox o WHERE o.execution_id = c.execution_id AND o.event_id = c.start LIMIT 1) IS NULL
                AND (c.execution_id = ANY(fresh) AND noetl.is_kept_start(c.start, c.parent)
                     OR (SELECT true FROM noetl.outbox o
                         WHERE o.execution_id = c.execution_id AND starts_with(o.event_id, 'start') LIMIT 1)
                     OR c.execution_id <> ALL(fresh)
                        AND (SELECT e.version FROM noetl.execution e WHERE e.execution_id = c.execution_id) = 0)), 'NE004');
    END IF;
    WITH moved AS (
        UPDATE noetl.execution e
        SET version = e.version + 1, status = x.status, program = x.program, state = x.state::json,
            -- A redrive may continue with another version of its playbook.
            playbook_version = CASE WHEN e.program IN ('', x.program) THEN e.playbook_version ELSE coalesce((
                SELECT max(c.version)::text FROM noetl.catalog c
                WHERE c.namespace = 'default' AND c.path = e.path AND c.program = x.program), e.playbook_version) END,
            ended_at = CASE WHEN x.status IN ('completed', 'failed', 'cancelled') THEN coalesce(e.ended_at, now()) END,
            rested = noetl.rested(e), rests_since = CASE WHEN x.rests IS NOT NULL THEN now() END, rests_until = to_timestamp(x.rests)
        -- An array of rests without elements: none of them rests.
        FROM unnest(x_id, x_expected, x_status, x_program, x_state, x_rests) AS x (id, expected, status, program, state, rests)
        WHERE e.execution_id = x.id AND e.version = x.expected AND e.leaving_at IS NULL
          -- Its parent was paused before it began: its Start waits.
          AND (e.version > 0 OR e.status <> 'paused' OR NOT EXISTS (
              SELECT FROM unnest(e_execution, e_id) AS s (execution, id) WHERE s.execution = x.id AND starts_with(s.id, 'start')))
        RETURNING e.execution_id
    ) SELECT coalesce(array_agg(execution_id), '{}') || fresh INTO got FROM moved;
    IF cardinality(got) <> cardinality(x_id) THEN
        PERFORM noetl.refuse(x_id, got);
    END IF;
    IF p_created IS NOT NULL AND json_array_length(p_created) > cardinality(fresh) THEN
        -- Rows that a paused parent made have no name yet.
        UPDATE noetl.execution e SET path = c.path, name = c.name, playbook_version = c.playbook_version, principal = c.principal
        FROM json_to_recordset(p_created) AS c (execution_id BIGINT, path TEXT, name TEXT, playbook_version TEXT, principal TEXT)
        -- The array makes this a look-up by key, also where the plan expects one execution in all.
        WHERE e.execution_id = ANY(x_id) AND e.execution_id = c.execution_id AND e.name = '';
    END IF;

    INSERT INTO noetl.event (execution_id, event_id, lane, seq, type, facts, at)
    SELECT e.execution, e.id, e.lane, e.seq, e.type, e.facts::json, CASE e.at WHEN 0 THEN now() ELSE to_timestamp(e.at) END
    FROM unnest(e_execution, e_id, e_lane, e_seq, e_type, e_facts, e_at) AS e (execution, id, lane, seq, type, facts, at);

    IF cardinality(s_execution) > 0 THEN
        -- Their executions are locked: what is not there now is not there when it is inserted, and needs no second record in the WAL.
        WITH known AS (
            UPDATE noetl.slot t SET value = s.value::json
            FROM unnest(s_execution, s_name, s_scope, s_value) AS s (execution, name, scope, value)
            WHERE t.execution_id = s.execution AND t.name = s.name AND t.scope = s.scope
        )
        INSERT INTO noetl.slot (execution_id, name, scope, value)
        SELECT s.execution, s.name, s.scope, s.value::json
        FROM unnest(s_execution, s_name, s_scope, s_value) AS s (execution, name, scope, value)
        WHERE NOT EXISTS (
            SELECT FROM noetl.slot t WHERE t.execution_id = s.execution AND t.name = s.name AND t.scope = s.scope);
    END IF;
    IF cardinality(d_execution) > 0 THEN
        DELETE FROM noetl.slot t USING unnest(d_execution, d_name, d_scope) AS d (execution, name, scope)
        WHERE t.execution_id = d.execution AND t.name = d.name AND t.scope = d.scope;
    END IF;

    -- A pause waits for items that are being counted: what they start is seen by noetl.tell_family, and later ones see the pause.
    IF p_dropped IS NOT NULL OR p_gates IS NOT NULL OR p_ended IS NOT NULL
        OR EXISTS (SELECT FROM json_to_recordset(p_cancels) AS p (what TEXT) WHERE p.what = 'pause')
    THEN
        PERFORM FROM noetl.loop l
        WHERE l.execution_id = ANY(x_id) ORDER BY l.execution_id, l.run, l.round FOR UPDATE;
    END IF;

    IF cardinality(c_execution) > 0 THEN
        -- As long as the first of both arrays are of one execution each, a command hands its row over to its successor: on one page, an update
        -- is logged as what differs, where a row that goes and a row that comes are logged whole. What the indexes have of a row (id, place,
        -- part) stays, as long as it keeps its owner: no index is written then. (Dropping would drop the successor.)
        WHILE p_dropped IS NULL AND c_execution[handed + 1] = n_execution[handed + 1] LOOP
            handed := handed + 1;
        END LOOP;
        IF handed > 0 THEN
            WITH kept AS (
                UPDATE noetl.command t
                SET command_id = n.id, run = n.run, round = -1, attempt = n.attempt, turn = 0, waiting = n.waiting,
                    owner = CASE WHEN n.waiting THEN '' ELSE p_owner END, not_before = now() + make_interval(secs => n.delay),
                    first = 0, past = 0, remaining = 0, payload = n.payload::json, child = NULL, priority = 0, remote = n.remote,
                    lost = 0, lost_turn = 0
                FROM unnest(c_execution[:handed], c_id[:handed], c_attempt[:handed], c_turn[:handed], n_id[:handed], n_run[:handed],
                            n_attempt[:handed], n_waiting[:handed], n_delay[:handed], n_payload[:handed], n_remote[:handed])
                    AS n (execution, closed, closed_attempt, closed_turn, id, run, attempt, waiting, delay, payload, remote)
                WHERE t.execution_id = n.execution AND t.place IN (n.closed, '') AND t.command_id = n.closed
                    AND t.attempt = n.closed_attempt AND t.turn = n.closed_turn
                    AND NOT EXISTS (SELECT FROM noetl.command o WHERE o.execution_id = n.execution AND o.place IN (n.id, '')
                                    AND o.command_id = n.id AND o.command_id <> n.closed)
                RETURNING t.execution_id
            ) SELECT coalesce(array_agg(execution_id), '{}') INTO got FROM kept;
            IF cardinality(got) <> handed THEN
                PERFORM noetl.refuse(c_execution[:handed], got);
            END IF;
        END IF;
        IF cardinality(c_execution) > handed THEN
            WITH closed AS (
                DELETE FROM noetl.command t
                USING unnest(c_execution[handed + 1:], c_id[handed + 1:], c_attempt[handed + 1:], c_turn[handed + 1:])
                    AS c (execution, id, attempt, turn)
                WHERE t.execution_id = c.execution AND t.place IN (c.id, '') AND t.command_id = c.id AND t.attempt = c.attempt AND t.turn = c.turn
                RETURNING t.execution_id
            ) SELECT coalesce(array_agg(execution_id), '{}') INTO got FROM closed;
            IF cardinality(got) <> cardinality(c_execution) - handed THEN
                PERFORM noetl.refuse(c_execution[handed + 1:], got);
            END IF;
        END IF;
    END IF;
    IF p_dropped IS NOT NULL THEN
        -- The row stays: a redrive continues from the outcomes of its items.
        UPDATE noetl.loop t SET gate = 'closed' FROM json_to_recordset(p_dropped) AS d (execution BIGINT, run BIGINT)
        WHERE t.execution_id = d.execution AND t.run = d.run AND t.gate <> 'closed';
        DELETE FROM noetl.command t USING json_to_recordset(p_dropped) AS d (execution BIGINT, run BIGINT)
        WHERE t.execution_id = d.execution AND t.run = d.run;
        -- Callbacks of runs that are over: the place of one is <run> or begins with <run>. (the names are compared as bytes).
        DELETE FROM noetl.slot t USING json_to_recordset(p_dropped) AS d (execution BIGINT, over BIGINT)
        WHERE t.execution_id = d.execution AND t.scope = 'callback'
            AND (t.name = d.over::text OR (t.name > d.over || '.' AND t.name < d.over || '/'));
        DELETE FROM noetl.timer t USING json_to_recordset(p_dropped) AS d (execution BIGINT, over BIGINT)
        WHERE t.execution_id = d.execution
            AND (starts_with(t.timer, 'callback:' || d.over || ':') OR starts_with(t.timer, 'callback:' || d.over || '.'));
    END IF;
    IF p_ended IS NOT NULL THEN
        UPDATE noetl.loop SET gate = 'closed' WHERE execution_id = ANY(p_ended) AND gate <> 'closed';
        DELETE FROM noetl.command WHERE execution_id = ANY(p_ended);
        -- One that was cancelled before it began takes its Start with it.
        DELETE FROM noetl.outbox o WHERE o.execution_id = ANY(p_ended) AND starts_with(o.event_id, 'start');
        DELETE FROM noetl.timer WHERE execution_id = ANY(p_ended);
        DELETE FROM noetl.slot WHERE execution_id = ANY(p_ended) AND scope = 'undo';
        -- No commit waits for a copy of a credential that is just being read or replaced: it goes when its time is over.
        DELETE FROM noetl.auth_cache WHERE cache_key IN (
            SELECT a.cache_key FROM noetl.auth_cache a WHERE a.execution_id = ANY(p_ended) FOR UPDATE SKIP LOCKED);
    END IF;

    IF p_replaced IS NOT NULL THEN
        RETURN QUERY SELECT * FROM noetl.replace_commands(p_owner, p_replaced);
        GET DIAGNOSTICS stored = ROW_COUNT;
        IF stored <> json_array_length(p_replaced) THEN
            PERFORM noetl.refuse(x_id, '{}');
        END IF;
    END IF;
    IF cardinality(n_execution) > handed THEN
        -- The key of few commands does not say which they are.
        SELECT array_agg(n.execution) INTO got
        FROM unnest(n_execution[handed + 1:], n_id[handed + 1:]) AS n (execution, id)
        JOIN noetl.command t ON t.execution_id = n.execution AND t.place IN (n.id, '') AND t.command_id = n.id;
        IF got IS NOT NULL THEN
            PERFORM noetl.refuse(got, '{}');
        END IF;
        INSERT INTO noetl.command (execution_id, command_id, run, attempt, waiting, owner, not_before, payload, remote, keyed)
        SELECT n.execution, n.id, n.run, n.attempt, n.waiting, CASE WHEN n.waiting THEN '' ELSE p_owner END,
               now() + make_interval(secs => n.delay), n.payload::json, n.remote, count(*) OVER (PARTITION BY n.execution) > 8
        FROM unnest(n_execution[handed + 1:], n_id[handed + 1:], n_run[handed + 1:], n_attempt[handed + 1:], n_waiting[handed + 1:],
                    n_delay[handed + 1:], n_payload[handed + 1:], n_remote[handed + 1:])
            AS n (execution, id, run, attempt, waiting, delay, payload, remote);
    END IF;
    IF p_wakes IS NOT NULL THEN
        RETURN QUERY SELECT * FROM noetl.wake_commands(p_owner, p_wakes);
    END IF;
    IF p_loops IS NOT NULL THEN
        RETURN QUERY SELECT * FROM noetl.start_loops(p_owner, p_loops);
    END IF;
    IF p_gates IS NOT NULL THEN
        RETURN QUERY SELECT * FROM noetl.close_gates(p_owner, p_gates);
    END IF;

    IF p_cleared IS NOT NULL THEN
        DELETE FROM noetl.timer t
        USING json_to_recordset(p_cleared) AS c (execution BIGINT, timer TEXT, generation BIGINT)
        WHERE t.execution_id = c.execution AND t.timer = c.timer AND t.generation <= coalesce(c.generation, t.generation);
    END IF;
    IF p_timers IS NOT NULL THEN
        INSERT INTO noetl.timer (execution_id, timer, generation, fire_at)
        SELECT t.execution, t.timer, t.generation, now() + make_interval(secs => t.seconds)
        FROM json_to_recordset(p_timers) AS t (execution BIGINT, timer TEXT, generation BIGINT, seconds FLOAT8)
        ON CONFLICT (execution_id, timer) DO UPDATE
        SET generation = excluded.generation, fire_at = excluded.fire_at, owner = '';
    END IF;
    IF cardinality(h_execution) > 0 THEN
        DELETE FROM noetl.outbox t USING unnest(h_execution, h_id) AS h (execution, id)
        WHERE t.execution_id = h.execution AND t.event_id = h.id;
    END IF;
    IF cardinality(o_execution) > 0 THEN
        RETURN QUERY SELECT * FROM noetl.post(p_owner, o_execution, o_id, o_source, o_payload, o_awaited_by, o_program, o_path);
    END IF;
    IF p_variables IS NOT NULL THEN
        PERFORM noetl.write_variables(p_variables);
    END IF;
    IF p_ended IS NOT NULL THEN
        PERFORM noetl.mark_leading(p_ended);
    END IF;
    IF p_cancels IS NOT NULL THEN
        RETURN QUERY SELECT * FROM noetl.cancel_children(p_owner, p_cancels);
    END IF;
END $$;
