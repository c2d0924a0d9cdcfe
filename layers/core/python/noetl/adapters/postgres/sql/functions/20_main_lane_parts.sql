-- The rare parts of a commit, each called only when a change has it. Parts are json documents; documents inside them are text.

-- New turns of commands. With a fence, the row must be open at that attempt and turn; its attempt count stays.
CREATE OR REPLACE FUNCTION noetl.replace_commands(p_owner TEXT, p_replaced JSON) RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
DECLARE
    asked BIGINT[];
    got BIGINT[];
BEGIN
    SELECT array_agg(n.execution) INTO asked
    FROM json_to_recordset(p_replaced) AS n (execution BIGINT, fence_attempt INTEGER) WHERE n.fence_attempt IS NOT NULL;
    IF asked IS NOT NULL THEN
        WITH open AS (
            SELECT t.execution_id
            FROM json_to_recordset(p_replaced) AS n (execution BIGINT, id TEXT, fence_attempt INTEGER, fence_turn INTEGER)
            JOIN noetl.command t ON t.execution_id = n.execution AND t.place IN (n.id, '') AND t.command_id = n.id
                AND t.attempt = n.fence_attempt AND t.turn = n.fence_turn
            FOR UPDATE OF t
        ) SELECT coalesce(array_agg(execution_id), '{}') INTO got FROM open;
        IF cardinality(got) <> cardinality(asked) THEN
            PERFORM noetl.refuse(asked, got);
        END IF;
    END IF;
    RETURN QUERY WITH known AS (
        UPDATE noetl.command t
        SET turn = n.turn, run = n.run, waiting = n.waiting, owner = CASE WHEN n.waiting THEN '' ELSE p_owner END,
            not_before = now() + make_interval(secs => n.delay), payload = n.payload::json, child = NULL, remote = n.remote
        FROM json_to_recordset(p_replaced) AS n (
            execution BIGINT, id TEXT, run BIGINT, turn INTEGER, waiting BOOLEAN, delay FLOAT8, payload TEXT, remote BOOLEAN)
        WHERE t.execution_id = n.execution AND t.place IN (n.id, '') AND t.command_id = n.id AND t.turn < n.turn
        RETURNING t.execution_id, t.command_id, t.attempt
    ), fresh AS (
        -- Their executions are locked: what is not there now is not there when it is inserted.
        INSERT INTO noetl.command AS t (execution_id, command_id, run, attempt, turn, waiting, owner, not_before, payload, remote)
        SELECT n.execution, n.id, n.run, n.attempt, n.turn, n.waiting, CASE WHEN n.waiting THEN '' ELSE p_owner END,
               now() + make_interval(secs => n.delay), n.payload::json, n.remote
        FROM json_to_recordset(p_replaced) AS n (
            execution BIGINT, id TEXT, run BIGINT, attempt INTEGER, turn INTEGER, waiting BOOLEAN, delay FLOAT8, payload TEXT, remote BOOLEAN)
        WHERE NOT EXISTS (
            SELECT FROM noetl.command t WHERE t.execution_id = n.execution AND t.place IN (n.id, '') AND t.command_id = n.id)
        RETURNING t.execution_id, t.command_id, t.attempt
    )
    SELECT 'replaced', r.execution_id, r.command_id, ARRAY[r.attempt]::bigint[], NULL, NULL, NULL
    FROM (SELECT * FROM known UNION ALL SELECT * FROM fresh) r;
END $$;

