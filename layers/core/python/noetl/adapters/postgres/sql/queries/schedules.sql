-- Schedules: what starts by itself.

-- part: columns
name, path, version, cron, rate, timezone, payload, enabled, paused, declared, extract(epoch FROM anchor_at),
    extract(epoch FROM next_at), extract(epoch FROM last_at), last_execution, last_error,
    catch_up, catch_up_max, overlap, latest_execution, extract(epoch FROM skipped_at), skipped_reason,
    (SELECT json_object_agg(k.cause, json_build_array(extract(epoch FROM k.at), k.reason)) FROM noetl.schedule_skip k
     WHERE k.namespace = schedule.namespace AND k.name = schedule.name)

-- name: put_schedule
-- Make or replace; nothing when the name belongs to another path.
INSERT INTO noetl.schedule AS s
    (name, path, version, cron, rate, timezone, payload, enabled, declared, anchor_at, next_at, catch_up, catch_up_max, overlap)
VALUES (:name, :path, :version::bigint, :cron, :rate, :timezone, :payload::json, :enabled::boolean, :declared::boolean,
        to_timestamp(:anchor::double precision), to_timestamp(:next_at::double precision),
        :catch_up, :catch_up_max::integer, :overlap)
ON CONFLICT (namespace, name) DO UPDATE SET
    version = excluded.version, cron = excluded.cron, rate = excluded.rate, timezone = excluded.timezone,
    payload = excluded.payload, enabled = excluded.enabled, declared = excluded.declared,
    anchor_at = excluded.anchor_at, next_at = excluded.next_at,
    catch_up = excluded.catch_up, catch_up_max = excluded.catch_up_max, overlap = excluded.overlap
WHERE s.path = excluded.path
RETURNING s.name;

-- name: schedule
SELECT @columns
FROM noetl.schedule WHERE namespace = 'default' AND name = :name;

-- name: list_schedules
SELECT @columns
FROM noetl.schedule WHERE namespace = 'default' AND name > :after ORDER BY name LIMIT :limit::bigint;

-- name: schedules_of_path
SELECT @columns
FROM noetl.schedule WHERE namespace = 'default' AND path = :path ORDER BY name LIMIT :limit::bigint;

-- name: due_schedules
-- Longest overdue first.
SELECT @columns
FROM noetl.schedule
WHERE enabled AND NOT paused AND next_at <= to_timestamp(:now::double precision)
ORDER BY next_at, name LIMIT :limit::bigint;

-- name: schedule_fired
-- Once per moment, and only while the timing is the one that fired. What was started is kept in any case.
WITH kept AS (
    INSERT INTO noetl.schedule_moment (name, at, execution_id)
    SELECT s.name, to_timestamp(:at::double precision), :execution_id::bigint FROM noetl.schedule s
    WHERE s.namespace = 'default' AND s.name = :name AND :execution_id::bigint IS NOT NULL
    ON CONFLICT DO NOTHING
), settled AS (
    UPDATE noetl.schedule SET next_at = to_timestamp(:next_at::double precision), last_at = to_timestamp(:at::double precision),
        last_execution = :execution_id::bigint, last_error = :error,
        latest_execution = coalesce(:execution_id::bigint, latest_execution),
        skipped_at = coalesce(to_timestamp(:skipped_at::double precision), skipped_at),
        skipped_reason = coalesce(:skipped_reason, skipped_reason)
    WHERE namespace = 'default' AND name = :name AND anchor_at = to_timestamp(:anchor::double precision)
      AND (last_at IS NULL OR last_at < to_timestamp(:at::double precision))
    RETURNING name
), skipped AS (
    INSERT INTO noetl.schedule_skip (name, cause, at, reason)
    SELECT s.name, k.cause, to_timestamp(k.at), k.reason
    FROM settled s CROSS JOIN unnest(:causes::text[], :moments::double precision[], :reasons::text[]) AS k (cause, at, reason)
    ON CONFLICT (namespace, name, cause) DO UPDATE SET at = excluded.at, reason = excluded.reason
)
SELECT name FROM settled;

-- name: pass_over_moment
-- Only while the timing and the next time are those that were read.
UPDATE noetl.schedule SET next_at = to_timestamp(:next_at::double precision)
WHERE namespace = 'default' AND name = :name AND anchor_at = to_timestamp(:anchor::double precision)
  AND next_at IS NOT DISTINCT FROM to_timestamp(:was::double precision)
RETURNING name;

-- name: keep_schedule_moment
INSERT INTO noetl.schedule_moment (name, at, execution_id)
SELECT s.name, to_timestamp(:at::double precision), :execution_id::bigint FROM noetl.schedule s
WHERE s.namespace = 'default' AND s.name = :name
ON CONFLICT DO NOTHING;

-- name: schedule_moments
SELECT extract(epoch FROM at), execution_id FROM noetl.schedule_moment
WHERE namespace = 'default' AND name = :name
  AND at >= to_timestamp(:since::double precision) AND at <= to_timestamp(:until::double precision)
ORDER BY at;

-- name: pause_schedule
UPDATE noetl.schedule SET paused = :paused::boolean, next_at = to_timestamp(:next_at::double precision)
WHERE namespace = 'default' AND name = :name
RETURNING @columns;

-- name: delete_schedule
DELETE FROM noetl.schedule WHERE namespace = 'default' AND name = :name RETURNING name;

-- name: delete_declared_schedules
WITH gone AS (
    DELETE FROM noetl.schedule WHERE namespace = 'default' AND path = :path AND declared AND name <> :keep RETURNING name
)
SELECT name FROM gone ORDER BY name;
