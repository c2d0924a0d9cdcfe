-- What executions share by key: slots and moments (docs/adr/0025-limits.md).
--
-- A slot is in use while its row of limit_use is held and its command exists: deleting a command, in any way, is giving its slot
-- back. Who gets it is decided here, after the parts of a commit, in the same transaction and under the locks of the keys concerned.
--
-- The order of locks, for every transaction that takes locks of keys:
--   1. rows of the executions that it is about (execution, event, loop, command, timer, outbox): as in 30_commit_changes.sql;
--   2. the lock of all keys (lock_limits), shared by transactions that lock single keys next; then those keys, in one order (lock_limit_keys);
--   3. rows of limit_use and limit_key, which nothing else waits for: what changes them without these locks (removal, operators,
--      forget_keys) holds no row that is waited for under 2, or skips what is locked.
-- Locks of keys are taken in one go, so that their order is one. The next in line may need a key that was not locked: then all of it is
-- undone, the locks as well (NE005), and done again under the lock of all keys (docs/adr/0051-limits-lock-keys.md).
-- Below 2, rows of other executions are only ever locked SKIP LOCKED, and rows are only inserted under keys that no other transaction
-- inserts. So no transactions wait in a circle; what was skipped is looked at by the commit that had it locked, and by the next claim.

-- Lock every key. Version N-1 takes this lock for any key.
CREATE OR REPLACE FUNCTION noetl.lock_limits() RETURNS VOID
LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(7953764263371501940)
$$;

-- Lock these keys and those that the next in line for them needs besides; what is locked, NULL when that is every key. The server has
-- room for some thousands of locks of all transactions: who asks for many keys locks all of them at once.
CREATE OR REPLACE FUNCTION noetl.lock_limit_keys(p_keys TEXT[]) RETURNS TEXT[]
LANGUAGE plpgsql SET enable_sort = off SET enable_bitmapscan = off AS $$
DECLARE
    keys TEXT[];
    place INTEGER;
BEGIN
    SELECT coalesce(array_agg(DISTINCT n.key), '{}') INTO keys FROM (
        SELECT k.key FROM unnest(p_keys) AS k (key)
        UNION ALL
        SELECT u.key FROM (SELECT DISTINCT k.key FROM unnest(p_keys) AS k (key)) k
        CROSS JOIN LATERAL (
            SELECT h.execution_id, h.command_id FROM noetl.limit_use h
            WHERE h.key = k.key AND h.queued ORDER BY h.priority DESC, h.id LIMIT 2) h
        JOIN noetl.limit_use u ON u.execution_id = h.execution_id AND u.command_id = h.command_id
    ) n;
    IF cardinality(keys) > 32 THEN
        PERFORM noetl.lock_limits();
        RETURN NULL;
    END IF;
    PERFORM pg_advisory_xact_lock_shared(7953764263371501940);
    -- Locks of two numbers are apart from those of one. Keys with the same hash have one lock: they wait for each other, and that is all.
    FOR place IN SELECT DISTINCT hashtext(k.key) AS place FROM unnest(keys) AS k (key) ORDER BY place LOOP
        PERFORM pg_advisory_xact_lock(1851877744, place);
    END LOOP;
    RETURN keys;
END $$;

-- Undo everything since the locks of keys were taken, which p_key is none of.
CREATE OR REPLACE FUNCTION noetl.refuse_unlocked(p_key TEXT) RETURNS VOID
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a key is needed that is not locked' USING ERRCODE = 'NE005', DETAIL = p_key;
END $$;

-- Slots of a key that are free for one who asked for so many; NULL: as many as you like.
CREATE OR REPLACE FUNCTION noetl.limit_room(p_key TEXT, p_asked INTEGER) RETURNS INTEGER
LANGUAGE sql STABLE AS $$
    SELECT x.most - (SELECT count(*) FROM noetl.limit_use u WHERE u.key = p_key AND u.held)::integer
    FROM (
        SELECT CASE WHEN k.declared IS FALSE THEN k.concurrent ELSE p_asked END AS most
        FROM (SELECT 1) one LEFT JOIN noetl.limit_key k ON k.namespace = 'default' AND k.key = p_key
    ) x WHERE x.most IS NOT NULL
