-- What has no live owner. Owners are found by a loose scan of the index on (owner, id), so that rows of living owners, however
-- many, are never read. Commands have the leases of a pool as one group there: the row says whether its lease is over.

-- name: heartbeat
-- Row: whether the lease was over, so that other owners may have taken what this one had.
WITH before AS (
    SELECT lease_until <= clock_timestamp() AS over FROM noetl.runtime WHERE owner = :owner
)
INSERT INTO noetl.runtime (owner, heartbeat_at, lease_until)
VALUES (:owner, clock_timestamp(), clock_timestamp() + make_interval(secs => :seconds::float8))
ON CONFLICT (owner) DO UPDATE SET heartbeat_at = excluded.heartbeat_at, lease_until = excluded.lease_until
RETURNING coalesce((SELECT b.over FROM before b), false);

-- name: end_sessions
-- Sessions of this role whose connection broke within a statement. Each is waited for: afterwards its statement was carried out, or never will be.
SELECT pg_terminate_backend(a.pid, 2000)
FROM unnest(:pids::integer[], :ages::float8[]) AS lost (pid, age)
JOIN pg_stat_activity a ON a.pid = lost.pid
WHERE a.datname = current_database() AND a.usename = current_user AND a.application_name = 'noetl' AND a.pid <> pg_backend_pid()
  AND a.backend_start <= clock_timestamp() - make_interval(secs => lost.age);

-- name: release
-- Rows are freed one by one, so that what is not due yet stays free when the same owner comes back.
WITH commands AS (
    UPDATE noetl.command SET owner = ''
    WHERE owner_group IN (:owner, 'until:' || 'http:' || split_part(:owner, ':', 4)) AND owner = :owner AND NOT waiting
), events AS (
    UPDATE noetl.outbox SET owner = '' WHERE owner = :owner
), timers AS (
    UPDATE noetl.timer SET owner = '' WHERE owner = :owner AND owner <> ''
)
DELETE FROM noetl.runtime WHERE owner = :owner;

-- name: record_lost
-- The process that ran these turns died. From the second time on a turn waits before it is given out again, longer each time.
UPDATE noetl.command c
SET lost = n.lost, lost_turn = c.turn,
    not_before = CASE WHEN n.lost < 2 THEN c.not_before
                      ELSE greatest(c.not_before, clock_timestamp() + make_interval(secs => :seconds::float8 * (n.lost - 1))) END
FROM (
    SELECT o.execution_id, o.place, o.part, CASE WHEN o.lost_turn = o.turn THEN o.lost ELSE 0 END + 1 AS lost
    FROM unnest(:executions::bigint[], :commands::text[], :turns::integer[]) AS f (execution_id, command_id, turn)
    JOIN noetl.command o ON o.execution_id = f.execution_id AND o.place IN (f.command_id, '') AND o.command_id = f.command_id
        AND o.turn = f.turn
    WHERE NOT o.waiting
    ORDER BY o.execution_id, o.command_id FOR UPDATE OF o
) n
WHERE c.execution_id = n.execution_id AND c.place = n.place AND c.part = n.part;