-- Loops and the commands of their first chunks: one item each up to the window, or one with everything when sequential. One that is given
-- up in this commit is over at once, without a word.
CREATE OR REPLACE FUNCTION noetl.start_loops(p_owner TEXT, p_loops JSON) RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO noetl.loop (execution_id, run, round, step, program, total, places, cursor, issued, gate, payload, limits, priority)
    SELECT l.execution, l.run, l.round, l.step, l.program, l.total, l.places, l.issued, l.issued,
           CASE WHEN l.total = 0 OR l.given_up THEN 'closed' ELSE 'open' END, l.payload::json, l.limits, coalesce(l.priority, 0)
    FROM json_to_recordset(p_loops) AS l (
        execution BIGINT, run BIGINT, round INTEGER, step TEXT, program TEXT, total INTEGER, places INTEGER, issued INTEGER,
        payload TEXT, limits JSON, priority INTEGER, given_up BOOLEAN);
    INSERT INTO noetl.command (execution_id, command_id, run, round, owner, not_before, first, past, remaining, priority)
    SELECT l.execution, l.run || '.r' || l.round || '.' || i, l.run, l.round, p_owner, now(), i, i + l.chunk, l.chunk,
           coalesce(l.priority, 0)
    FROM json_to_recordset(p_loops) AS l (
        execution BIGINT, run BIGINT, round INTEGER, issued INTEGER, chunk INTEGER, priority INTEGER),
         generate_series(0, l.issued - 1, l.chunk) AS i;
    RETURN QUERY
        INSERT INTO noetl.outbox AS o (execution_id, event_id, source, owner, payload)
        SELECT l.execution, 'loop:' || l.run || ':' || l.round, l.execution, p_owner,
               noetl.loop_done(l.execution, l.run, l.round, l.step, l.program)
        FROM json_to_recordset(p_loops) AS l (
            execution BIGINT, run BIGINT, round INTEGER, step TEXT, program TEXT, total INTEGER, given_up BOOLEAN)
        WHERE l.total = 0 AND l.given_up IS NULL
        ON CONFLICT DO NOTHING
        RETURNING 'event', o.execution_id, o.event_id, NULL::bigint[], o.payload::text, NULL, NULL;
END $$;

-- Nothing more is issued; a loop with nothing in flight ends here.
CREATE OR REPLACE FUNCTION noetl.close_gates(p_owner TEXT, p_gates JSON) RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY WITH shut AS (
        UPDATE noetl.loop l SET gate = CASE WHEN l.issued = l.done + l.failed THEN 'closed' ELSE 'closing' END
        FROM json_to_recordset(p_gates) AS g (execution BIGINT, run BIGINT, round INTEGER)
        WHERE l.execution_id = g.execution AND l.run = g.run AND l.round = g.round AND l.gate = 'open'
        RETURNING l.*
    )
    INSERT INTO noetl.outbox AS o (execution_id, event_id, source, owner, payload)
    SELECT s.execution_id, 'loop:' || s.run || ':' || s.round, s.execution_id, p_owner,
           noetl.loop_done(s.execution_id, s.run, s.round, s.step, s.program)
    FROM shut s WHERE s.gate = 'closed'
    ON CONFLICT DO NOTHING
    RETURNING 'event', o.execution_id, o.event_id, NULL::bigint[], o.payload::text, NULL, NULL;
END $$;

-- Waiting commands whose sub-execution ended, with everything that makes them whole; a loop comes with the first of its commands.
CREATE OR REPLACE FUNCTION noetl.wake_commands(p_owner TEXT, p_wakes JSON) RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY WITH woken AS (
        UPDATE noetl.command c SET waiting = false, owner = p_owner, child = w.child::json, not_before = now()
        FROM json_to_recordset(p_wakes) AS w (execution BIGINT, id TEXT, turn INTEGER, child TEXT)
        WHERE c.execution_id = w.execution AND c.place IN (w.id, '') AND c.command_id = w.id AND c.turn = w.turn AND c.waiting
        RETURNING c.*
    )
    SELECT 'woken', w.execution_id, w.command_id, ARRAY[w.run, w.round, w.attempt, w.first, w.past],
           w.payload::text, w.child::text,
           CASE WHEN row_number() OVER (PARTITION BY w.execution_id, w.run, w.round ORDER BY w.id) = 1 THEN l.payload::text END
    FROM woken w LEFT JOIN noetl.loop l USING (execution_id, run, round) ORDER BY w.id;
END $$;

-- Whether a child is not over, or its Start is on its way.
CREATE OR REPLACE FUNCTION noetl.has_live_child(p_parent BIGINT) RETURNS BOOLEAN
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM noetl.execution e WHERE e.parent_execution_id = p_parent AND e.ended_at IS NULL)
        OR EXISTS (SELECT FROM noetl.outbox o
                   WHERE o.source = p_parent AND starts_with(o.event_id, 'start') AND o.execution_id <> p_parent);
END $$;

