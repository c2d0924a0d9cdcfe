-- Figures about many executions. Each statement looks at no more executions than it is allowed to, found by an index.

-- part: ended
-- Those that no other execution started, by the index execution_ended.
SELECT execution_id, path, status, started_at, ended_at FROM noetl.execution
    WHERE namespace = 'default' AND parent_execution_id IS NULL
      AND ended_at >= to_timestamp(:since::float8) AND ended_at < to_timestamp(:until::float8)
    ORDER BY ended_at DESC LIMIT :most::bigint

-- name: ended_buckets
-- The first row says how many were looked at, and the earliest end among them.
WITH looked AS MATERIALIZED (
    @ended
), fitting AS (
    SELECT floor(extract(epoch FROM ended_at) / :seconds::float8) * :seconds::float8 AS at, status,
           greatest(0, extract(epoch FROM ended_at - started_at)) AS duration
    FROM looked WHERE :path::text IS NULL OR path = :path
)
SELECT -1 AS at, count(*), 0, 0, COALESCE(min(extract(epoch FROM ended_at)), -1), 0 FROM looked
UNION ALL
SELECT at, count(*) FILTER (WHERE status = 'completed'), count(*) FILTER (WHERE status = 'failed'),
       count(*) FILTER (WHERE status = 'cancelled'),
       percentile_disc(0.5) WITHIN GROUP (ORDER BY duration), percentile_disc(0.95) WITHIN GROUP (ORDER BY duration)
FROM fitting GROUP BY at
ORDER BY at;

-- name: ended_by_path
-- The first row says how many were looked at, and the earliest end among them.
WITH looked AS MATERIALIZED (
    @ended
), fitting AS (
    SELECT path, floor(extract(epoch FROM ended_at) / :seconds::float8) * :seconds::float8 AS at, status
    FROM looked WHERE path = ANY (:paths::text[])
)
SELECT path, at, ended, failed, earliest FROM (
    SELECT '' AS path, -1 AS at, count(*) AS ended, 0 AS failed, COALESCE(min(extract(epoch FROM ended_at)), -1) AS earliest
    FROM looked
    UNION ALL
    SELECT path, at, count(*), count(*) FILTER (WHERE status = 'failed'), 0 FROM fitting GROUP BY path, at
) g
ORDER BY path COLLATE "C", at;

-- name: failure_groups
-- The first row says how many were looked at, and the earliest end among them. Only states of failures are read.
WITH looked AS MATERIALIZED (
    @ended
), failed AS (
    SELECT l.execution_id, l.path, extract(epoch FROM l.ended_at) AS at, noetl.failure_code(e.state) AS code
    FROM looked l JOIN noetl.execution e ON e.execution_id = l.execution_id
    WHERE l.status = 'failed' AND (:path::text IS NULL OR l.path = :path)
)
SELECT part, path, code, found, first_at, last_at, latest FROM (
    SELECT 0 AS part, '' AS path, '' AS code, count(*) AS found, COALESCE(min(extract(epoch FROM ended_at)), -1) AS first_at,
           0::numeric AS last_at, 0::bigint AS latest
    FROM looked
    UNION ALL
    (SELECT 1, path, code, count(*), min(at), max(at), (array_agg(execution_id ORDER BY at DESC, execution_id DESC))[1]
     FROM failed GROUP BY path, code ORDER BY count(*) DESC, path COLLATE "C", code COLLATE "C" LIMIT :limit::bigint)
) g
ORDER BY part, found DESC, path COLLATE "C", code COLLATE "C";

-- name: asking
-- Live executions with slots of callbacks, ascending. Each step of the recursion goes to the next execution in the index, past
-- all the slots of the one before.
WITH RECURSIVE owners AS (
    (SELECT execution_id, 1 AS number FROM noetl.slot WHERE scope = 'callback' AND execution_id > :after::bigint ORDER BY execution_id LIMIT 1)
    UNION ALL
    SELECT n.execution_id, o.number + 1 FROM owners o CROSS JOIN LATERAL (
        SELECT s.execution_id FROM noetl.slot s WHERE s.scope = 'callback' AND s.execution_id > o.execution_id ORDER BY s.execution_id LIMIT 1) n
)
SELECT o.execution_id FROM owners o JOIN noetl.execution e ON e.execution_id = o.execution_id AND e.ended_at IS NULL
LIMIT :limit::bigint;

-- name: callbacks_of_many
SELECT r.id, s.name, s.value FROM unnest(:execution_ids::bigint[]) AS r (id)
CROSS JOIN LATERAL (
    SELECT s.name, s.value FROM noetl.slot s WHERE s.execution_id = r.id AND s.scope = 'callback' ORDER BY s.name LIMIT :limit::bigint
) s;
