-- What is outstanding, for people. Rows of commands are read as they lie, without locks.

-- name: open_commands
SELECT command_id, run, attempt, turn, waiting, owner, owner <> '' AND noetl.is_alive(owner),
       extract(epoch FROM clock_timestamp() - not_before), CASE WHEN lost_turn = turn THEN lost ELSE 0 END, remote
FROM noetl.command WHERE execution_id = :execution_id ORDER BY id LIMIT :limit::bigint;

-- name: outstanding_commands
-- By pool and owner; a fresh chunk of a loop has its pool in the loop. Operators
-- of json read every escape of a payload, and refuse some; in the text, what a name holds has its quotes escaped.
WITH looked AS (
    SELECT coalesce(substring(coalesce(c.payload, l.payload)::text FROM '"pool":"([^"]*)"'), '') AS pool, c.owner, c.waiting, c.not_before
    FROM (SELECT * FROM noetl.command ORDER BY id LIMIT :limit::bigint) c
    LEFT JOIN noetl.loop l ON l.execution_id = c.execution_id AND l.run = c.run AND l.round = c.round
), counted AS (
    SELECT pool, owner, count(*) FILTER (WHERE NOT waiting AND not_before <= clock_timestamp()) AS due,
           count(*) FILTER (WHERE NOT waiting AND not_before > clock_timestamp()) AS delayed,
           count(*) FILTER (WHERE waiting) AS suspended,
           min(not_before) FILTER (WHERE NOT waiting) AS oldest
    FROM looked GROUP BY pool, owner
)
SELECT c.pool, c.owner, c.due, c.delayed, c.suspended,
       coalesce(greatest(0, extract(epoch FROM clock_timestamp() - c.oldest)), 0), c.owner <> '' AND noetl.is_alive(c.owner),
       extract(epoch FROM r.lease_until - clock_timestamp())
FROM counted c LEFT JOIN noetl.runtime r ON r.owner = c.owner
ORDER BY c.pool, c.owner;

-- name: outstanding_rest
-- Rows that cannot be read have an owner of their own (set_aside in recovery.sql).
SELECT (SELECT count(*) FROM noetl.outbox), (SELECT count(*) FROM noetl.timer),
       (SELECT count(*) FROM noetl.command WHERE NOT waiting AND owner_group >= 'until:' AND owner_group < 'until;' AND owner LIKE '%' || ':unreadable')
         + (SELECT count(*) FROM noetl.outbox WHERE owner >= 'until:' AND owner < 'until;' AND owner LIKE '%' || ':unreadable');

-- name: backlog
SELECT least(:most::bigint, (SELECT count(*) FROM (
           SELECT FROM noetl.outbox WHERE owner <> 'held' AND NOT (starts_with(owner, 'until:') AND owner LIKE '%' || ':later') LIMIT :most::bigint) o)
         + (SELECT coalesce(sum(total), 0) FROM (
           SELECT total FROM noetl.event_batch WHERE status IN ('accepted', 'processing') LIMIT :most::bigint) b)),
       (SELECT count(*) FROM (
           SELECT FROM noetl.command WHERE NOT waiting AND owner <> 'held' AND not_before <= clock_timestamp() LIMIT :most::bigint) c);
