-- Events: what happened.

-- name: main_events
-- The main lane, strictly after a place.
SELECT event_id, lane, seq, type, extract(epoch FROM at), facts FROM noetl.event
WHERE execution_id = :execution_id AND lane = 0 AND seq > :after::bigint
ORDER BY seq LIMIT :limit::bigint;

-- name: main_events_before
-- The main lane from a place on towards its beginning.
SELECT event_id, lane, seq, type, extract(epoch FROM at), facts FROM noetl.event
WHERE execution_id = :execution_id AND lane = 0 AND seq < :before::bigint
ORDER BY seq DESC LIMIT :limit::bigint;

-- name: step_events
-- The same, without rows about callbacks of single items of a loop.
SELECT event_id, lane, seq, type, extract(epoch FROM at), facts FROM noetl.event
WHERE execution_id = :execution_id AND lane = 0 AND seq > :after::bigint
  AND NOT (event_id LIKE 'await:%.i%' OR event_id LIKE 'callback:%.i%')
ORDER BY seq LIMIT :limit::bigint;

-- name: lane_events
-- Another lane. Rows of one place stay together, so that a cursor over places never skips any.
SELECT event_id, lane, seq, type, extract(epoch FROM at), facts FROM (
    SELECT * FROM noetl.event
    WHERE execution_id = :execution_id AND lane = :lane::bigint AND lane <> 0 AND seq > :after::bigint
    ORDER BY seq FETCH FIRST (:limit::bigint) ROWS WITH TIES
) page ORDER BY seq, event_id;

-- name: failed_items
SELECT event_id, lane, seq, type, extract(epoch FROM at), facts FROM noetl.event
WHERE execution_id = :execution_id AND lane = :run::bigint AND lane > 0 AND type = 'call.error' AND seq > :after::bigint
ORDER BY seq LIMIT :limit::bigint;

-- name: every_item
-- Rows of all loop lanes after a position.
SELECT event_id, lane, seq, type, extract(epoch FROM at), facts FROM noetl.event
WHERE execution_id = :execution_id AND lane > 0 AND lane <> 0
  AND (lane, seq, event_id) > (:lane::bigint, :seq::bigint, :event_id)
ORDER BY lane, seq, event_id LIMIT :limit::bigint;

-- name: record_superseded
-- Rows that came too late (not those for executions that are gone, or going), and outbox rows that are done with.
WITH delivered AS (
    DELETE FROM noetl.outbox o USING unnest(:handled_ids::bigint[], :handled::text[]) AS h (execution_id, event_id)
    WHERE o.execution_id = h.execution_id AND o.event_id = h.event_id
)
INSERT INTO noetl.event (execution_id, event_id, lane, seq, type, facts, at)
SELECT l.execution_id, l.event_id, -1, l.seq, l.type, l.facts::json, CASE l.at WHEN 0 THEN now() ELSE to_timestamp(l.at) END
FROM unnest(:execution_ids::bigint[], :event_ids::text[], :seqs::bigint[], :types::text[], :facts::text[], :ats::float8[])
    AS l (execution_id, event_id, seq, type, facts, at)
JOIN noetl.execution e ON e.execution_id = l.execution_id AND e.leaving_at IS NULL
ON CONFLICT DO NOTHING;

-- name: find_events
-- Events by their ids: applied ones, then those that are still on their way.
SELECT extract(epoch FROM e.at), e.facts, NULL::json FROM noetl.event e
WHERE e.execution_id = :execution_id AND e.event_id = ANY(:event_ids::text[]) AND e.lane >= 0
UNION ALL
SELECT extract(epoch FROM clock_timestamp()), NULL::json, o.payload FROM noetl.outbox o
WHERE o.execution_id = :execution_id AND o.event_id = ANY(:event_ids::text[]);