-- Children of p_parents that have ended, and below which an execution is left that is not over: they pass on what their parent says. What is
-- started below a child is seen with the commit that starts it: as a Start in the outbox, then as an execution. Only executions that are
-- marked are looked at, so that children that ended with all they started cost nothing, however many there are.
--
-- OFFSET 0 keeps each look-up a look-up: a join would read all executions, or all pairs, as soon as statistics say that parents are few.
CREATE OR REPLACE FUNCTION noetl.passing_on(p_parents BIGINT[]) RETURNS TABLE (parent BIGINT, child BIGINT)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE below AS (
        SELECT p.id AS parent, e.execution_id AS child, e.execution_id AS id
        FROM unnest(p_parents) AS p (id) CROSS JOIN LATERAL (
            SELECT c.execution_id FROM noetl.execution c
            WHERE c.parent_execution_id = p.id AND c.leads_on AND c.ended_at IS NOT NULL OFFSET 0) e
        UNION ALL
        SELECT b.parent, b.child, e.execution_id
        FROM below b CROSS JOIN LATERAL (
            SELECT c.execution_id FROM noetl.execution c
            WHERE c.parent_execution_id = b.id AND c.leads_on AND c.ended_at IS NOT NULL OFFSET 0) e
    )
    SELECT DISTINCT b.parent, b.child FROM below b WHERE noetl.has_live_child(b.id)
$$;

-- Mark those that have just ended and may have to pass words on: what they started is not all over, or may have to pass words on itself.
-- A mark stays. A redrive marks all above it (queries post_event, post_events).
CREATE OR REPLACE FUNCTION noetl.mark_leading(p_ended BIGINT[]) RETURNS VOID
LANGUAGE sql AS $$
    UPDATE noetl.execution e SET leads_on = true
    WHERE e.execution_id = ANY(p_ended) AND NOT e.leads_on AND e.parent_execution_id IS NOT NULL
      AND (noetl.has_live_child(e.execution_id)
           OR (SELECT true FROM noetl.execution c WHERE c.parent_execution_id = e.execution_id AND c.leads_on LIMIT 1))
$$;

-- Executions above this one that themselves have a parent. Those words come through on their way down to it.
CREATE OR REPLACE FUNCTION noetl.between_root_and(p_id BIGINT) RETURNS SETOF BIGINT
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE up AS (
        SELECT e.parent_execution_id AS id FROM noetl.execution e WHERE e.execution_id = p_id
        UNION ALL
        SELECT e.parent_execution_id FROM up u JOIN noetl.execution e ON e.execution_id = u.id WHERE u.id IS NOT NULL
    )
    SELECT u.id FROM up u JOIN noetl.execution e ON e.execution_id = u.id WHERE e.parent_execution_id IS NOT NULL
$$;

