-- Loops and their items.

-- name: commit_items
-- See sql/functions/40_commit_items.sql.
SELECT kind, execution_id, id, numbers, body, extra, loop FROM noetl.commit_items(
    :owner, :b_execution, :b_run, :b_round, :b_command, :b_attempt, :b_turn, :b_wave, :b_closed, :b_undone, :b_chunk, :b_alert, :b_alert_index, :b_known,
    :e_batch, :e_id, :e_seq, :e_type, :e_facts, :e_at, :e_counts, :e_failed, :e_patched, :e_size,
    :o_batch, :o_execution, :o_id, :o_payload, :o_awaited_by, :o_program, :o_path, :continued);

-- name: commit_items_limited
-- The same, and then what is rare: what it means to those who share keys (sql/functions/50_limits.sql), what it says of results (60_results.sql).
WITH done AS MATERIALIZED (
    SELECT kind, execution_id, id, numbers, body, extra, loop FROM noetl.commit_items(
    :owner, :b_execution, :b_run, :b_round, :b_command, :b_attempt, :b_turn, :b_wave, :b_closed, :b_undone, :b_chunk, :b_alert, :b_alert_index, :b_known,
    :e_batch, :e_id, :e_seq, :e_type, :e_facts, :e_at, :e_counts, :e_failed, :e_patched, :e_size,
    :o_batch, :o_execution, :o_id, :o_payload, :o_awaited_by, :o_program, :o_path, :continued)
)
SELECT * FROM done
UNION ALL
SELECT s.* FROM (SELECT count(*) AS rows FROM done) d
CROSS JOIN LATERAL noetl.settle_limits(:owner, d.rows, NULL, :limited, NULL, :moved) s
UNION ALL
SELECT n.* FROM (SELECT count(*) AS rows FROM done) d CROSS JOIN LATERAL noetl.note_results(d.rows, :results) n;

-- name: loop_progress
SELECT run, round, step, total, issued, done, failed, size, patched, gate FROM noetl.loop
WHERE execution_id = :execution_id ORDER BY run, round;

-- name: loop_progress_of_runs
SELECT run, round, step, total, issued, done, failed, size, patched, gate FROM noetl.loop
WHERE execution_id = :execution_id AND run = ANY(:runs::bigint[]) ORDER BY run, round;

-- name: loop_run
SELECT payload FROM noetl.loop WHERE execution_id = :execution_id AND run = :run::bigint AND round = :round::integer;

-- name: loop_items
-- Finished items of one round, in index order.
SELECT seq, facts FROM noetl.event
WHERE execution_id = :execution_id AND lane = :run::bigint AND lane <> 0 AND seq >= :start::bigint
  AND event_id = 'item:' || :run || ':' || :round || ':' || seq
ORDER BY seq LIMIT :limit::bigint;

-- name: item_work
-- Calls and milliseconds of items by step run (domain/outcomes/work.py), of at most so many rows. A row of a turn after which its item continues
-- has one colon more, and tells of no call but those of its trace; what the last row tells without a trace counts those turns' calls, too. Escapes
-- that text of this database cannot hold (NUL, halves of surrogate pairs) become U+FFFD: it refuses to take a document with one apart.
SELECT lane, count(*), count(*) FILTER (WHERE final), sum(calls)::bigint,
       sum(CASE WHEN traced > 0 THEN took WHEN calls > 0 THEN ms ELSE 0 END)::float8
FROM (
    SELECT i.lane, i.final, t.traced, t.took,
           CASE WHEN t.traced > 0 THEN t.made WHEN i.final THEN greatest(0, i.told - sum(t.made) OVER (PARTITION BY i.lane, i.seq)) ELSE 0 END AS calls,
           CASE WHEN i.took ~ '^[0-9]{1,15}(\.[0-9]{1,20})?(e-[0-9]{1,2})?$' THEN i.took::float8 ELSE 0 END AS ms
    FROM (
        SELECT lane, seq, final, trace, (meta -> 'duration_ms')::text AS took,
               CASE WHEN (meta -> 'calls')::text ~ '^[0-9]{1,9}$' THEN (meta -> 'calls')::text::bigint
                    WHEN (meta -> 'attempts')::text ~ '^[0-9]{1,9}$' THEN (meta -> 'attempts')::text::bigint
                    WHEN (meta -> 'cached') IS NULL THEN 1 ELSE 0 END AS told
        FROM (
            SELECT lane, seq, final, outcome -> 'meta' AS meta,
                   CASE WHEN json_typeof(outcome -> 'trace') = 'array' THEN outcome -> 'trace' ELSE '[]'::json END AS trace
            FROM (
                SELECT lane, seq, event_id NOT LIKE 'item:%:%:%:%' AS final,
                       CASE WHEN strpos(facts::text, '\u') = 0 THEN facts
                            ELSE regexp_replace(facts::text, '\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\\ufffd', 'g')::json END AS outcome
                FROM noetl.event
                WHERE execution_id = :execution_id AND lane > 0 AND lane <> 0 AND event_id LIKE 'item:%'
                ORDER BY lane, seq LIMIT :limit::bigint
            ) rows
        ) documents
    ) i
    CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE name LIKE '"task.%') AS traced,
               count(*) FILTER (WHERE done) AS made,
               sum(CASE WHEN done AND ms ~ '^[0-9]{1,15}(\.[0-9]{1,20})?(e-[0-9]{1,2})?$' THEN ms::float8 ELSE 0 END) AS took
        FROM (
            SELECT (one -> 'name')::text AS name, (one -> 'payload' -> 'duration_ms')::text AS ms,
                   (one -> 'name')::text = '"task.done"'
                       AND COALESCE(btrim((one -> 'payload' -> 'kind')::text, '"'), '') <> ALL (:uncalled::text[]) AS done
            FROM json_array_elements(i.trace) one
        ) entries
    ) t
) items
GROUP BY lane ORDER BY lane;

-- name: item_bands
-- How many items of a loop ended in each of so many equal spans between the first end and the last one: done, failed, and the place that is
-- first in it. A row of a turn after which its item continues has one colon more.
WITH ends AS MATERIALIZED (
    SELECT seq, at, type = 'call.error' AS failed FROM noetl.event
    WHERE execution_id = :execution_id AND lane = :run::bigint AND lane <> 0
      AND event_id LIKE 'item:%' AND event_id NOT LIKE 'item:%:%:%:%'
), span AS MATERIALIZED (  -- or the planner, which expects few rows, may add all of them up again for each of them
    SELECT extract(epoch FROM min(at))::float8 AS low, extract(epoch FROM max(at))::float8 AS high FROM ends
)
SELECT s.low, s.high, b.band, count(*) FILTER (WHERE NOT e.failed), count(*) FILTER (WHERE e.failed), min(e.seq)
FROM ends e CROSS JOIN span s
CROSS JOIN LATERAL (SELECT CASE WHEN s.high > s.low
    THEN least(:bands::integer - 1, floor((extract(epoch FROM e.at)::float8 - s.low) / (s.high - s.low) * :bands::integer)::integer)
    ELSE 0 END AS band) b
GROUP BY s.low, s.high, b.band ORDER BY b.band;
