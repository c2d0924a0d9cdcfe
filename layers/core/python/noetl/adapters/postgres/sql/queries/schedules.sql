-- Schedules: what starts by itself.

-- name: put_schedule
-- Make or replace; nothing when the name belongs to another path.
INSERT INTO noetl.schedule AS s
    (name, path, version, cron, rate, timezone, payload, enabled, declared, anchor_at, next_at)
VALUES (:name, :path, :version::bigint, :cron, :rate, :timezone, :payload::json, :enabled::boolean, :declared::boolean,
        to_timestamp(:anchor::double precision), to_timestamp(:next_at::double precision))
ON CONFLICT (namespace, name) DO UPDATE SET
    version = excluded.version, cron = excluded.cron, rate = excluded.rate, timezone = excluded.timezone,
    payload = excluded.payload, enabled = excluded.enabled, declared = excluded.declared,
    anchor_at = excluded.anchor_at, next_at = excluded.next_at
WHERE s.path = excluded.path
RETURNING s.name;

-- name: schedule
SELECT name, path, version, cron, rate, timezone, payload, enabled, paused, declared, extract(epoch FROM anchor_at),
    extract(epoch FROM next_at), extract(epoch FROM last_at), last_execution, last_error
FROM noetl.schedule WHERE namespace = 'default' AND name = :name;

-- name: list_schedules
SELECT name, path, version, cron, rate, timezone, payload, enabled, paused, declared, extract(epoch FROM anchor_at),
    extract(epoch FROM next_at), extract(epoch FROM last_at), last_execution, last_error
FROM noetl.schedule WHERE namespace = 'default' AND name > :after ORDER BY name LIMIT :limit::bigint;

-- name: due_schedules
-- Longest overdue first.
SELECT name, path, version, cron, rate, timezone, payload, enabled, paused, declared, extract(epoch FROM anchor_at),
    extract(epoch FROM next_at), extract(epoch FROM last_at), last_execution, last_error
FROM noetl.schedule
WHERE enabled AND NOT paused AND next_at <= to_timestamp(:now::double precision)
ORDER BY next_at, name LIMIT :limit::bigint;

-- name: schedule_fired
-- Once per moment, and only while the timing is the one that fired.
UPDATE noetl.schedule SET next_at = to_timestamp(:next_at::double precision), last_at = to_timestamp(:at::double precision),
    last_execution = :execution_id::bigint, last_error = :error
WHERE namespace = 'default' AND name = :name AND anchor_at = to_timestamp(:anchor::double precision)
  AND (last_at IS NULL OR last_at < to_timestamp(:at::double precision))
RETURNING name;

-- name: pause_schedule
UPDATE noetl.schedule SET paused = :paused::boolean, next_at = to_timestamp(:next_at::double precision)
WHERE namespace = 'default' AND name = :name
RETURNING name, path, version, cron, rate, timezone, payload, enabled, paused, declared, extract(epoch FROM anchor_at),
    extract(epoch FROM next_at), extract(epoch FROM last_at), last_execution, last_error;

-- name: delete_schedule
DELETE FROM noetl.schedule WHERE namespace = 'default' AND name = :name RETURNING name;

-- name: delete_declared_schedules
WITH gone AS (
    DELETE FROM noetl.schedule WHERE namespace = 'default' AND path = :path AND declared AND name <> :keep RETURNING name
)
SELECT name FROM gone ORDER BY name;