-- A Cancel for every child that is not over (all of an execution, or those that one run of it waits for): those that exist, and those whose Start is on its way;
-- of an execution also for those that pass it on. Children that this commit starts after it was asked for are spared.
-- Rows that say 'what' are for noetl.tell_family instead.
CREATE OR REPLACE FUNCTION noetl.cancel_children(p_owner TEXT, p_cancels JSON) RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY WITH children AS (
        SELECT e.execution_id, e.program, p.execution AS parent, p.id, p.reason
        FROM json_to_recordset(p_cancels) AS p (execution BIGINT, run BIGINT, id TEXT, reason TEXT, what TEXT, spared BIGINT[])
        JOIN noetl.execution e ON p.what IS NULL AND e.parent_execution_id = p.execution AND e.ended_at IS NULL
            AND (p.run IS NULL OR e.awaited_by = p.run) AND (e.execution_id = ANY (p.spared)) IS NOT TRUE
        UNION
        SELECT o.execution_id, o.program, p.execution, p.id, p.reason
        FROM json_to_recordset(p_cancels) AS p (execution BIGINT, run BIGINT, id TEXT, reason TEXT, what TEXT, spared BIGINT[])
        JOIN noetl.outbox o ON p.what IS NULL AND o.source = p.execution AND starts_with(o.event_id, 'start') AND o.execution_id <> p.execution
            AND (p.run IS NULL OR o.awaited_by = p.run) AND (o.execution_id = ANY (p.spared)) IS NOT TRUE
        WHERE NOT EXISTS (SELECT FROM noetl.execution e WHERE e.execution_id = o.execution_id AND e.version > 0)
        UNION
        SELECT e.execution_id, e.program, p.execution, p.id, p.reason
        FROM noetl.passing_on(ARRAY(
            SELECT p.execution FROM json_to_recordset(p_cancels) AS p (execution BIGINT, run BIGINT, what TEXT)
            WHERE p.what IS NULL AND p.run IS NULL)) n
        JOIN json_to_recordset(p_cancels) AS p (execution BIGINT, run BIGINT, id TEXT, reason TEXT, what TEXT)
            ON p.execution = n.parent AND p.what IS NULL AND p.run IS NULL
        JOIN noetl.execution e ON e.execution_id = n.child
    )
    INSERT INTO noetl.outbox AS o (execution_id, event_id, source, owner, payload)
    SELECT c.execution_id, c.id, c.parent, p_owner,
           json_build_object('type', 'cancel', 'execution_id', c.execution_id, 'event_id', c.id,
                             'program', c.program, 'reason', c.reason::json, 'cascade', true)
    FROM children c
    -- An earlier Cancel may be on its way: it may come too late for a child that was redriven, so this one is sent as well.
    ORDER BY c.execution_id
    ON CONFLICT DO NOTHING
    RETURNING 'event', o.execution_id, o.event_id, NULL::bigint[], o.payload::text, NULL, NULL;
    IF EXISTS (SELECT FROM json_to_recordset(p_cancels) AS p (what TEXT) WHERE p.what IS NOT NULL) THEN
        RETURN QUERY SELECT * FROM noetl.tell_family(p_owner, p_cancels);
    END IF;
END $$;

-- What was held for executions that continue is given out, and their children that were paused before they began may begin; a Pause or Resume
-- for every child that has begun, and for those that have ended and pass it on (resume_below: for those alone). A child that has not is paused here: its row in version 0, which is made where only its Start exists,
-- and which no commit of its Start passes (noetl.commit_changes). Each statement sees the children that began before it took their rows.
CREATE OR REPLACE FUNCTION noetl.tell_family(p_owner TEXT, p_words JSON) RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
DECLARE
    pausing BIGINT[];
    begun BIGINT[];
    waited TEXT[];