$$;

-- Rows of commands that are gone, and of executions that are over, go, as far as their keys are locked; the keys they had.
CREATE OR REPLACE FUNCTION noetl.forget_uses_of(p_locked TEXT[], p_executions BIGINT[]) RETURNS TEXT[]
LANGUAGE sql AS $$
    WITH done AS (
        DELETE FROM noetl.limit_use u
        WHERE u.execution_id = ANY(p_executions) AND u.command_id <> '' AND (u.key <> ALL(p_locked)) IS NOT TRUE
          AND (SELECT true FROM noetl.command c WHERE c.execution_id = u.execution_id AND c.place IN (u.command_id, '') AND c.command_id = u.command_id) IS NULL
        RETURNING u.key
    ), ended AS (
        DELETE FROM noetl.limit_use u
        WHERE u.execution_id = ANY(p_executions) AND u.command_id = '' AND (u.key <> ALL(p_locked)) IS NOT TRUE
          AND (SELECT e.ended_at FROM noetl.execution e WHERE e.execution_id = u.execution_id) IS NOT NULL
        RETURNING u.execution_id, u.key, u.held
    ), unborn AS (
        DELETE FROM noetl.outbox o USING ended g
        WHERE NOT g.held AND o.execution_id = g.execution_id AND starts_with(o.event_id, 'start') AND o.owner = 'held'
    )
    SELECT coalesce(array_agg(DISTINCT g.key), '{}') FROM (SELECT key FROM done UNION ALL SELECT key FROM ended) g
$$;

-- Give free slots of p_keys to who waits for them: the highest priority first, then the oldest. p_executions, p_commands: commands that
-- this very commit issued; those of them that have to wait are taken back from p_owner. p_starts: whose the starts of executions are then.
--
-- Answers: 'waits' (a fresh command) · 'delayed' (a fresh command; microseconds) · 'given' (a command that waited: run, round, attempt,
-- first, past, microseconds; payload, child, loop) · 'event' (the Start of an execution that waited).
--
-- p_locked: keys that are locked (NULL: every key). Raises NE005, before anything is answered, when the next in line needs another one.
--
-- The next in line is found by the order of an index, for any number of waiting rows and any statistics.
CREATE OR REPLACE FUNCTION noetl.hand_out_slots(
    p_locked TEXT[], p_owner TEXT, p_keys TEXT[], p_executions BIGINT[], p_commands TEXT[], p_starts TEXT
) RETURNS SETOF noetl.answer
LANGUAGE plpgsql SET enable_sort = off SET enable_bitmapscan = off AS $$
DECLARE
    at TIMESTAMPTZ := clock_timestamp();
    this_key TEXT; full_key TEXT; unlocked TEXT;
    head noetl.limit_use;
    skipped BIGINT[];
    g_execution BIGINT[]; g_command TEXT[]; d_execution BIGINT[]; d_command TEXT[]; d_due TIMESTAMPTZ[];
