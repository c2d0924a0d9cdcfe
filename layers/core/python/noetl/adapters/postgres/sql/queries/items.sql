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
