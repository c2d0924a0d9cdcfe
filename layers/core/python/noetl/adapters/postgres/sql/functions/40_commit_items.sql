-- The item lane's write: outcomes of loop items, any number of batches and loops, one call, one transaction. No execution is locked.
--
-- b: batches (ordinal = number), e: their rows, o: their events, p_continued: commands that continue (json; payload as text; item: the
-- index that continues alone, null for the next turn of the batch's own command). Batches of one command follow each other in waves.
--
-- The loop rows are locked first, so batches of one loop follow each other and each statement below sees what the last one left;
-- that is why a row that is not there yet when it is looked for can be inserted without a conflict.
-- A batch whose command is not open at its attempt and turn is left out (it has no answer). One after which its command would have
-- more items to answer for than it says ('undone') is early: it changes nothing. A command that is closed is followed by one new chunk,
-- while there are items, within the free places: with fewer commands than places, items of one would wait for each other.
--
-- Two runs of one parallel chunk may differ: an item is done in one and continues alone in the other. The first row of an item decides.
-- A chunk's final row does not count while the item's own command is there; an item whose final row is there does not continue, neither
-- alone nor as the next turn of its command. Such a turn does not begin: its command ends when it answers for nothing more, and belongs
-- to nobody otherwise. The other run ends it, or its next attempt, which passes over what is done.
-- A Start of an item is posted with the item's row or not at all: of a repeat the engine may derive another execution id.
--
-- Batches of paused executions change nothing.
--
-- Answers: 'batch' (number, counted) · 'paused' (number) · 'early' (number, done, failed, total) · 'loop' (run, round, first new index, end of new
-- indexes, chunk, done, failed, total; payload unless known) · 'continued' (position, attempt, first, past) · 'event' (made here)
-- · 'repeated' (places of Starts that were not posted) · 'partly' / 'posted' (see noetl.post).
CREATE OR REPLACE FUNCTION noetl.commit_items(
    p_owner TEXT,
    b_execution BIGINT[], b_run BIGINT[], b_round INTEGER[], b_command TEXT[], b_attempt INTEGER[], b_turn INTEGER[],
    b_wave INTEGER[], b_closed BOOLEAN[], b_undone INTEGER[], b_chunk INTEGER[], b_alert TEXT[], b_alert_index INTEGER[],
    b_known BOOLEAN[],
    e_batch INTEGER[], e_id TEXT[], e_seq BIGINT[], e_type TEXT[], e_facts TEXT[], e_at FLOAT8[],
    e_counts BOOLEAN[], e_failed BOOLEAN[], e_patched BOOLEAN[], e_size BIGINT[],
    o_batch INTEGER[], o_execution BIGINT[], o_id TEXT[], o_payload TEXT[], o_awaited_by BIGINT[], o_program TEXT[], o_path TEXT[],
    p_continued JSON
) RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
DECLARE
    -- what may continue: position in p_continued, batch, item (null: the command itself), the item it begins with
    k_position INTEGER[] := '{}'; k_batch INTEGER[] := '{}'; k_item BIGINT[] := '{}'; k_start BIGINT[] := '{}';
    -- the wave: open batches with what their commands answer for; then those that are not early
    open_no INTEGER[]; open_remaining INTEGER[]; is_open BOOLEAN[];
    w_no INTEGER[]; w_counted BIGINT[]; w_failed BIGINT[]; w_patched BIGINT[]; w_size BIGINT[]; w_alone BIGINT[];
    w_early INTEGER[]; w_going INTEGER[]; w_rest INTEGER[];
    -- what does not continue because its item is done: batch, item, whether it is the command itself
    w_decided INTEGER[]; w_decided_item BIGINT[]; w_overtaken INTEGER[];
    all_decided INTEGER[] := '{}'; all_decided_item BIGINT[] := '{}';
    g_execution BIGINT[]; g_run BIGINT[]; g_round INTEGER[]; g_items BIGINT[];
    -- all waves
    all_no INTEGER[] := '{}'; all_counted BIGINT[] := '{}'; all_failed BIGINT[] := '{}'; all_patched BIGINT[] := '{}';
    all_size BIGINT[] := '{}'; all_early INTEGER[] := '{}';
    -- rows that were not there yet, by their places in e_batch
    w_fresh INTEGER[]; all_fresh INTEGER[] := '{}'; is_fresh BOOLEAN[];
    paused BIGINT[]; is_counted BOOLEAN[];
    o_posted INTEGER[]; o_repeated INTEGER[]; is_posted BOOLEAN[];
    gone_execution BIGINT[] := '{}'; gone_run BIGINT[] := '{}'; gone_round INTEGER[] := '{}'; gone_items BIGINT[] := '{}';
    -- partitions of history outside of these bounds are not opened (OFFSET 0: no plan reads all that lies between them)
    least_id BIGINT; most_id BIGINT;
BEGIN
    SELECT min(b.execution), max(b.execution) INTO least_id, most_id FROM unnest(b_execution) AS b (execution);
    PERFORM FROM noetl.loop l
    JOIN (SELECT DISTINCT b.* FROM unnest(b_execution, b_run, b_round) AS b (execution, run, round)) b
        ON l.execution_id = b.execution AND l.run = b.run AND l.round = b.round
    ORDER BY l.execution_id, l.run, l.round FOR UPDATE OF l;
    SELECT coalesce(array_agg(e.execution_id), '{}') INTO paused
    FROM noetl.execution e WHERE e.execution_id = ANY(b_execution) AND e.status = 'paused';
    IF p_continued IS NOT NULL THEN
        SELECT array_agg(n.position), array_agg(n.batch), array_agg(n.item), array_agg(n.start)
        INTO k_position, k_batch, k_item, k_start
        FROM json_to_recordset(p_continued) AS n (position INTEGER, batch INTEGER, item BIGINT, start BIGINT);
    END IF;

    FOR this_wave IN 1 .. (SELECT max(w.wave) FROM unnest(b_wave) AS w (wave)) LOOP
        WITH fenced AS (
            SELECT b.no, c.remaining
            FROM unnest(b_execution, b_run, b_round, b_command, b_attempt, b_turn, b_wave)
                WITH ORDINALITY AS b (execution, run, round, command, attempt, turn, wave, no)
            JOIN noetl.command c ON c.execution_id = b.execution AND c.place = b.command
                AND c.run = b.run AND c.round = b.round AND c.attempt = b.attempt AND c.turn = b.turn
            WHERE b.wave = this_wave AND b.execution <> ALL(paused) ORDER BY c.execution_id, c.place FOR UPDATE OF c
        ) SELECT array_agg(f.no ORDER BY f.no), array_agg(f.remaining ORDER BY f.no) INTO open_no, open_remaining FROM fenced f;
        CONTINUE WHEN open_no IS NULL;
        is_open := noetl.marks(open_no, cardinality(b_execution));

        WITH decided AS MATERIALIZED (
            SELECT k.batch, k.start AS item, k.item IS NULL AS itself FROM unnest(k_batch, k_item, k_start) AS k (batch, item, start)
            WHERE is_open[k.batch] AND EXISTS (
                SELECT FROM noetl.event v WHERE v.execution_id = b_execution[k.batch] AND v.execution_id BETWEEN least_id AND most_id
                    AND v.event_id = 'item:' || b_run[k.batch] || ':' || b_round[k.batch] || ':' || k.start OFFSET 0)
        ), arrived AS MATERIALIZED (
            SELECT DISTINCT ON (b_execution[e.batch], e.id) e.*, b_execution[e.batch] AS execution, b_run[e.batch] AS lane
            FROM unnest(e_batch, e_id, e_seq, e_type, e_facts, e_at, e_counts, e_failed, e_patched, e_size) WITH ORDINALITY
                AS e (batch, id, seq, type, facts, at, counts, failed, patched, size, place)
            CROSS JOIN LATERAL (SELECT b_run[e.batch] || '.r' || b_round[e.batch] || '.i' || e.seq AS alone) i
            WHERE is_open[e.batch]
              AND NOT (e.counts AND i.alone <> b_command[e.batch] AND EXISTS (
                  SELECT FROM noetl.command c WHERE c.execution_id = b_execution[e.batch] AND c.place = i.alone))
              AND (e.counts OR (e.batch, e.seq) NOT IN (SELECT d.batch, d.item FROM decided d))
            ORDER BY b_execution[e.batch], e.id, e.batch
        ), fresh AS MATERIALIZED (
            SELECT a.* FROM arrived a
            WHERE NOT EXISTS (SELECT FROM noetl.event v WHERE v.execution_id = a.execution AND v.event_id = a.id
                              AND v.execution_id BETWEEN least_id AND most_id OFFSET 0)
        ), going AS MATERIALIZED (
            SELECT max(k.position) AS position, k.batch, k.item
            FROM (
                SELECT k.position, k.batch, k.item, k.item IS NULL AND k.batch NOT IN (SELECT d.batch FROM decided d WHERE d.itself) AS goes
                FROM unnest(k_position, k_batch, k_item) AS k (position, batch, item) WHERE is_open[k.batch]
                UNION ALL SELECT NULL, f.batch, f.seq, true FROM fresh f
            ) k GROUP BY k.batch, k.item HAVING bool_or(k.goes) AND max(k.position) IS NOT NULL
        ), tally AS (
            SELECT c.no, sum(c.counted) AS counted, sum(c.failed) AS failed, sum(c.patched) AS patched, sum(c.size) AS size,
                   sum(c.alone) AS alone, sum(c.remaining) AS remaining
            FROM (
                SELECT f.batch AS no, f.counts::integer AS counted, (f.counts AND f.failed)::integer AS failed,
                       (f.counts AND f.patched)::integer AS patched, f.size AS size, 0 AS alone, 0 AS remaining FROM fresh f
                UNION ALL SELECT g.batch, 0, 0, 0, 0, 1, 0 FROM going g WHERE g.item IS NOT NULL
                UNION ALL SELECT o.no, 0, 0, 0, 0, 0, o.remaining FROM unnest(open_no, open_remaining) AS o (no, remaining)
            ) c GROUP BY c.no
        ), judged AS MATERIALIZED (
            SELECT t.*, coalesce(t.remaining - t.counted - t.alone > b_undone[t.no], false) AS early FROM tally t
        ), stored AS (
            INSERT INTO noetl.event (execution_id, event_id, lane, seq, type, facts, at)
            SELECT f.execution, f.id, f.lane, f.seq, f.type, f.facts::json, CASE f.at WHEN 0 THEN now() ELSE to_timestamp(f.at) END
            FROM fresh f WHERE f.batch <> ALL((SELECT coalesce(array_agg(j.no), '{}') FROM judged j WHERE j.early)::integer[])
        )
        SELECT array_agg(j.no) FILTER (WHERE NOT j.early), array_agg(j.counted) FILTER (WHERE NOT j.early),
               array_agg(j.failed) FILTER (WHERE NOT j.early), array_agg(j.patched) FILTER (WHERE NOT j.early),
               array_agg(j.size) FILTER (WHERE NOT j.early), array_agg(j.alone) FILTER (WHERE NOT j.early),
               coalesce(array_agg(j.no) FILTER (WHERE j.early), '{}'),
               (SELECT array_agg(g.position) FROM going g), (SELECT array_agg(g.batch) FROM going g WHERE g.item IS NULL),
               (SELECT coalesce(array_agg(f.place), '{}') FROM fresh f),
               (SELECT coalesce(array_agg(d.batch), '{}') FROM decided d), (SELECT coalesce(array_agg(d.item), '{}') FROM decided d),
               (SELECT coalesce(array_agg(d.batch), '{}') FROM decided d WHERE d.itself)
        INTO w_no, w_counted, w_failed, w_patched, w_size, w_alone, w_early, w_going, w_rest, w_fresh,
             w_decided, w_decided_item, w_overtaken FROM judged j;

        all_early := all_early || w_early;
        CONTINUE WHEN w_no IS NULL;
        all_no := all_no || w_no;
        all_fresh := all_fresh || w_fresh;
        all_decided := all_decided || w_decided;
        all_decided_item := all_decided_item || w_decided_item;
        all_counted := all_counted || w_counted;
        all_failed := all_failed || w_failed;
        all_patched := all_patched || w_patched;
        all_size := all_size || w_size;

        WITH used AS MATERIALIZED (
            SELECT b_execution[w.no] AS execution, b_run[w.no] AS run, b_round[w.no] AS round, b_command[w.no] AS command,
                   b_closed[w.no] AND (w.no = ANY(w_rest)) IS NOT TRUE AS done, w.counted + w.alone AS items,
                   w.no = ANY(w_overtaken) AS overtaken
            FROM unnest(w_no, w_counted, w_alone) AS w (no, counted, alone)
        ), gone AS (
            DELETE FROM noetl.command c USING used u
            WHERE c.execution_id = u.execution AND c.place = u.command AND (u.done OR (u.overtaken AND c.remaining <= u.items))
            RETURNING u.execution, u.run, u.round, greatest(0, c.remaining - u.items) AS items
        ), partial AS (
            UPDATE noetl.command c
            SET remaining = greatest(0, c.remaining - u.items), owner = CASE WHEN u.overtaken THEN '' ELSE c.owner END
            FROM used u WHERE c.execution_id = u.execution AND c.place = u.command AND NOT u.done
              AND ((u.items > 0 AND NOT u.overtaken) OR (u.overtaken AND c.remaining > u.items))
        )
        SELECT coalesce(array_agg(g.execution), '{}'), coalesce(array_agg(g.run), '{}'), coalesce(array_agg(g.round), '{}'),
               coalesce(array_agg(g.items), '{}')
        INTO g_execution, g_run, g_round, g_items FROM gone g;
        gone_execution := gone_execution || g_execution;
        gone_run := gone_run || g_run;
        gone_round := gone_round || g_round;
        gone_items := gone_items || g_items;

        IF w_going IS NOT NULL THEN
            RETURN QUERY SELECT * FROM noetl.continue_items(p_owner, p_continued, w_going, w_no, b_execution, b_run, b_round);
        END IF;
    END LOOP;

    RETURN QUERY SELECT * FROM noetl.advance_loops(
        p_owner, all_no, all_counted, all_failed, all_patched, all_size, b_execution, b_run, b_round, b_chunk, b_alert, b_alert_index, b_known,
        gone_execution, gone_run, gone_round, gone_items);

    IF cardinality(o_batch) > 0 THEN
        is_counted := noetl.marks(all_no, cardinality(b_execution));
        is_fresh := noetl.marks(all_fresh, cardinality(e_batch));
        -- The item of a Start and of an ItemAwaits is in its event id (ids.child_origin, ids.item_awaits_event). The rest of a chunk may
        -- have no row: its repeat is fenced by the turn.
        WITH asked AS (
            SELECT o.place, coalesce(substring(o.id FROM '^start:[0-9]+/[^/]+/([0-9]+)(?:#[0-9]+)?:[0-9]+$'),
                                     substring(o.id FROM '^await:[0-9]+\.r[0-9]+\.i([0-9]+):[0-9]+$'))::bigint AS item, o.batch, false AS known
            FROM unnest(o_batch, o_id) WITH ORDINALITY AS o (batch, id, place)
            UNION ALL SELECT NULL, e.seq, e.batch, NOT is_fresh[e.place]
            FROM unnest(e_batch, e_seq) WITH ORDINALITY AS e (batch, seq, place)
            UNION ALL SELECT NULL, d.item, d.batch, true FROM unnest(all_decided, all_decided_item) AS d (batch, item)
        ), judged AS (
            SELECT a.place, a.batch, a.item IS NOT NULL AND bool_or(a.known) OVER (PARTITION BY a.batch, a.item) AS repeated FROM asked a
        ) SELECT coalesce(array_agg(j.place) FILTER (WHERE NOT j.repeated), '{}'), coalesce(array_agg(j.place) FILTER (WHERE j.repeated), '{}')
        INTO o_posted, o_repeated FROM judged j WHERE j.place IS NOT NULL AND is_counted[j.batch];
        RETURN QUERY SELECT 'repeated', NULL::bigint, NULL, o_repeated::bigint[], NULL, NULL, NULL WHERE cardinality(o_repeated) > 0;
        is_posted := noetl.marks(o_posted, cardinality(o_batch));
        RETURN QUERY SELECT p.* FROM (
            SELECT array_agg(o.execution) AS execution, array_agg(o.id) AS id, array_agg(b_execution[o.batch]) AS source,
                   array_agg(o.payload) AS payload, array_agg(o.awaited_by) AS awaited_by, array_agg(o.program) AS program,
                   array_agg(o.path) AS path
            FROM unnest(o_batch, o_execution, o_id, o_payload, o_awaited_by, o_program, o_path) WITH ORDINALITY
                AS o (batch, execution, id, payload, awaited_by, program, path, place)
            WHERE is_posted[o.place]
        ) o, noetl.post(p_owner, o.execution, o.id, o.source, o.payload, o.awaited_by, o.program, o.path) p WHERE o.execution IS NOT NULL;
    END IF;
    IF cardinality(all_early) > 0 THEN
        RETURN QUERY SELECT 'early', l.execution_id, NULL, ARRAY[x.no, l.done, l.failed, l.total]::bigint[], NULL, NULL, NULL
            FROM unnest(all_early) AS x (no)
            JOIN noetl.loop l ON l.execution_id = b_execution[x.no] AND l.run = b_run[x.no] AND l.round = b_round[x.no];
    END IF;
    IF cardinality(paused) > 0 THEN
        RETURN QUERY SELECT 'paused', NULL::bigint, NULL, ARRAY[b.no]::bigint[], NULL, NULL, NULL
            FROM unnest(b_execution) WITH ORDINALITY AS b (execution, no) WHERE b.execution = ANY(paused);
    END IF;
    RETURN QUERY SELECT 'batch', NULL::bigint, NULL, ARRAY[t.no, t.counted]::bigint[], NULL, NULL, NULL
        FROM unnest(all_no, all_counted) AS t (no, counted);
END $$;

-- Count what the batches brought under their loops; refill windows, tell alerts and ends.
CREATE OR REPLACE FUNCTION noetl.advance_loops(
    p_owner TEXT, t_no INTEGER[], t_counted BIGINT[], t_failed BIGINT[], t_patched BIGINT[], t_size BIGINT[],
    b_execution BIGINT[], b_run BIGINT[], b_round INTEGER[], b_chunk INTEGER[], b_alert TEXT[], b_alert_index INTEGER[],
    b_known BOOLEAN[], g_execution BIGINT[], g_run BIGINT[], g_round INTEGER[], g_items BIGINT[]
) RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY WITH told_off AS MATERIALIZED (
        SELECT t.*, b_execution[t.no] AS execution, b_run[t.no] AS run, b_round[t.no] AS round, b_chunk[t.no] AS chunk,
               b_known[t.no] AS known, nullif(b_alert[t.no], '') AS alert, b_alert_index[t.no] AS alert_index
        FROM unnest(t_no, t_counted, t_failed, t_patched, t_size) AS t (no, counted, failed, patched, size)
    ), delta AS (
        SELECT t.execution, t.run, t.round, sum(t.counted - t.failed) AS done, sum(t.failed) AS failed,
               sum(t.patched) AS patched, sum(t.size) AS size, max(t.chunk) AS chunk, bool_and(t.known) AS known,
               (array_agg(t.alert ORDER BY t.no) FILTER (WHERE t.alert IS NOT NULL))[1] AS alert,
               (array_agg(t.alert_index ORDER BY t.no) FILTER (WHERE t.alert IS NOT NULL))[1] AS alert_index,
               sum(t.closed) AS closed, sum(t.back) AS back
        FROM (
            SELECT t.execution, t.run, t.round, t.no, t.counted, t.failed, t.patched, t.size, t.chunk, t.known, t.alert, t.alert_index,
                   0 AS closed, 0 AS back
            FROM told_off t
            -- Commands that are gone belong to batches that were counted, so every loop of theirs is there already.
            UNION ALL SELECT g.execution, g.run, g.round, NULL, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 1, g.items
            FROM unnest(g_execution, g_run, g_round, g_items) AS g (execution, run, round, items)
        ) t GROUP BY t.execution, t.run, t.round
    ), after AS (
        SELECT l.execution_id, l.run, l.round, l.step, l.program, l.total, l.places, l.cursor, l.gate, l.priority,
               l.done + d.done AS done, l.failed + d.failed AS failed, l.size + d.size AS size, l.patched + d.patched AS patched,
               greatest(l.done + d.done + l.failed + d.failed, l.issued - d.back) AS issued, d.closed,
               greatest(1, d.chunk) AS chunk, d.known, d.alert_index,
               CASE WHEN l.gate = 'open' AND NOT l.alerted THEN d.alert END AS alert,
               l.gate = 'open' AND NOT l.alerted AND d.alert IS NULL AS refills
        FROM noetl.loop l JOIN delta d ON l.execution_id = d.execution AND l.run = d.run AND l.round = d.round
    ), planned AS (
        SELECT a.*, CASE WHEN a.refills
            THEN greatest(0, least(a.total - a.cursor, a.places - (a.issued - a.done - a.failed), a.closed * a.chunk))
            ELSE 0 END AS more,
            a.gate <> 'closed' AND (a.done + a.failed = a.total OR (a.gate = 'closing' AND a.issued = a.done + a.failed)) AS ends
        FROM after a
    ), dealt AS (
        SELECT p.*, greatest(1, least(p.chunk, ceil(p.more::numeric / greatest(1, p.closed))))::integer AS span FROM planned p
    ), moved AS (
        UPDATE noetl.loop l
        SET done = p.done, failed = p.failed, size = p.size, patched = p.patched, issued = p.issued + p.more,
            cursor = p.cursor + p.more, alerted = l.alerted OR p.alert IS NOT NULL,
            gate = CASE WHEN p.ends THEN 'closed' ELSE l.gate END
        FROM dealt p WHERE l.execution_id = p.execution_id AND l.run = p.run AND l.round = p.round
        RETURNING p.*, CASE WHEN NOT p.known THEN l.payload::text END AS payload
    ), chunks AS (
        INSERT INTO noetl.command (execution_id, command_id, run, round, owner, not_before, first, past, remaining, priority)
        SELECT m.execution_id, m.run || '.r' || m.round || '.' || i, m.run, m.round, p_owner, now(), i,
               least(i + m.span, m.cursor + m.more), least(i + m.span, m.cursor + m.more) - i, m.priority
        FROM moved m, generate_series(m.cursor, (m.cursor + m.more - 1)::integer, m.span) AS i
        ORDER BY m.execution_id, m.run, m.round, i
    ), told AS (
        INSERT INTO noetl.outbox AS o (execution_id, event_id, source, owner, payload)
        SELECT m.execution_id, 'alert:' || m.run || ':' || m.round, m.execution_id, p_owner,
               json_build_object('type', 'loop.alert', 'execution_id', m.execution_id, 'event_id', 'alert:' || m.run || ':' || m.round,
                                 'program', m.program, 'run', m.run, 'round', m.round, 'step', m.step, 'index', m.alert_index,
                                 'cause', m.alert)
        FROM moved m WHERE m.alert IS NOT NULL
        UNION ALL
        SELECT m.execution_id, 'loop:' || m.run || ':' || m.round, m.execution_id, p_owner,
               noetl.loop_done(m.execution_id, m.run, m.round, m.step, m.program)
        FROM moved m WHERE m.ends
        ON CONFLICT DO NOTHING
        RETURNING o.execution_id, o.event_id, o.payload
    )
    SELECT 'loop', m.execution_id, NULL, ARRAY[m.run, m.round, m.cursor, m.cursor + m.more, m.span, m.done, m.failed, m.total]::bigint[],
           m.payload, NULL, NULL FROM moved m
    UNION ALL
    SELECT 'event', t.execution_id, t.event_id, NULL, t.payload::text, NULL, NULL FROM told t;
END $$;

-- Commands that continue: the next turn of a chunk takes its row's place, an item that continues alone gets a row of its own, with the priority
-- of its loop. Only those of the batches in w_no (the others are early).
CREATE OR REPLACE FUNCTION noetl.continue_items(
    p_owner TEXT, p_continued JSON, w_going INTEGER[], w_no INTEGER[], b_execution BIGINT[], b_run BIGINT[], b_round INTEGER[]
) RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
DECLARE
    goes BOOLEAN[] := noetl.marks(ARRAY(SELECT g.position + 1 FROM unnest(w_going) AS g (position)), json_array_length(p_continued));
    is_counted BOOLEAN[] := noetl.marks(w_no, cardinality(b_execution));
BEGIN
    RETURN QUERY WITH wanted AS MATERIALIZED (
        SELECT n.*, b_execution[n.batch] AS execution
        FROM json_to_recordset(p_continued) AS n (
            position INTEGER, batch INTEGER, item INTEGER, id TEXT, attempt INTEGER, turn INTEGER, waiting BOOLEAN, delay FLOAT8,
            start INTEGER, payload TEXT, remote BOOLEAN)
        WHERE goes[n.position + 1] AND is_counted[n.batch]
    ), rest AS (
        UPDATE noetl.command c
        SET turn = w.turn, waiting = w.waiting, owner = CASE WHEN w.waiting THEN '' ELSE p_owner END,
            not_before = now() + make_interval(secs => w.delay), payload = w.payload::json, child = NULL, remote = w.remote,
            first = least(w.start, c.past), remaining = least(c.remaining, c.past - least(w.start, c.past))
        FROM wanted w WHERE w.item IS NULL AND c.execution_id = w.execution AND c.place = w.id
        RETURNING w.position, c.execution_id, c.command_id, c.attempt, c.first, c.past
    ), item AS (
        INSERT INTO noetl.command AS c (
            execution_id, command_id, run, round, attempt, turn, waiting, owner, not_before, first, past, remaining, priority, payload, remote)
        SELECT w.execution, w.id, l.run, l.round, w.attempt, w.turn, w.waiting, CASE WHEN w.waiting THEN '' ELSE p_owner END,
               now() + make_interval(secs => w.delay), w.item, w.item + 1, 1, l.priority, w.payload::json, w.remote
        FROM wanted w
        JOIN noetl.loop l ON l.execution_id = w.execution AND l.run = b_run[w.batch] AND l.round = b_round[w.batch]
        WHERE w.item IS NOT NULL
        ON CONFLICT (execution_id, place, part) DO UPDATE
        SET turn = excluded.turn, waiting = excluded.waiting, owner = excluded.owner, not_before = excluded.not_before,
            payload = excluded.payload, child = NULL, remote = excluded.remote
        WHERE c.turn < excluded.turn
        RETURNING c.execution_id, c.command_id, c.attempt, c.first, c.past
    )
    SELECT 'continued', r.execution_id, r.command_id, ARRAY[r.position, r.attempt, r.first, r.past]::bigint[], NULL, NULL, NULL FROM rest r
    UNION ALL
    SELECT 'continued', i.execution, i.id, ARRAY[max(i.position), max(i.attempt), max(i.first), max(i.past)]::bigint[], NULL, NULL, NULL
    FROM (
        SELECT w.execution, w.id, w.position, NULL::integer AS attempt, NULL::integer AS first, NULL::integer AS past
        FROM wanted w WHERE w.item IS NOT NULL
        UNION ALL SELECT i.execution_id, i.command_id, NULL, i.attempt, i.first, i.past FROM item i
    ) i GROUP BY i.execution, i.id HAVING max(i.attempt) IS NOT NULL;
END $$;