-- name: claim_commands
-- Numbers: run, round, attempt, first, past, microseconds of delay, lost owners. Commands that waited for slots, and have them now, are given too.
-- Due commands with their loops; the finished items of chunks (indexes, and their outcomes as one json array), and the suspended ones.
-- With a pool: what is offered there, or was taken from there by a worker whose time is over. What is offered was given to no worker yet,
-- so that its attempt stays. An owner that asks lives, and has what it holds, even if its lease is over. What two processes died of is given out alone: one at a time to an owner that has had none for a while.
WITH RECURSIVE owners AS (
    (SELECT owner_group FROM noetl.command WHERE NOT waiting ORDER BY owner_group LIMIT 1)
    UNION ALL
    SELECT (SELECT c.owner_group FROM noetl.command c WHERE NOT c.waiting AND c.owner_group > o.owner_group ORDER BY c.owner_group LIMIT 1)
    FROM owners o WHERE o.owner_group IS NOT NULL
), suspect AS (
    SELECT c.execution_id, c.command_id
    FROM noetl.command c
    WHERE c.lost > 1 AND c.lost < :most::integer AND c.lost_turn = c.turn AND NOT c.waiting AND c.not_before <= clock_timestamp()
      AND (c.owner = '' OR (c.owner <> :owner AND NOT noetl.is_alive(c.owner)))
      AND NOT EXISTS (SELECT FROM noetl.execution e WHERE e.execution_id = c.execution_id AND e.status = 'paused')
      AND NOT EXISTS (
          SELECT FROM noetl.command o
          WHERE o.lost > 1 AND o.lost < :most::integer AND o.lost_turn = o.turn AND o.owner = :owner
            AND o.not_before > clock_timestamp() - make_interval(secs => :alone::float8))
    ORDER BY c.id LIMIT 1
), picked AS (
    SELECT c.execution_id, c.place, c.part
    FROM owners o
    CROSS JOIN LATERAL (
        SELECT * FROM noetl.command c
        WHERE c.owner_group = o.owner_group AND NOT c.waiting AND c.not_before <= clock_timestamp()
          AND CASE WHEN :pool::text = '' THEN c.owner = o.owner_group OR (c.owner <> :owner AND NOT noetl.is_alive(c.owner))
                   ELSE c.owner = 'pool:' || :pool OR (NOT noetl.is_alive(c.owner) AND noetl.leaseholder(c.owner) IS NOT NULL) END
          AND NOT EXISTS (SELECT FROM noetl.execution e WHERE e.execution_id = c.execution_id AND e.status = 'paused')
          AND (:command_id::text = '' OR (c.execution_id = :execution_id::bigint AND c.command_id = :command_id::text))
          AND (c.lost = 0 OR c.lost_turn <> c.turn OR :pool::text <> ''
               OR (:lost::boolean AND (c.lost = 1 OR c.lost >= :most::integer
                                       OR (c.execution_id, c.command_id) IN (SELECT s.execution_id, s.command_id FROM suspect s))))
        ORDER BY c.priority DESC, c.id LIMIT :limit::bigint FOR UPDATE SKIP LOCKED
    ) c
    WHERE o.owner_group IS NOT NULL
      AND CASE WHEN :pool::text = '' THEN o.owner_group = '' OR (o.owner_group <> :owner AND NOT noetl.is_alive(o.owner_group))
               ELSE o.owner_group IN ('pool:' || :pool, 'until:' || 'http:' || :pool) END
    ORDER BY c.priority DESC, c.id LIMIT :limit::bigint
), updated AS (
    UPDATE noetl.command c
    SET owner = :owner, attempt = c.attempt + (c.owner <> 'pool:' || :pool)::integer,
        not_before = CASE WHEN c.lost > 1 AND c.lost_turn = c.turn THEN clock_timestamp() ELSE c.not_before END
    FROM picked p WHERE c.execution_id = p.execution_id AND c.place = p.place AND c.part = p.part
    RETURNING c.*
), claimed AS (
    SELECT *, CASE WHEN lost_turn = turn THEN lost ELSE 0 END AS losses FROM updated ORDER BY losses, priority DESC, id
)
SELECT c.execution_id, c.command_id, ARRAY[c.run, c.round, c.attempt, c.first, c.past, 0, c.losses], c.payload::text, c.child::text,
       l.payload::text, items.done, items.outcomes, items.suspended
FROM claimed c
LEFT JOIN noetl.loop l ON l.execution_id = c.execution_id AND l.run = c.run AND l.round = c.round
LEFT JOIN LATERAL (
    SELECT array_agg(e.seq ORDER BY e.seq) FILTER (WHERE e.event_id = i.id) AS done,
           '[' || string_agg(e.facts::text, ',' ORDER BY e.seq) FILTER (WHERE e.event_id = i.id) || ']' AS outcomes,
           array_agg(e.seq) FILTER (WHERE e.event_id <> i.id) AS suspended
    FROM noetl.event e CROSS JOIN LATERAL (SELECT 'item:' || c.run || ':' || c.round || ':' || e.seq AS id) i
    WHERE e.execution_id = c.execution_id AND e.lane = c.run AND e.lane <> 0 AND e.seq >= c.first AND e.seq < c.past
      AND e.event_id IN (i.id, i.id || ':t1')
) items ON c.round >= 0
UNION ALL
SELECT w.execution_id, w.id, w.numbers, w.body, w.extra, w.loop, NULL, NULL, NULL
FROM (SELECT WHERE :pool::text = '') own CROSS JOIN LATERAL noetl.wake_limits(:owner) w;

