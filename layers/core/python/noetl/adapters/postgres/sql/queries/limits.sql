-- Keys that executions share, for people and operators.

-- name: limit_keys
-- Keys in order, or the one that is asked for; with who holds them, and who waits, in the order in which they get slots.
SELECT k.key, k.concurrent, k.rate, k.per, k.burst, k.declared, k.principal,
       CASE WHEN k.tat - make_interval(secs => (k.burst - 1) * k.per / k.rate) > clock_timestamp()
            THEN extract(epoch FROM k.tat - make_interval(secs => (k.burst - 1) * k.per / k.rate)) END,
       (SELECT count(*) FROM noetl.limit_use u WHERE u.key = k.key AND u.held),
       (SELECT count(*) FROM noetl.limit_use u WHERE u.key = k.key AND u.queued),
       (SELECT json_agg(json_build_array(u.execution_id, u.step, coalesce(c.run, 0), u.priority, extract(epoch FROM u.since),
                                         u.command_id = '' OR c.waiting OR (c.owner <> '' AND noetl.is_alive(c.owner)),
                                         extract(epoch FROM r.lease_until)) ORDER BY u.since, u.id)
        FROM (SELECT * FROM noetl.limit_use u WHERE u.key = k.key AND u.held ORDER BY u.since, u.id LIMIT :shown::bigint) u
        LEFT JOIN noetl.command c ON c.execution_id = u.execution_id AND c.place IN (u.command_id, '') AND c.command_id = u.command_id
        LEFT JOIN noetl.runtime r ON r.owner = c.owner),
       (SELECT json_agg(json_build_array(u.execution_id, u.step, coalesce(c.run, 0), u.priority, extract(epoch FROM u.since))
                        ORDER BY u.priority DESC, u.id)
        FROM (SELECT * FROM noetl.limit_use u WHERE u.key = k.key AND u.queued ORDER BY u.priority DESC, u.id LIMIT :shown::bigint) u
        LEFT JOIN noetl.command c ON c.execution_id = u.execution_id AND c.place IN (u.command_id, '') AND c.command_id = u.command_id)
FROM noetl.limit_key k
WHERE k.namespace = 'default' AND k.key > :after AND (:key::text IS NULL OR k.key = :key)
ORDER BY k.key LIMIT :limit::bigint;

-- name: set_limit
INSERT INTO noetl.limit_key (key, concurrent, rate, per, burst, declared, principal)
VALUES (:key, :concurrent::integer, :rate::float8, :per::float8, :burst::integer, false, :principal)
ON CONFLICT (namespace, key) DO UPDATE
SET concurrent = excluded.concurrent, rate = excluded.rate, per = excluded.per, burst = excluded.burst, declared = false,
    tat = NULL, principal = excluded.principal, updated_at = now();

-- name: remove_limit
-- What playbooks ask for holds again: the row has the numbers of the newest use, or none; moments begin again. Row: that there was something.
UPDATE noetl.limit_key k
SET concurrent = u.concurrent, rate = u.rate, per = coalesce(u.per, 1), burst = coalesce(u.burst, 1), declared = true, tat = NULL,
    principal = '', updated_at = now()
FROM (SELECT 1) one LEFT JOIN (
    SELECT * FROM noetl.limit_use WHERE key = :key AND held UNION ALL
    SELECT * FROM noetl.limit_use WHERE key = :key AND queued
    ORDER BY id DESC LIMIT 1
) u ON true
WHERE k.namespace = 'default' AND k.key = :key AND NOT k.declared
RETURNING 'removed';

-- name: queued_starts
-- Which of these executions wait for a slot to begin: the row of a start names no command.
SELECT u.execution_id FROM noetl.limit_use u
WHERE u.execution_id = ANY(:execution_ids::bigint[]) AND u.command_id = '' AND u.queued;

-- name: waits_of
-- Rows of an execution that are queued at a key, and those whose moment has not come.
SELECT u.key, u.step, c.run, extract(epoch FROM u.since), NULL AS at,
       CASE WHEN k.declared IS FALSE THEN k.concurrent ELSE u.concurrent END,
       (SELECT count(*) FROM noetl.limit_use h WHERE h.key = u.key AND h.held),
       (SELECT count(*) FROM noetl.limit_use b
        WHERE b.key = u.key AND b.queued AND (b.priority > u.priority OR (b.priority = u.priority AND b.id <= u.id))),
       (SELECT array_agg(DISTINCT h.execution_id) FROM (
           SELECT h.execution_id FROM noetl.limit_use h WHERE h.key = u.key AND h.held ORDER BY h.since LIMIT 5) h)
FROM (SELECT * FROM noetl.limit_use u WHERE u.execution_id = :execution_id::bigint AND u.queued ORDER BY u.id LIMIT :limit::bigint) u
LEFT JOIN noetl.limit_key k ON k.namespace = 'default' AND k.key = u.key
LEFT JOIN noetl.command c ON c.execution_id = u.execution_id AND c.place IN (u.command_id, '') AND c.command_id = u.command_id
UNION ALL
(SELECT u.key, u.step, c.run, extract(epoch FROM u.since), extract(epoch FROM c.not_before), NULL, NULL, NULL, NULL
FROM noetl.command c JOIN noetl.limit_use u ON u.execution_id = c.execution_id AND u.command_id = c.command_id AND u.rate IS NOT NULL
WHERE c.execution_id = :execution_id::bigint AND u.held AND NOT c.waiting AND c.turn = 0 AND c.not_before > clock_timestamp()
ORDER BY c.id LIMIT :limit::bigint);