BEGIN
    -- What only has a rate waits for no other command.
    WITH bound AS (
        SELECT u.execution_id, u.command_id,
               bool_or(CASE WHEN k.declared IS FALSE THEN k.concurrent ELSE u.concurrent END IS NOT NULL) AS slots
        FROM unnest(p_executions, p_commands) AS f (execution, command)
        JOIN noetl.limit_use u ON u.execution_id = f.execution AND u.command_id = f.command
        LEFT JOIN noetl.limit_key k ON k.namespace = 'default' AND k.key = u.key
        GROUP BY u.execution_id, u.command_id
    ), free AS (
        UPDATE noetl.limit_use u SET held = true, queued = false, since = at FROM bound b
        WHERE NOT b.slots AND u.execution_id = b.execution_id AND u.command_id = b.command_id
        RETURNING u.execution_id, u.command_id
    ) SELECT coalesce(array_agg(f.execution_id), '{}'), coalesce(array_agg(f.command_id), '{}') INTO g_execution, g_command
      FROM (SELECT DISTINCT * FROM free) f;

    FOR this_key IN SELECT DISTINCT k.key FROM unnest(p_keys) AS k (key) ORDER BY k.key LOOP
        skipped := '{}';
        LOOP
            SELECT u.* INTO head FROM noetl.limit_use u
            WHERE u.key = this_key AND u.queued AND u.id <> ALL(skipped)
              AND (SELECT e.status FROM noetl.execution e WHERE e.execution_id = u.execution_id) IS DISTINCT FROM 'paused'
            ORDER BY u.priority DESC, u.id LIMIT 1;
            EXIT WHEN NOT FOUND OR noetl.limit_room(this_key, head.concurrent) <= 0;
            SELECT u.key INTO unlocked FROM noetl.limit_use u
            WHERE u.execution_id = head.execution_id AND u.command_id = head.command_id AND u.key <> ALL(p_locked) LIMIT 1;
            IF FOUND THEN
                PERFORM noetl.refuse_unlocked(unlocked);
            END IF;
            SELECT u.key INTO full_key FROM noetl.limit_use u
            WHERE u.execution_id = head.execution_id AND u.command_id = head.command_id AND u.key <> this_key
              AND noetl.limit_room(u.key, u.concurrent) <= 0
            ORDER BY u.key LIMIT 1;
            IF FOUND THEN
                UPDATE noetl.limit_use u SET queued = u.key = full_key
                WHERE u.execution_id = head.execution_id AND u.command_id = head.command_id;
                CONTINUE;
            END IF;
            IF head.command_id = '' THEN
                PERFORM FROM noetl.outbox o WHERE o.execution_id = head.execution_id AND starts_with(o.event_id, 'start') FOR UPDATE SKIP LOCKED;
            ELSE
                PERFORM FROM noetl.command c
                WHERE c.execution_id = head.execution_id AND c.place IN (head.command_id, '') AND c.command_id = head.command_id
                FOR UPDATE SKIP LOCKED;
            END IF;
            IF NOT FOUND THEN
                skipped := skipped || head.id;
                CONTINUE;
            END IF;
            UPDATE noetl.limit_use u SET held = true, queued = false, since = at
            WHERE u.execution_id = head.execution_id AND u.command_id = head.command_id;
            g_execution := g_execution || head.execution_id;
            g_command := g_command || head.command_id;
        END LOOP;
    END LOOP;

    -- Moments (GCRA): each takes the next one of its key, and waits for the latest of its keys.
    WITH timed AS (
        SELECT u.execution_id, u.command_id, u.key, u.priority, u.id, n.per / n.rate AS every, n.burst
        FROM unnest(g_execution, g_command) AS g (execution, command)
        JOIN noetl.limit_use u ON u.execution_id = g.execution AND u.command_id = g.command
        LEFT JOIN noetl.limit_key k ON k.namespace = 'default' AND k.key = u.key
        CROSS JOIN LATERAL (
            SELECT CASE WHEN k.declared IS FALSE THEN k.rate ELSE u.rate END AS rate,
                   CASE WHEN k.declared IS FALSE THEN k.per ELSE u.per END AS per,
                   CASE WHEN k.declared IS FALSE THEN k.burst ELSE u.burst END AS burst
        ) n WHERE n.rate IS NOT NULL
    ), placed AS (
        SELECT t.*, greatest(k.tat, at) AS base,
               coalesce(sum(t.every) OVER (PARTITION BY t.key ORDER BY t.priority DESC, t.id
                                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
        FROM timed t JOIN noetl.limit_key k ON k.namespace = 'default' AND k.key = t.key
    ), moved AS (
        UPDATE noetl.limit_key k SET tat = p.tat FROM (
            SELECT p.key, min(p.base) + make_interval(secs => sum(p.every)) AS tat FROM placed p GROUP BY p.key
        ) p WHERE k.namespace = 'default' AND k.key = p.key
    ), due AS (
        SELECT p.execution_id, p.command_id, max(p.base + make_interval(secs => p.before - (p.burst - 1) * p.every)) AS due
        FROM placed p GROUP BY p.execution_id, p.command_id
    ) SELECT array_agg(d.execution_id), array_agg(d.command_id), array_agg(d.due) INTO d_execution, d_command, d_due
      FROM due d WHERE d.due > at;

    RETURN QUERY WITH given AS (
        UPDATE noetl.command c SET waiting = false, owner = p_owner, not_before = coalesce(d.due, c.not_before)
        FROM unnest(g_execution, g_command) AS g (execution, command)
        LEFT JOIN unnest(d_execution, d_command, d_due) AS d (execution, command, due)
            ON d.execution = g.execution AND d.command = g.command
        WHERE c.execution_id = g.execution AND c.place IN (g.command, '') AND c.command_id = g.command AND (d.due IS NOT NULL OR c.waiting)
        RETURNING c.*, greatest(0, extract(epoch FROM d.due - at) * 1000000)::bigint AS wait
    )
    SELECT CASE WHEN f.fresh THEN 'delayed' ELSE 'given' END, c.execution_id, c.command_id,
           CASE WHEN f.fresh THEN ARRAY[coalesce(c.wait, 0)]
                ELSE ARRAY[c.run, c.round, c.attempt, c.first, c.past, coalesce(c.wait, 0)] END,
           CASE WHEN NOT f.fresh THEN c.payload::text END, CASE WHEN NOT f.fresh THEN c.child::text END,
           CASE WHEN NOT f.fresh THEN l.payload::text END
    FROM given c
    CROSS JOIN LATERAL (SELECT EXISTS (
        SELECT FROM unnest(p_executions, p_commands) AS f (execution, command)
        WHERE f.execution = c.execution_id AND f.command = c.command_id
    ) AS fresh) f
    LEFT JOIN noetl.loop l ON l.execution_id = c.execution_id AND l.run = c.run AND l.round = c.round
    ORDER BY c.priority DESC, c.id;

    RETURN QUERY UPDATE noetl.outbox o SET owner = p_starts, since = now()
        FROM unnest(g_execution, g_command) AS g (execution, command)
        WHERE g.command = '' AND o.execution_id = g.execution AND starts_with(o.event_id, 'start') AND o.owner = 'held'
        RETURNING 'event', o.execution_id, o.event_id, NULL::bigint[], o.payload::text, NULL, NULL;

    RETURN QUERY UPDATE noetl.command c SET waiting = true, owner = ''
        FROM (
            SELECT DISTINCT u.execution_id, u.command_id FROM unnest(p_executions, p_commands) AS f (execution, command)
            JOIN noetl.limit_use u ON u.execution_id = f.execution AND u.command_id = f.command AND NOT u.held
        ) w
        WHERE c.execution_id = w.execution_id AND c.place IN (w.command_id, '') AND c.command_id = w.command_id
        RETURNING 'waits', c.execution_id, c.command_id, NULL::bigint[], NULL, NULL, NULL;
END $$;

-- After the parts of a commit: priorities of what was issued (executions that have one); what came free, and what is asked for, of the
-- executions in p_limited. p_wanted: commands with what they ask for; those of loops ask for what their loop says. p_moved: an item that
-- continues alone has the slots of the command that it left, even if the last message of that command is on its way: a command with no item
-- left has nothing to do, and asks for nothing. So an item that waits for its child or an answer never waits for a slot as well.
-- p_after makes the call come after the other one of its query.
CREATE OR REPLACE FUNCTION noetl.settle_limits(
    p_owner TEXT, p_after BIGINT, p_priorities JSON, p_limited BIGINT[], p_wanted JSON, p_moved JSON
) RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
BEGIN
    IF p_priorities IS NOT NULL THEN
        UPDATE noetl.command c SET priority = p.priority
        FROM json_to_recordset(p_priorities) AS p (execution BIGINT, priority INTEGER)
        WHERE c.execution_id = p.execution AND c.priority <> p.priority;
    END IF;
    IF cardinality(p_limited) = 0 THEN
        RETURN;
    END IF;
    BEGIN
        RETURN QUERY SELECT * FROM noetl.settle_locked(
            noetl.lock_limit_keys(noetl.keys_of(p_limited, p_wanted)), p_owner, p_limited, p_wanted, p_moved);
    EXCEPTION WHEN SQLSTATE 'NE005' THEN
        PERFORM noetl.lock_limits();
        RETURN QUERY SELECT * FROM noetl.settle_locked(NULL, p_owner, p_limited, p_wanted, p_moved);
    END;
END $$;

-- Keys that executions have, and those that what they issued (p_wanted, their loops) asks for.
CREATE OR REPLACE FUNCTION noetl.keys_of(p_executions BIGINT[], p_wanted JSON) RETURNS TEXT[]
LANGUAGE sql STABLE AS $$
    SELECT coalesce(array_agg(DISTINCT n.key), '{}') FROM (
        SELECT u.key FROM noetl.limit_use u WHERE u.execution_id = ANY(p_executions)
        UNION ALL
        SELECT k.key FROM json_to_recordset(p_wanted) AS w (limits JSON) CROSS JOIN LATERAL json_to_recordset(w.limits) AS k (key TEXT)
        UNION ALL
        SELECT k.key FROM noetl.loop l CROSS JOIN LATERAL json_to_recordset(l.limits) AS k (key TEXT)
        WHERE l.execution_id = ANY(p_executions) AND l.limits IS NOT NULL
    ) n
$$;

-- The part of settle_limits under the locks of p_locked (NULL: every key). Raises NE005 when another one is needed.
CREATE OR REPLACE FUNCTION noetl.settle_locked(
    p_locked TEXT[], p_owner TEXT, p_limited BIGINT[], p_wanted JSON, p_moved JSON
) RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
DECLARE
    keys TEXT[];
    unlocked TEXT;
    executions BIGINT[];
    commands TEXT[];
BEGIN
    -- The other lane of an execution may have issued something since its keys were read.
    SELECT u.key INTO unlocked FROM noetl.limit_use u WHERE u.execution_id = ANY(p_limited) AND u.key <> ALL(p_locked) LIMIT 1;
    IF FOUND THEN
        PERFORM noetl.refuse_unlocked(unlocked);
    END IF;
    IF p_moved IS NOT NULL THEN
        UPDATE noetl.limit_use u SET command_id = m.heir
        FROM json_to_recordset(p_moved) AS m (execution BIGINT, id TEXT, heir TEXT)
        WHERE u.execution_id = m.execution AND u.command_id = m.id
          AND NOT EXISTS (SELECT FROM noetl.command c WHERE c.execution_id = m.execution AND c.place IN (m.id, '')
                          AND c.command_id = m.id AND c.remaining > 0)
          AND EXISTS (SELECT FROM noetl.command c WHERE c.execution_id = m.execution AND c.place IN (m.heir, '') AND c.command_id = m.heir)
          AND NOT EXISTS (SELECT FROM noetl.limit_use h WHERE h.execution_id = m.execution AND h.command_id = m.heir);
    END IF;
    keys := noetl.forget_uses_of(p_locked, p_limited);
    WITH wanted AS (
        SELECT w.execution AS execution_id, w.id AS command_id, w.step, w.priority, w.limits
        FROM json_to_recordset(p_wanted) AS w (execution BIGINT, id TEXT, step TEXT, priority INTEGER, limits JSON)
        JOIN noetl.command c ON c.execution_id = w.execution AND c.place IN (w.id, '') AND c.command_id = w.id
        UNION ALL
        SELECT c.execution_id, c.command_id, l.step, l.priority, l.limits
        FROM noetl.loop l JOIN noetl.command c ON c.execution_id = l.execution_id AND c.run = l.run AND c.round = l.round
        WHERE l.execution_id = ANY(p_limited) AND l.limits IS NOT NULL AND c.remaining > 0
          AND NOT EXISTS (SELECT FROM noetl.limit_use u WHERE u.execution_id = c.execution_id AND u.command_id = c.command_id)
    ), stored AS (
        INSERT INTO noetl.limit_use AS u (execution_id, command_id, key, step, concurrent, rate, per, burst, priority, queued, since)
        SELECT w.execution_id, w.command_id, n.key, w.step, n.concurrent, n.rate, coalesce(n.per, 1), coalesce(n.burst, 1), w.priority,
               n.key = min(n.key) OVER (PARTITION BY w.execution_id, w.command_id), clock_timestamp()
        FROM wanted w JOIN noetl.command c ON c.execution_id = w.execution_id AND c.place IN (w.command_id, '') AND c.command_id = w.command_id
        CROSS JOIN LATERAL json_to_recordset(w.limits)
            AS n (key TEXT, concurrent INTEGER, rate FLOAT8, per FLOAT8, burst INTEGER)
        ORDER BY c.id, n.key
        ON CONFLICT DO NOTHING
        RETURNING u.*
    ), told AS (
        INSERT INTO noetl.limit_key AS k (key, concurrent, rate, per, burst, declared)
        SELECT DISTINCT ON (s.key) s.key, s.concurrent, s.rate, s.per, s.burst, true FROM stored s ORDER BY s.key, s.id DESC
        ON CONFLICT (namespace, key) DO UPDATE
        SET concurrent = excluded.concurrent, rate = excluded.rate, per = excluded.per, burst = excluded.burst, updated_at = now()
        WHERE k.declared AND (k.concurrent, k.rate, k.per, k.burst)
            IS DISTINCT FROM (excluded.concurrent, excluded.rate, excluded.per, excluded.burst)
    ), fresh AS (
        SELECT DISTINCT s.execution_id, s.command_id FROM stored s
    ) SELECT coalesce((SELECT array_agg(f.execution_id ORDER BY f.execution_id, f.command_id) FROM fresh f), '{}'),
             coalesce((SELECT array_agg(f.command_id ORDER BY f.execution_id, f.command_id) FROM fresh f), '{}'),
             keys || coalesce((SELECT array_agg(DISTINCT s.key) FROM stored s), '{}')
      INTO executions, commands, keys;
    -- They may have been resumed just now.
    keys := keys || ARRAY(SELECT DISTINCT u.key FROM noetl.limit_use u WHERE u.execution_id = ANY(p_limited) AND u.queued);
    IF cardinality(keys) > 0 THEN
        RETURN QUERY SELECT * FROM noetl.hand_out_slots(p_locked, p_owner, keys, executions, commands, p_owner);
    END IF;
END $$;

-- Whether the next in line for a key may have a slot, as far as can be seen without its lock. What is held counts while its command
-- exists, or its execution continues.
CREATE OR REPLACE FUNCTION noetl.has_room_for_next(p_key TEXT) RETURNS BOOLEAN
LANGUAGE sql STABLE SET enable_sort = off SET enable_bitmapscan = off AS $$
    SELECT coalesce(x.most > (
        SELECT count(*) FROM noetl.limit_use h WHERE h.key = p_key AND h.held AND CASE
            WHEN h.command_id = '' THEN (SELECT e.ended_at FROM noetl.execution e WHERE e.execution_id = h.execution_id) IS NULL
            ELSE (SELECT true FROM noetl.command c
                  WHERE c.execution_id = h.execution_id AND c.place IN (h.command_id, '') AND c.command_id = h.command_id) END), true)
    FROM (
        SELECT u.concurrent FROM noetl.limit_use u
        WHERE u.key = p_key AND u.queued
          AND (SELECT e.status FROM noetl.execution e WHERE e.execution_id = u.execution_id) IS DISTINCT FROM 'paused'
        ORDER BY u.priority DESC, u.id LIMIT 1
    ) n
    LEFT JOIN noetl.limit_key k ON k.namespace = 'default' AND k.key = p_key
    CROSS JOIN LATERAL (SELECT CASE WHEN k.declared IS FALSE THEN k.concurrent ELSE n.concurrent END AS most) x
$$;

-- For a process that claims: slots that are free and not granted yet (an operator raised a limit, an execution was resumed, a row was locked). Costs one
-- look at an empty index when no command waits, and locks no key for whose next in line there is no room.
CREATE OR REPLACE FUNCTION noetl.wake_limits(p_owner TEXT) RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
DECLARE
    keys TEXT[];
BEGIN
    WITH RECURSIVE waited AS (
        (SELECT u.key FROM noetl.limit_use u WHERE u.queued ORDER BY u.key LIMIT 1)
        UNION ALL
        SELECT (SELECT u.key FROM noetl.limit_use u WHERE u.queued AND u.key > w.key ORDER BY u.key LIMIT 1)
        FROM waited w WHERE w.key IS NOT NULL
    ) SELECT array_agg(w.key) INTO keys FROM waited w WHERE w.key IS NOT NULL;
    IF keys IS NULL THEN
        RETURN;
    END IF;
    SELECT array_agg(k.key) INTO keys FROM unnest(keys) AS k (key) WHERE noetl.has_room_for_next(k.key);
    IF keys IS NULL THEN
        RETURN;
    END IF;
    BEGIN
        RETURN QUERY SELECT * FROM noetl.wake_locked(noetl.lock_limit_keys(keys), p_owner, keys);
    EXCEPTION WHEN SQLSTATE 'NE005' THEN
        PERFORM noetl.lock_limits();
        RETURN QUERY SELECT * FROM noetl.wake_locked(NULL, p_owner, keys);
    END;
END $$;

-- The part of wake_limits under the locks of p_locked (NULL: every key). Raises NE005 when another one is needed.
CREATE OR REPLACE FUNCTION noetl.wake_locked(p_locked TEXT[], p_owner TEXT, p_keys TEXT[]) RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM noetl.forget_uses_of(p_locked, (SELECT array_agg(DISTINCT u.execution_id) FROM noetl.limit_use u WHERE u.key = ANY(p_keys)));
    RETURN QUERY SELECT g.* FROM noetl.hand_out_slots(p_locked, p_owner, p_keys, '{}', '{}', '') g WHERE g.kind = 'given';
END $$;

-- A slot for an execution that has not begun: row 'status' with its word, how many there are, and the oldest holders. When it waits, or is
-- let in, its row and its Start are kept; 'event' rows are to be handled: the Cancel that makes room (p_excess: cancel_oldest).
CREATE OR REPLACE FUNCTION noetl.admit_execution(
    p_owner TEXT, p_execution BIGINT, p_path TEXT, p_name TEXT, p_version TEXT, p_parent BIGINT, p_principal TEXT,
    p_start JSON, p_start_id TEXT,
    p_key TEXT, p_concurrent INTEGER, p_excess TEXT, p_priority INTEGER
) RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
DECLARE
    made BOOLEAN;
BEGIN
    -- Its own rows first: a commit that begins it, or makes it, is waited for here, without the locks of keys that it may ask for.
    INSERT INTO noetl.execution (execution_id, path, name, playbook_version, parent_execution_id, principal, awaited_by)
    VALUES (p_execution, p_path, p_name, p_version, p_parent, p_principal,
            (SELECT o.awaited_by FROM noetl.outbox o WHERE o.execution_id = p_execution AND o.event_id = p_start_id))
    ON CONFLICT DO NOTHING;
    made := FOUND;
    PERFORM FROM noetl.outbox o WHERE o.execution_id = p_execution AND starts_with(o.event_id, 'start') FOR UPDATE;
    IF made AND NOT FOUND AND noetl.is_kept_start(p_start_id, p_parent) THEN
        PERFORM noetl.refuse_taken(ARRAY[p_execution], 'NE004');
    END IF;
    BEGIN
        RETURN QUERY SELECT * FROM noetl.admit_locked(noetl.lock_limit_keys(ARRAY[p_key]), made, p_owner, p_execution, p_principal, p_start, p_start_id,
            p_key, p_concurrent, p_excess, p_priority);
    EXCEPTION WHEN SQLSTATE 'NE005' THEN
        PERFORM noetl.lock_limits();
        RETURN QUERY SELECT * FROM noetl.admit_locked(NULL, made, p_owner, p_execution, p_principal, p_start, p_start_id,
            p_key, p_concurrent, p_excess, p_priority);
    END;
END $$;

-- The part of admit_execution under the locks of p_locked (NULL: every key). Raises NE005 when another one is needed. p_made: the row of
-- the execution was made for this.
CREATE OR REPLACE FUNCTION noetl.admit_locked(
    p_locked TEXT[], p_made BOOLEAN, p_owner TEXT, p_execution BIGINT, p_principal TEXT, p_start JSON, p_start_id TEXT,
    p_key TEXT, p_concurrent INTEGER, p_excess TEXT, p_priority INTEGER
) RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
DECLARE
    word TEXT := 'held';
    fresh BOOLEAN := false;
    holders BIGINT[];
    most INTEGER;
BEGIN
    IF NOT EXISTS (SELECT FROM noetl.execution e WHERE e.execution_id = p_execution AND (e.version > 0 OR e.ended_at IS NOT NULL))
        AND NOT EXISTS (SELECT FROM noetl.limit_use u WHERE u.execution_id = p_execution AND u.command_id = '')
    THEN
        INSERT INTO noetl.limit_key AS k (key, concurrent, declared) VALUES (p_key, p_concurrent, true)
        ON CONFLICT (namespace, key) DO UPDATE SET concurrent = excluded.concurrent, updated_at = now()
        WHERE k.declared AND k.concurrent IS DISTINCT FROM excluded.concurrent;
        IF p_excess = 'refuse' AND noetl.limit_room(p_key, p_concurrent) <= 0 THEN
            word := 'refused';
        ELSE
            fresh := true;
            INSERT INTO noetl.outbox AS o (execution_id, event_id, source, owner, payload)
            VALUES (p_execution, p_start_id, p_execution, 'held', p_start)
            ON CONFLICT (execution_id, event_id) DO UPDATE SET owner = 'held', payload = excluded.payload;
            INSERT INTO noetl.limit_use (execution_id, command_id, key, concurrent, priority, queued, since)
            VALUES (p_execution, '', p_key, p_concurrent, p_priority, true, clock_timestamp());
            RETURN QUERY SELECT g.* FROM noetl.hand_out_slots(p_locked, p_owner, ARRAY[p_key], '{}', '{}', p_owner) g
                WHERE g.kind <> 'event' OR g.execution_id <> p_execution;
        END IF;
    END IF;
    IF p_made AND NOT fresh THEN
        DELETE FROM noetl.execution e WHERE e.execution_id = p_execution AND e.version = 0;
    END IF;
    IF EXISTS (SELECT FROM noetl.limit_use u WHERE u.execution_id = p_execution AND u.command_id = '' AND u.queued) THEN
        word := 'queued';
    END IF;
    SELECT CASE WHEN k.declared IS FALSE THEN k.concurrent ELSE p_concurrent END INTO most
    FROM (SELECT 1) one LEFT JOIN noetl.limit_key k ON k.namespace = 'default' AND k.key = p_key;
    IF fresh AND word = 'queued' AND p_excess = 'cancel_oldest' THEN
        -- Of those that no other one replaces as many may stay as there are slots, this one among them. Those that wait can be replaced
        -- too: else a burst would be queued, and the newest would come last.
        RETURN QUERY INSERT INTO noetl.outbox AS o (execution_id, event_id, source, owner, payload)
            SELECT v.execution_id, 'excess:' || p_execution, v.execution_id, p_owner,
                   json_build_object('type', 'cancel', 'execution_id', v.execution_id, 'event_id', 'excess:' || p_execution,
                                     'program', v.program, 'principal', p_principal, 'cascade', true,
                                     'reason', 'execution ' || p_execution || ' takes its place: concurrency of ' || p_key)
            FROM (
                SELECT e.execution_id, e.program, count(*) OVER () AS staying
                FROM noetl.limit_use u JOIN noetl.execution e ON e.execution_id = u.execution_id
                WHERE u.key = p_key AND (u.held OR u.queued) AND u.command_id = ''
                  AND NOT EXISTS (SELECT FROM noetl.outbox x WHERE x.execution_id = u.execution_id AND x.event_id LIKE 'excess:%')
                  AND NOT EXISTS (SELECT FROM noetl.event x WHERE x.execution_id = u.execution_id AND x.event_id LIKE 'excess:%')
                ORDER BY u.held DESC, u.since, u.id LIMIT 1
            ) v
            WHERE v.staying > coalesce(most, 0) AND v.execution_id <> p_execution
            ON CONFLICT DO NOTHING
            RETURNING 'event', o.execution_id, o.event_id, NULL::bigint[], o.payload::text, NULL, NULL;
    END IF;
    SELECT array_agg(h.execution_id ORDER BY h.since, h.id) INTO holders FROM (
        SELECT * FROM noetl.limit_use u WHERE u.key = p_key AND u.held ORDER BY u.since, u.id LIMIT 20) h;
    RETURN QUERY SELECT 'status', p_execution, word, coalesce(most, 0) || coalesce(holders, '{}'), NULL, NULL, NULL;
END $$;
