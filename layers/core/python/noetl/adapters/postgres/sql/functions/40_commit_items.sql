-- The item lane's write: outcomes of loop items, any number of batches and loops, one call, one transaction. No execution is locked.
--
-- b: batches (ordinal = number), e: their rows, o: their events, p_continued: commands that go on (json; payload as text; item: the
-- index that goes on alone, null for the rest of the chunk itself).
--
-- The loop rows are locked first, so batches of one loop follow each other and each statement below sees what the last one left;
-- that is why a row that is not there yet when it is looked for can be inserted without a conflict.
-- A batch whose command is not open at its attempt and turn is left out ('batch' is answered for the others only). A command that is
-- closed is followed by at most one new chunk, within the free places.
--
-- Answers: 'batch' (number, counted) · 'loop' (run, round, first new index, end of new indexes, chunk, done, failed, total; payload
-- unless known) · 'continued' (position, attempt, first, past) · 'event' (made here) · 'partly' / 'posted' (see noetl.post).
CREATE OR REPLACE FUNCTION noetl.commit_items(
    p_owner TEXT,
    b_execution BIGINT[], b_run BIGINT[], b_round INTEGER[], b_command TEXT[], b_attempt INTEGER[], b_turn INTEGER[],
    b_closed BOOLEAN[], b_chunk INTEGER[], b_alert TEXT[], b_alert_index INTEGER[], b_known BOOLEAN[],
    e_batch INTEGER[], e_id TEXT[], e_seq BIGINT[], e_type TEXT[], e_facts TEXT[], e_at FLOAT8[],
    e_counts BOOLEAN[], e_failed BOOLEAN[], e_patched BOOLEAN[], e_size BIGINT[],
    o_batch INTEGER[], o_execution BIGINT[], o_id TEXT[], o_payload TEXT[],
    p_continued JSON
) RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
DECLARE
    held INTEGER[];
    counted BIGINT[]; failed BIGINT[]; patched BIGINT[]; sized BIGINT[];
    fresh_batch INTEGER[]; fresh_seq BIGINT[];
    going INTEGER[]; alone INTEGER[] := '{}'; replaced INTEGER[] := '{}';
    gone_execution BIGINT[]; gone_run BIGINT[]; gone_round INTEGER[]; gone_items BIGINT[];