-- name: hand_over
-- What an invocation has published belongs to the queue; what it could not publish has no owner. Its commit does not wait for the disk: a
-- crash of the database that forgets it leaves the rows to their owner, whose time ends, and a sweep publishes them again. The time of
-- other owners does not end, so theirs waits.
WITH commands AS (
    UPDATE noetl.command c SET owner = b.heir
    FROM unnest(:command_executions::bigint[], :commands::text[], :command_heirs::text[]) AS b (execution_id, command_id, heir)
    WHERE c.execution_id = b.execution_id AND c.place IN (b.command_id, '') AND c.command_id = b.command_id AND c.owner = :owner
), events AS (
    UPDATE noetl.outbox o SET owner = b.heir
    FROM unnest(:event_executions::bigint[], :events::text[], :event_heirs::text[]) AS b (execution_id, event_id, heir)
    WHERE o.execution_id = b.execution_id AND o.event_id = b.event_id AND o.owner = :owner
), timers AS (
    UPDATE noetl.timer t SET owner = b.heir
    FROM unnest(:timer_executions::bigint[], :timers::text[], :timer_heirs::text[]) AS b (execution_id, timer, heir)
    WHERE t.execution_id = b.execution_id AND t.timer = b.timer AND t.owner = :owner
)
SELECT set_config('synchronous_commit', 'off', true) WHERE starts_with(:owner, 'until:');

-- name: hold_events
-- Events of paused executions wait in the outbox; the rows they came from go (a Start keeps its own), and no process claims a command whose turn they end. The
-- execution is locked, so that a commit which releases what is held either sees these or makes them refused. Rows: what is held.
WITH asked AS (
    SELECT h.*
    FROM unnest(:execution_ids::bigint[], :ids::text[], :event_ids::text[], :payloads::text[], :commands::text[],
                :attempts::integer[], :turns::integer[]) AS h (execution_id, id, event_id, payload, command_id, attempt, turn)
), paused AS MATERIALIZED (
    SELECT e.execution_id FROM noetl.execution e
    WHERE e.execution_id = ANY(:execution_ids::bigint[]) AND e.status = 'paused' ORDER BY e.execution_id FOR SHARE
), wanted AS MATERIALIZED (
    SELECT a.* FROM asked a JOIN paused p USING (execution_id)
), taken AS (
    DELETE FROM noetl.outbox o USING wanted w WHERE o.execution_id = w.execution_id AND o.event_id = w.event_id AND w.id <> w.event_id
), kept AS (
    INSERT INTO noetl.outbox (execution_id, event_id, source, owner, payload)
    SELECT w.execution_id, w.id, w.execution_id, 'held', w.payload::json FROM wanted w
    ON CONFLICT (execution_id, event_id) DO UPDATE SET owner = 'held'
), closed AS (
    UPDATE noetl.command c SET owner = 'held' FROM wanted w
    WHERE c.execution_id = w.execution_id AND c.place IN (w.command_id, '') AND c.command_id = w.command_id
      AND c.attempt = w.attempt AND c.turn = w.turn
      AND NOT c.waiting
)
SELECT execution_id, id FROM wanted;

-- name: forget_keys
-- Idempotency keys that no client repeats any more, and what playbooks said of keys without a use, a bounded number at a time.
WITH unused AS (
    DELETE FROM noetl.limit_key k USING (
        SELECT k.namespace, k.key FROM noetl.limit_key k
        WHERE k.declared AND k.updated_at < clock_timestamp() - interval '1 hour' AND coalesce(k.tat, '-infinity') < clock_timestamp()
          AND NOT EXISTS (SELECT FROM noetl.limit_use u WHERE u.key = k.key AND (u.held OR u.queued)) LIMIT :limit::bigint
        FOR UPDATE SKIP LOCKED
    ) old WHERE k.namespace = old.namespace AND k.key = old.key
)
DELETE FROM noetl.idempotency i USING (
    SELECT namespace, key FROM noetl.idempotency
    WHERE created_at < clock_timestamp() - make_interval(secs => :seconds::float8) ORDER BY created_at LIMIT :limit::bigint
    FOR UPDATE SKIP LOCKED
) old WHERE i.namespace = old.namespace AND i.key = old.key;

-- name: free_doubtful
-- Commands of step runs, and events of executions, that an unanswered commit may have given to an owner; and, when it was one of those that
-- grant slots to any execution, commands and Starts that got theirs in the last seconds.
WITH doubt AS (
    SELECT * FROM unnest(:execution_ids::bigint[], :runs::bigint[]) AS d (execution_id, run)
), commands AS (
    UPDATE noetl.command c SET owner = '' FROM doubt d
    WHERE c.execution_id = d.execution_id AND c.run = d.run AND c.owner = :owner
), slots AS (
    UPDATE noetl.command c SET owner = ''
    WHERE c.owner_group = :owner AND c.owner = :owner AND NOT c.waiting AND :seconds::float8 IS NOT NULL
      AND NOT EXISTS (SELECT FROM doubt d WHERE d.execution_id = c.execution_id AND d.run = c.run)
      AND EXISTS (SELECT FROM noetl.limit_use u WHERE u.execution_id = c.execution_id AND u.command_id = c.command_id
                  AND u.held AND u.since > clock_timestamp() - make_interval(secs => :seconds::float8))
)
UPDATE noetl.outbox o SET owner = ''
WHERE o.owner = :owner AND (o.source IN (SELECT execution_id FROM doubt)
    OR (:seconds::float8 IS NOT NULL AND starts_with(o.event_id, 'start')
        AND EXISTS (SELECT FROM noetl.limit_use u WHERE u.execution_id = o.execution_id AND u.command_id = ''
                    AND u.held AND u.since > clock_timestamp() - make_interval(secs => :seconds::float8))));

