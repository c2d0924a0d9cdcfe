-- Workers that fetch their commands over HTTP, and what they have taken (the owners of commands say it).

-- name: register_worker
-- How many were made (none: the name belongs to another principal, or there are too many), how many there are, and whether the name is known.
WITH known AS (
    SELECT count(*) AS number, coalesce(bool_or(name = :name), false) AS here FROM noetl.worker
), made AS (
    INSERT INTO noetl.worker AS w (name, pool, capacity, principal)
    SELECT :name, :pool, :capacity::integer, :principal FROM known WHERE here OR number < :most::bigint
    ON CONFLICT (namespace, name) DO UPDATE SET pool = excluded.pool, capacity = excluded.capacity, seen_at = clock_timestamp()
    WHERE w.principal = excluded.principal
    RETURNING w.name
)
SELECT (SELECT count(*) FROM made), number, here FROM known;

-- name: workers
-- One worker, whose heartbeat this is (and so does its pool, if it is kept), or all of them; each with what it runs. One that another
-- principal registered is not found.
WITH seen AS (
    UPDATE noetl.worker SET seen_at = clock_timestamp()
    WHERE namespace = 'default' AND name = :name AND :principal IN ('', principal) RETURNING pool
), kept AS (
    INSERT INTO noetl.runtime AS r (owner, heartbeat_at, lease_until)
    SELECT 'pool:' || pool, clock_timestamp(), clock_timestamp() + make_interval(secs => :kept::float8) FROM seen WHERE :kept::float8 > 0
    ON CONFLICT (owner) DO UPDATE SET heartbeat_at = excluded.heartbeat_at, lease_until = greatest(r.lease_until, excluded.lease_until)
), held AS (
    SELECT noetl.leaseholder(owner) AS who, json_agg(json_build_object(
               'execution_id', execution_id::text, 'command_id', command_id, 'attempt', attempt, 'turn', turn,
               'lease_seconds', round(split_part(owner, ':', 2)::numeric - extract(epoch FROM clock_timestamp()), 3)) ORDER BY id) AS commands
    FROM noetl.command
    WHERE NOT waiting AND owner_group >= 'until:' || 'http:' AND owner_group < 'until:' || 'http;' AND noetl.is_alive(owner)
    GROUP BY 1
)
SELECT w.name, w.pool, w.capacity, w.principal, extract(epoch FROM w.registered_at),
       extract(epoch FROM CASE WHEN w.name = :name THEN clock_timestamp() ELSE w.seen_at END),
       w.name = :name OR w.seen_at > clock_timestamp() - make_interval(secs => :stale::float8),
       coalesce(h.commands, '[]'::json)::text, extract(epoch FROM clock_timestamp())
FROM noetl.worker w LEFT JOIN held h ON h.who = w.pool || ':' || w.name
WHERE w.namespace = 'default' AND (:name = '' OR w.name = :name) AND :principal IN ('', w.principal)
ORDER BY w.name;

-- name: drop_worker
-- The leases of what it has are over at once, so that others can take it. The attempt changes when one does: until then the outcome of a
-- command counts that the worker has sent, and that the engine has not handled yet.
WITH gone AS (
    DELETE FROM noetl.worker
    WHERE namespace = 'default' AND name = :name AND :principal IN ('', principal) RETURNING pool, name
), freed AS (
    UPDATE noetl.command c SET owner = regexp_replace(c.owner, '^until:[0-9]+', 'until:0')
    FROM gone g
    WHERE NOT c.waiting AND c.owner_group = 'until:' || 'http:' || g.pool AND noetl.leaseholder(c.owner) = g.pool || ':' || g.name
)
SELECT name FROM gone;

-- name: extend_lease
WITH extended AS (
    UPDATE noetl.command c
    SET owner = 'until:' || ceil(extract(epoch FROM clock_timestamp()) + :seconds::float8) || regexp_replace(c.owner, '^until:[0-9]+', '')
    WHERE c.execution_id = :execution_id AND c.command_id = :command_id AND c.attempt = :attempt AND c.turn = :turn
      AND noetl.leaseholder(c.owner) IS NOT NULL
    RETURNING noetl.leaseholder(c.owner) AS who
), seen AS (
    UPDATE noetl.worker w SET seen_at = clock_timestamp() FROM extended e WHERE e.who = w.pool || ':' || w.name
)
SELECT who FROM extended;

-- name: give_back
UPDATE noetl.command c SET owner = CASE WHEN g.kept THEN 'pool:' || g.pool ELSE '' END, attempt = c.attempt + g.kept::integer
FROM (
    SELECT o.execution_id, o.command_id, split_part(noetl.leaseholder(o.owner), ':', 1) AS pool,
           noetl.is_alive('pool:' || split_part(noetl.leaseholder(o.owner), ':', 1)) AS kept
    FROM noetl.command o
    WHERE o.execution_id = :execution_id AND o.command_id = :command_id AND o.attempt = :attempt AND o.turn = :turn
      AND noetl.leaseholder(o.owner) IS NOT NULL
    FOR UPDATE
) g
WHERE c.execution_id = g.execution_id AND c.command_id = g.command_id
RETURNING g.pool;

-- name: free_leases
UPDATE noetl.command c SET owner = ''
WHERE NOT c.waiting AND c.owner_group = 'until:' || 'http:' || split_part(:holder, ':', 1) AND noetl.leaseholder(c.owner) = :holder
RETURNING c.command_id;

-- name: forget_workers
DELETE FROM noetl.worker WHERE seen_at < clock_timestamp() - make_interval(secs => :seconds::float8);

-- name: command_state
-- Why one cannot be had. The outcome of its first turn is in the history of its execution once it was answered.
SELECT e.status, c.owner, c.waiting, extract(epoch FROM c.not_before - clock_timestamp()), noetl.is_alive(c.owner),
       extract(epoch FROM r.lease_until - clock_timestamp()),
       EXISTS (SELECT FROM noetl.event v WHERE v.execution_id = e.execution_id AND v.event_id = 'cmd:' || :command_id || ':0')
         OR EXISTS (SELECT FROM noetl.loop l WHERE l.execution_id = e.execution_id
                    AND starts_with(:command_id, l.run || '.r' || l.round || '.')),
       extract(epoch FROM clock_timestamp())
FROM noetl.execution e
LEFT JOIN noetl.command c ON c.execution_id = e.execution_id AND c.command_id = :command_id
LEFT JOIN noetl.runtime r ON r.owner = c.owner
WHERE e.execution_id = :execution_id;