BEGIN
    PERFORM FROM noetl.loop l
    JOIN (SELECT DISTINCT b.* FROM unnest(b_execution, b_run, b_round) AS b (execution, run, round)) b
        ON l.execution_id = b.execution AND l.run = b.run AND l.round = b.round
    ORDER BY l.execution_id, l.run, l.round FOR UPDATE OF l;

    WITH fenced AS (
        SELECT b.no
        FROM unnest(b_execution, b_run, b_round, b_command, b_attempt, b_turn)
            WITH ORDINALITY AS b (execution, run, round, command, attempt, turn, no)
        JOIN noetl.command c ON c.execution_id = b.execution AND c.command_id = b.command
            AND c.run = b.run AND c.round = b.round AND c.attempt = b.attempt AND c.turn = b.turn
        ORDER BY c.execution_id, c.command_id FOR UPDATE OF c
    ) SELECT array_agg(no ORDER BY no) INTO held FROM fenced;
    IF held IS NULL THEN
        RETURN;
    END IF;

    WITH arrived AS MATERIALIZED (
        SELECT DISTINCT ON (b_execution[e.batch], e.id) e.*, b_execution[e.batch] AS execution, b_run[e.batch] AS lane
        FROM unnest(e_batch, e_id, e_seq, e_type, e_facts, e_at, e_counts, e_failed, e_patched, e_size)
            AS e (batch, id, seq, type, facts, at, counts, failed, patched, size)
        WHERE e.batch = ANY(held)
        ORDER BY b_execution[e.batch], e.id, e.batch
    ), fresh AS MATERIALIZED (
        SELECT a.* FROM arrived a
        WHERE NOT EXISTS (SELECT FROM noetl.event v WHERE v.execution_id = a.execution AND v.event_id = a.id)
    ), stored AS (
        INSERT INTO noetl.event (execution_id, event_id, lane, seq, type, facts, at)
        SELECT f.execution, f.id, f.lane, f.seq, f.type, f.facts::json, CASE f.at WHEN 0 THEN now() ELSE to_timestamp(f.at) END
        FROM fresh f
    ), tally AS (
        SELECT c.no, sum(c.counted) AS counted, sum(c.failed) AS failed, sum(c.patched) AS patched, sum(c.size) AS size
        FROM (
            SELECT f.batch AS no, f.counts::integer AS counted, (f.counts AND f.failed)::integer AS failed,
                   (f.counts AND f.patched)::integer AS patched, f.size AS size FROM fresh f
            UNION ALL SELECT no, 0, 0, 0, 0 FROM generate_subscripts(b_execution, 1) AS no
        ) c GROUP BY c.no
    )
    SELECT array_agg(t.counted ORDER BY t.no), array_agg(t.failed ORDER BY t.no), array_agg(t.patched ORDER BY t.no),
           array_agg(t.size ORDER BY t.no), (SELECT array_agg(f.batch ORDER BY f.id) FROM fresh f),
           (SELECT array_agg(f.seq ORDER BY f.id) FROM fresh f)
    INTO counted, failed, patched, sized, fresh_batch, fresh_seq FROM tally t;

    IF p_continued IS NOT NULL THEN
        SELECT array_agg(n.position), coalesce(array_agg(n.batch) FILTER (WHERE n.item IS NOT NULL), '{}'),
               coalesce(array_agg(n.batch) FILTER (WHERE n.item IS NULL), '{}')
        INTO going, alone, replaced
        FROM json_to_recordset(p_continued) AS n (position INTEGER, batch INTEGER, item BIGINT)
        WHERE n.batch = ANY(held) AND (
            n.item IS NULL
            OR NOT EXISTS (SELECT FROM unnest(e_batch, e_seq) AS r (batch, seq) WHERE r.batch = n.batch AND r.seq = n.item)
            OR EXISTS (SELECT FROM unnest(fresh_batch, fresh_seq) AS r (batch, seq) WHERE r.batch = n.batch AND r.seq = n.item));
    END IF;

    WITH used AS (
        SELECT b.execution, b.run, b.round, b.command, bool_or(b.closed AND b.no <> ALL(replaced)) AS done,
               sum(b.counted + cardinality(array_positions(alone, b.no::integer))) AS items
        FROM unnest(b_execution, b_run, b_round, b_command, b_closed, counted)
            WITH ORDINALITY AS b (execution, run, round, command, closed, counted, no)
        WHERE b.no = ANY(held)
        GROUP BY b.execution, b.run, b.round, b.command
    ), gone AS (
        DELETE FROM noetl.command c USING used u
        WHERE c.execution_id = u.execution AND c.command_id = u.command AND u.done
        RETURNING u.execution, u.run, u.round, c.remaining - u.items AS items
    ), partial AS (
        UPDATE noetl.command c SET remaining = greatest(0, c.remaining - u.items)
        FROM used u WHERE c.execution_id = u.execution AND c.command_id = u.command AND NOT u.done AND u.items > 0
    )
    SELECT array_agg(g.execution), array_agg(g.run), array_agg(g.round), array_agg(g.items)
    INTO gone_execution, gone_run, gone_round, gone_items FROM gone g;

    IF going IS NOT NULL THEN
        RETURN QUERY SELECT * FROM noetl.continue_items(p_owner, p_continued, going, b_execution, b_run, b_round);
    END IF;

    RETURN QUERY WITH delta AS (
        SELECT b.execution, b.run, b.round, sum(b.counted - b.failed) AS done, sum(b.failed) AS failed,
               sum(b.patched) AS patched, sum(b.size) AS size, max(b.chunk) AS chunk, bool_and(b.known) AS known,
               (array_agg(b.alert ORDER BY b.no) FILTER (WHERE b.alert <> ''))[1] AS alert,
               (array_agg(b.alert_index ORDER BY b.no) FILTER (WHERE b.alert <> ''))[1] AS alert_index
        FROM unnest(b_execution, b_run, b_round, b_chunk, b_known, b_alert, b_alert_index, counted, failed, patched, sized)
            WITH ORDINALITY AS b (execution, run, round, chunk, known, alert, alert_index, counted, failed, patched, size, no)
        WHERE b.no = ANY(held)
        GROUP BY b.execution, b.run, b.round
    ), after AS (
        SELECT l.execution_id, l.run, l.round, l.step, l.program, l.total, l.places, l.cursor, l.gate,
               l.done + d.done AS done, l.failed + d.failed AS failed, l.size + d.size AS size, l.patched + d.patched AS patched,
               l.issued - g.back AS issued, g.closed,
               greatest(1, d.chunk) AS chunk, d.known, d.alert_index,
               CASE WHEN l.gate = 'open' AND NOT l.alerted THEN d.alert END AS alert,
               l.gate = 'open' AND NOT l.alerted AND d.alert IS NULL AS refills
        FROM noetl.loop l JOIN delta d ON l.execution_id = d.execution AND l.run = d.run AND l.round = d.round
        CROSS JOIN LATERAL (
            SELECT count(*) AS closed, coalesce(sum(g.items), 0) AS back
            FROM unnest(gone_execution, gone_run, gone_round, gone_items) AS g (execution, run, round, items)
            WHERE g.execution = l.execution_id AND g.run = l.run AND g.round = l.round
        ) g
    ), planned AS (
        SELECT a.*, CASE WHEN a.refills
            THEN greatest(0, least(a.total - a.cursor, a.places - (a.issued - a.done - a.failed), a.closed * a.chunk)) ELSE 0 END AS more,
            a.gate <> 'closed' AND (a.done + a.failed = a.total OR (a.gate = 'closing' AND a.issued = a.done + a.failed)) AS ends
        FROM after a
    ), moved AS (
        UPDATE noetl.loop l
        SET done = p.done, failed = p.failed, size = p.size, patched = p.patched, issued = p.issued + p.more,
            cursor = p.cursor + p.more, alerted = l.alerted OR p.alert IS NOT NULL,
            gate = CASE WHEN p.ends THEN 'closed' ELSE l.gate END
        FROM planned p WHERE l.execution_id = p.execution_id AND l.run = p.run AND l.round = p.round
        RETURNING p.*, CASE WHEN NOT p.known THEN l.payload::text END AS payload
    ), chunks AS (
        INSERT INTO noetl.command (execution_id, command_id, run, round, owner, not_before, first, past, remaining)
        SELECT m.execution_id, m.run || '.r' || m.round || '.' || i, m.run, m.round, p_owner, now(), i,
               least(i + m.chunk, m.cursor + m.more), least(i + m.chunk, m.cursor + m.more) - i
        FROM moved m, generate_series(m.cursor, (m.cursor + m.more - 1)::integer, m.chunk) AS i
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
    SELECT 'loop', m.execution_id, NULL, ARRAY[m.run, m.round, m.cursor, m.cursor + m.more, m.chunk, m.done, m.failed, m.total]::bigint[],
           m.payload, NULL, NULL FROM moved m
    UNION ALL
    SELECT 'event', t.execution_id, t.event_id, NULL, t.payload::text, NULL, NULL FROM told t;

    IF cardinality(o_batch) > 0 THEN
        RETURN QUERY SELECT p.* FROM (
            SELECT array_agg(o.execution) AS execution, array_agg(o.id) AS id, array_agg(b_execution[o.batch]) AS source,
                   array_agg(o.payload) AS payload
            FROM unnest(o_batch, o_execution, o_id, o_payload) AS o (batch, execution, id, payload)
            WHERE o.batch = ANY(held)
        ) o, noetl.post(p_owner, o.execution, o.id, o.source, o.payload) p WHERE o.execution IS NOT NULL;
    END IF;
    RETURN QUERY SELECT 'batch', NULL::bigint, NULL, ARRAY[t.no, t.counted]::bigint[], NULL, NULL, NULL
        FROM unnest(counted) WITH ORDINALITY AS t (counted, no) WHERE t.no = ANY(held);
END $$;

-- Commands that go on: the rest of a chunk takes its row's place, an item that goes on alone gets a row of its own.
CREATE OR REPLACE FUNCTION noetl.continue_items(
    p_owner TEXT, p_continued JSON, going INTEGER[], b_execution BIGINT[], b_run BIGINT[], b_round INTEGER[]
) RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY WITH wanted AS MATERIALIZED (
        SELECT n.*, b_execution[n.batch] AS execution
        FROM json_to_recordset(p_continued) AS n (
            position INTEGER, batch INTEGER, item INTEGER, id TEXT, attempt INTEGER, turn INTEGER, waiting BOOLEAN, delay FLOAT8,
            start INTEGER, payload TEXT)
        WHERE n.position = ANY(going)
    ), rest AS (
        UPDATE noetl.command c
        SET turn = w.turn, waiting = w.waiting, owner = CASE WHEN w.waiting THEN '' ELSE p_owner END,
            not_before = now() + make_interval(secs => w.delay), payload = w.payload::json, child = NULL,
            first = least(w.start, c.past), remaining = least(c.remaining, c.past - least(w.start, c.past))
        FROM wanted w WHERE w.item IS NULL AND c.execution_id = w.execution AND c.command_id = w.id
        RETURNING w.position, c.execution_id, c.command_id, c.attempt, c.first, c.past
    ), item AS (
        INSERT INTO noetl.command AS c (
            execution_id, command_id, run, round, attempt, turn, waiting, owner, not_before, first, past, remaining, payload)
        SELECT w.execution, w.id, b_run[w.batch], b_round[w.batch], w.attempt, w.turn, w.waiting,
               CASE WHEN w.waiting THEN '' ELSE p_owner END, now() + make_interval(secs => w.delay), w.item, w.item + 1, 1,
               w.payload::json
        FROM wanted w WHERE w.item IS NOT NULL
        ON CONFLICT (execution_id, command_id) DO UPDATE
        SET turn = excluded.turn, waiting = excluded.waiting, owner = excluded.owner, not_before = excluded.not_before,
            payload = excluded.payload, child = NULL
        WHERE c.turn < excluded.turn
        RETURNING c.execution_id, c.command_id, c.attempt, c.first, c.past
    )
    SELECT 'continued', r.execution_id, r.command_id, ARRAY[r.position, r.attempt, r.first, r.past]::bigint[], NULL, NULL, NULL FROM rest r
    UNION ALL
    SELECT 'continued', i.execution_id, i.command_id, ARRAY[w.position, i.attempt, i.first, i.past]::bigint[], NULL, NULL, NULL
    FROM item i JOIN wanted w ON w.execution = i.execution_id AND w.id = i.command_id;
END $$;