-- name: set_aside
-- Rows that an owner cannot read. The moments until which they are left alone are few, so that claims have few owners to look at.
WITH aside AS (
    SELECT 'until:' || ((floor(extract(epoch FROM clock_timestamp()) / :seconds::float8) + 2) * :seconds::float8)::bigint || ':unreadable' AS owner
), commands AS (
    UPDATE noetl.command c SET owner = a.owner
    FROM aside a, unnest(:command_executions::bigint[], :commands::text[]) AS r (execution_id, command_id)
    WHERE c.execution_id = r.execution_id AND c.place IN (r.command_id, '') AND c.command_id = r.command_id AND c.owner = :owner
)
UPDATE noetl.outbox o SET owner = a.owner
FROM aside a, unnest(:event_executions::bigint[], :events::text[]) AS r (execution_id, event_id)
WHERE o.execution_id = r.execution_id AND o.event_id = r.event_id AND o.owner = :owner;

-- name: claim_outbox
-- Undelivered events; those that were applied meanwhile go instead.
WITH RECURSIVE owners AS (
    (SELECT owner FROM noetl.outbox ORDER BY owner LIMIT 1)
    UNION ALL
    SELECT (SELECT x.owner FROM noetl.outbox x WHERE x.owner > o.owner ORDER BY x.owner LIMIT 1)
    FROM owners o WHERE o.owner IS NOT NULL
), picked AS (
    SELECT x.execution_id, x.event_id, x.id,
           EXISTS (SELECT FROM noetl.event e WHERE e.execution_id = x.execution_id AND e.event_id = x.event_id) AS applied
    FROM owners o
    CROSS JOIN LATERAL (
        SELECT * FROM noetl.outbox x WHERE x.owner = o.owner ORDER BY x.id LIMIT :limit::bigint FOR UPDATE SKIP LOCKED
    ) x
    WHERE o.owner IS NOT NULL AND (o.owner = '' OR NOT noetl.is_alive(o.owner))
    ORDER BY x.id LIMIT :limit::bigint
), dropped AS (
    DELETE FROM noetl.outbox x USING picked p
    WHERE p.applied AND x.execution_id = p.execution_id AND x.event_id = p.event_id
    RETURNING x.id, NULL::text AS payload, x.execution_id, x.event_id
), claimed AS (
    UPDATE noetl.outbox x SET owner = :owner
    FROM picked p WHERE NOT p.applied AND x.execution_id = p.execution_id AND x.event_id = p.event_id
    RETURNING x.id, x.payload::text, x.execution_id, x.event_id
)
SELECT id, payload, execution_id, event_id FROM (SELECT * FROM claimed UNION ALL SELECT * FROM dropped) found ORDER BY id;

-- name: due_timers
-- Timers that are due, with the program of their execution; and in every row how long it is until the next one.
WITH picked AS (
    SELECT t.execution_id, t.timer
    FROM noetl.timer t
    WHERE t.fire_at <= now() AND (t.owner = '' OR NOT noetl.is_alive(t.owner))
    ORDER BY t.fire_at LIMIT :limit::bigint FOR UPDATE SKIP LOCKED
), fired AS (
    UPDATE noetl.timer t SET owner = :owner
    FROM picked p WHERE t.execution_id = p.execution_id AND t.timer = p.timer
    RETURNING t.execution_id, t.timer, t.generation, t.fire_at
), soonest AS (
    SELECT t.fire_at FROM noetl.timer t
    WHERE (t.owner = '' OR NOT noetl.is_alive(t.owner))
      AND NOT EXISTS (SELECT FROM picked p WHERE p.execution_id = t.execution_id AND p.timer = t.timer)
    ORDER BY t.fire_at LIMIT 1
)
SELECT f.execution_id, f.timer, f.generation, e.program, s.wait
FROM (SELECT greatest(0, extract(epoch FROM (SELECT fire_at FROM soonest) - clock_timestamp())) AS wait
      WHERE EXISTS (SELECT FROM soonest)
      UNION ALL SELECT NULL WHERE NOT EXISTS (SELECT FROM soonest)) s
LEFT JOIN fired f ON true
LEFT JOIN noetl.execution e ON e.execution_id = f.execution_id
ORDER BY f.fire_at;
