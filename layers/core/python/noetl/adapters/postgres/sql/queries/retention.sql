-- What goes when its time is over. A tree of executions goes whole, from its leaves: its root is found by the index of roots that ended.

-- name: old_executions
SELECT m.execution_id FROM noetl.leaves_first(
    ARRAY(SELECT noetl.old_roots(to_timestamp(:before::double precision), :limit::bigint)), :limit::bigint) m
ORDER BY m.depth DESC, m.execution_id;

-- name: claim_old_executions
-- See sql/functions/70_removal.sql.
SELECT noetl.claim_old_trees(to_timestamp(:before::double precision), :limit::bigint);

-- name: remove_events
WITH old AS (
    SELECT v.execution_id, v.event_id FROM noetl.event v
    JOIN noetl.execution e ON e.execution_id = v.execution_id AND e.leaving_at IS NOT NULL AND e.ended_at IS NOT NULL
    WHERE v.execution_id = ANY(:ids::bigint[]) LIMIT :limit::bigint
), gone AS (
    DELETE FROM noetl.event v USING old o WHERE v.execution_id = o.execution_id AND v.event_id = o.event_id RETURNING 1
)
SELECT count(*) FROM gone;

-- name: remove_executions
-- All that belongs to them; loops and timers go with their execution. One that has started something that is still there stays. History of
-- deferred_from <= id < deferred_until stays for a fold (sql/functions/80_history.sql).
WITH gone AS MATERIALIZED (
    SELECT e.execution_id FROM noetl.execution e
    WHERE e.execution_id = ANY(:ids::bigint[]) AND e.leaving_at IS NOT NULL AND e.ended_at IS NOT NULL
      AND NOT EXISTS (SELECT FROM noetl.execution c
                      WHERE c.parent_execution_id = e.execution_id AND c.execution_id <> ALL(:ids::bigint[]))
    ORDER BY e.execution_id FOR UPDATE
), events AS (
    DELETE FROM noetl.event v USING gone g
    WHERE v.execution_id = g.execution_id AND NOT (g.execution_id >= :deferred_from::bigint AND g.execution_id < :deferred_until::bigint) RETURNING 1
), slots AS (
    DELETE FROM noetl.slot s USING gone g WHERE s.execution_id = g.execution_id
), commands AS (
    DELETE FROM noetl.command c USING gone g WHERE c.execution_id = g.execution_id
), uses AS (
    DELETE FROM noetl.limit_use u USING gone g WHERE u.execution_id = g.execution_id
), outbox AS (
    DELETE FROM noetl.outbox o USING gone g WHERE o.execution_id = g.execution_id
), variables AS (
    DELETE FROM noetl.transient t USING gone g WHERE t.execution_id = g.execution_id RETURNING 1
), copies AS (
    DELETE FROM noetl.auth_cache a USING gone g WHERE a.execution_id = g.execution_id
), keys AS (
    DELETE FROM noetl.idempotency i USING gone g WHERE i.execution_id = g.execution_id
), objects AS (
    DELETE FROM noetl.result_object o USING gone g WHERE o.execution_id = g.execution_id
), parts AS (
    DELETE FROM noetl.result_part p USING gone g WHERE p.execution_id = g.execution_id
), results AS (
    DELETE FROM noetl.result_ref r USING gone g WHERE r.execution_id = g.execution_id AND r.scope <> 'permanent'
), holding AS (
    DELETE FROM noetl.result_hold h USING gone g WHERE h.execution_id = g.execution_id
), held AS (
    DELETE FROM noetl.result_hold h USING gone g WHERE h.held_id = g.execution_id
), executions AS (
    DELETE FROM noetl.execution e USING gone g WHERE e.execution_id = g.execution_id RETURNING 1
)
SELECT (SELECT count(*) FROM executions), (SELECT count(*) FROM events), (SELECT count(*) FROM variables);

-- name: remove_variables
-- Ids tell when an execution was made, so those that are younger are never looked at. One that is moved on at this moment is left out.
WITH old AS (
    SELECT t.execution_id, t.var_name FROM noetl.transient t
    JOIN noetl.execution e ON e.execution_id = t.execution_id AND e.ended_at < to_timestamp(:before::double precision)
    WHERE t.execution_id < :young::bigint
    LIMIT :limit::bigint FOR UPDATE OF e SKIP LOCKED
), gone AS (
    DELETE FROM noetl.transient t USING old o WHERE t.execution_id = o.execution_id AND t.var_name = o.var_name RETURNING 1
)
SELECT count(*) FROM gone;

-- name: remove_schedule_moments
WITH old AS (
    SELECT m.namespace, m.name, m.at FROM noetl.schedule_moment m
    WHERE m.at < to_timestamp(:before::double precision) ORDER BY m.at LIMIT :limit::bigint
), gone AS (
    DELETE FROM noetl.schedule_moment m USING old o
    WHERE m.namespace = o.namespace AND m.name = o.name AND m.at = o.at RETURNING 1
)
SELECT count(*) FROM gone;

-- name: claim_expired_results
-- See sql/functions/70_removal.sql.
SELECT c.execution_id, c.ref, c.store
FROM noetl.claim_expired_results(to_timestamp(:now::double precision), :after::bigint, :limit::bigint) c;

-- name: permanent_results
-- The oldest first.
SELECT r.execution_id, r.ref, r.store FROM noetl.result_ref r
WHERE r.scope = 'permanent' AND r.created_at < to_timestamp(:before::double precision)
ORDER BY r.created_at LIMIT :limit::bigint;

-- name: forget_results
WITH gone AS (
    DELETE FROM noetl.result_ref r USING unnest(:ids::bigint[], :refs::text[]) AS x (execution_id, ref)
    WHERE r.execution_id = x.execution_id AND r.ref = x.ref RETURNING 1
)
SELECT count(*) FROM gone;

-- name: history_lows
-- Where partitions of history begin; NULL for the first one. See sql/functions/80_history.sql.
SELECT p.low FROM noetl.history_parts() p ORDER BY p.low NULLS FIRST;

-- name: history_open
SELECT pg_relation_size(p.part) FROM noetl.history_parts() p WHERE p.past IS NULL;

-- name: cut_history
SELECT noetl.cut_history(:at::bigint, :most::bigint);

-- name: deferred_history
SELECT h.deferred_from, h.deferred_until FROM noetl.deferred_history(:overdue::bigint, :soon::bigint) h;

-- name: fold_history
SELECT noetl.fold_history(:past::bigint, :most::bigint);

-- name: sweep_history
SELECT noetl.sweep_history(:past::bigint, :limit::bigint);
