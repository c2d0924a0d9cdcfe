-- Triggers that were made while the system runs.

-- part: columns
name, kind, path, version, source, payload, event_key, enabled, generation, extract(epoch FROM created_at),
    extract(epoch FROM last_at), last_execution, last_error, fired, failed

-- name: put_trigger
-- Make, or replace the definition; its counters and its last firing stay.
INSERT INTO noetl.trigger AS t (name, kind, path, version, source, payload, event_key, enabled, generation, queue)
VALUES (:name, :kind, :path, :version::bigint, :source::json, :payload::json, :event_key, :enabled::boolean, :generation::integer, :queue)
ON CONFLICT (namespace, name) DO UPDATE SET
    kind = excluded.kind, path = excluded.path, version = excluded.version, source = excluded.source, payload = excluded.payload,
    event_key = excluded.event_key, enabled = excluded.enabled, generation = excluded.generation, queue = excluded.queue
RETURNING @columns;

-- name: trigger
SELECT @columns
FROM noetl.trigger WHERE namespace = 'default' AND name = :name;

-- name: list_triggers
-- With a kind, only those of it that are enabled.
SELECT @columns
FROM noetl.trigger
WHERE namespace = 'default' AND name > :after AND (:kind::text = '' OR (kind = :kind::text AND enabled))
ORDER BY name LIMIT :limit::bigint;

-- name: triggers_of_path
SELECT @columns
FROM noetl.trigger WHERE namespace = 'default' AND path = :path
ORDER BY name LIMIT :limit::bigint;

-- name: triggers_of_queue
SELECT @columns
FROM noetl.trigger WHERE namespace = 'default' AND kind = 'sqs' AND queue = :queue
ORDER BY name;

-- name: trigger_fired
UPDATE noetl.trigger SET last_at = clock_timestamp(), last_execution = coalesce(:execution_id::bigint, last_execution),
    last_error = :error, fired = fired + :fired::integer, failed = failed + :failed::integer
WHERE namespace = 'default' AND name = :name;

-- name: delete_trigger
DELETE FROM noetl.trigger WHERE namespace = 'default' AND name = :name RETURNING name;