BEGIN
    -- Children that have not begun are locked in the order of their ids, as commit_changes locks those that it begins, before a statement takes
    -- some of them in the order of its plan. Everything else that locks several executions does so in this order too (commit_changes,
    -- post_event, post_events, retention), or skips what is locked (claim_old_trees, claim_expired_results). What is left is a child whose id is below its parent's,
    -- or one that is made between these statements: Postgres ends one of the two, and its caller tries again (database_contention).
    PERFORM FROM noetl.execution e
    WHERE e.parent_execution_id IN (
            SELECT p.execution FROM json_to_recordset(p_words) AS p (execution BIGINT, what TEXT, begin BOOLEAN)
            WHERE p.what = 'pause' OR (p.what = 'release' AND p.begin))
        AND e.ended_at IS NULL AND e.version = 0
    ORDER BY e.execution_id FOR UPDATE;

    WITH begin AS (
        UPDATE noetl.execution e SET status = 'running'
        FROM json_to_recordset(p_words) AS p (execution BIGINT, what TEXT, begin BOOLEAN)
        WHERE p.what = 'release' AND p.begin AND e.parent_execution_id = p.execution AND e.ended_at IS NULL
          AND e.version = 0 AND e.status = 'paused'
        RETURNING e.execution_id
    ) SELECT array_agg(b.execution_id) INTO begun FROM begin b;
    IF begun IS NOT NULL THEN
        RETURN QUERY
            UPDATE noetl.outbox o SET owner = p_owner, since = now()
            WHERE o.execution_id = ANY(begun) AND starts_with(o.event_id, 'start') AND o.owner = 'held'
              AND NOT EXISTS (SELECT FROM noetl.limit_use u WHERE u.execution_id = o.execution_id AND u.command_id = '' AND u.queued)
            RETURNING 'event', o.execution_id, o.event_id, NULL::bigint[], o.payload::text, NULL, NULL;
    END IF;

    SELECT array_agg(w.execution) INTO pausing FROM (
        SELECT DISTINCT ON (p.execution) p.execution, p.what
        FROM json_to_recordset(p_words) AS p (execution BIGINT, what TEXT, seq BIGINT)
        WHERE p.what IN ('pause', 'resume', 'resume_below') ORDER BY p.execution, p.seq DESC
    ) w WHERE w.what = 'pause';
    IF pausing IS NOT NULL THEN
        INSERT INTO noetl.execution AS e (execution_id, path, name, parent_execution_id, awaited_by, program, status)
        SELECT o.execution_id, o.path, '', o.source, o.awaited_by, o.program, 'paused'
        FROM noetl.outbox o
        WHERE o.source = ANY(pausing) AND starts_with(o.event_id, 'start') AND o.execution_id <> o.source
        ORDER BY o.execution_id
        ON CONFLICT (execution_id) DO UPDATE SET status = 'paused' WHERE e.version = 0 AND e.status = 'running';
        UPDATE noetl.execution e SET status = 'paused'
        WHERE e.parent_execution_id = ANY(pausing) AND e.ended_at IS NULL AND e.version = 0 AND e.status = 'running';
    END IF;

    RETURN QUERY
        INSERT INTO noetl.outbox AS o (execution_id, event_id, source, owner, payload)
        SELECT e.execution_id, p.id, p.execution, p_owner,
               json_build_object('type', CASE p.what WHEN 'pause' THEN 'pause' ELSE 'resume' END, 'execution_id', e.execution_id,
                                 'event_id', p.id, 'program', e.program, 'word', p.seq)
        FROM (
            SELECT e.parent_execution_id AS parent, e.execution_id AS child, false AS ended FROM noetl.execution e
            WHERE e.parent_execution_id IN (SELECT t.execution FROM json_to_recordset(p_words) AS t (execution BIGINT))
              AND e.ended_at IS NULL AND e.version > 0
            UNION ALL
            SELECT n.parent, n.child, true FROM noetl.passing_on(ARRAY(
                SELECT t.execution FROM json_to_recordset(p_words) AS t (execution BIGINT, what TEXT)
                WHERE t.what IN ('pause', 'resume', 'resume_below'))) n
        ) told
        JOIN noetl.execution e ON e.execution_id = told.child
        JOIN json_to_recordset(p_words) AS p (execution BIGINT, what TEXT, id TEXT, seq BIGINT) ON p.execution = told.parent
        WHERE p.what IN ('pause', 'resume') OR (p.what = 'resume_below' AND told.ended) ORDER BY e.execution_id, p.seq
        ON CONFLICT DO NOTHING
        RETURNING 'event', o.execution_id, o.event_id, NULL::bigint[], o.payload::text, NULL, NULL;
    RETURN QUERY WITH freed AS (
        UPDATE noetl.outbox o SET owner = p_owner, since = now()
        FROM json_to_recordset(p_words) AS p (execution BIGINT, what TEXT)
        WHERE p.what = 'release' AND o.execution_id = p.execution AND o.owner = 'held'
        RETURNING o.*
    )
    SELECT 'event', f.execution_id, f.event_id, NULL::bigint[], f.payload::text, NULL, NULL FROM freed f ORDER BY f.id;

    -- Children that waited for a slot wait on, or begin. Those that were paused are passed over, and what waited behind them has its turn.
    -- The lock of slots is the last one that a commit takes. It is that of every key: the commit may ask for some of its own after this.
    IF begun IS NOT NULL OR pausing IS NOT NULL THEN
        SELECT array_agg(DISTINCT u.key) INTO waited
        FROM noetl.limit_use u
        WHERE u.command_id = '' AND u.queued AND u.execution_id IN (
            SELECT unnest(begun)
            UNION ALL
            SELECT e.execution_id FROM noetl.execution e
            WHERE e.parent_execution_id = ANY(pausing) AND e.ended_at IS NULL AND e.version = 0 AND e.status = 'paused'
        );
        IF waited IS NOT NULL THEN
            PERFORM noetl.lock_limits();
            RETURN QUERY SELECT * FROM noetl.hand_out_slots(NULL, p_owner, waited, '{}', '{}', p_owner);
        END IF;
    END IF;
END $$;
