-- Commands whose work is in another system. Numbers: run, round, attempt, first, past.

-- name: read_open_commands
SELECT c.execution_id, c.command_id, ARRAY[c.run, c.round, c.attempt, c.first, c.past], c.payload::text, c.child::text, l.payload::text
FROM unnest(:executions::bigint[], :commands::text[], :attempts::integer[], :turns::integer[]) AS f (execution_id, command_id, attempt, turn)
JOIN noetl.command c ON c.execution_id = f.execution_id AND c.place IN (f.command_id, '') AND c.command_id = f.command_id
    AND c.attempt = f.attempt AND c.turn = f.turn
LEFT JOIN noetl.loop l ON l.execution_id = c.execution_id AND l.run = c.run AND l.round = c.round
WHERE NOT c.waiting;

-- name: ask_again
-- The attempt goes up, so that what a worker of the one before still reports does not count.
UPDATE noetl.command c
SET attempt = c.attempt + 1, owner = :owner, lost = 0, payload = f.payload::json, child = NULL,
    not_before = clock_timestamp() + make_interval(secs => f.delay)
FROM unnest(:executions::bigint[], :commands::text[], :attempts::integer[], :turns::integer[], :delays::float8[], :payloads::text[])
    AS f (execution_id, command_id, attempt, turn, delay, payload)
WHERE c.execution_id = f.execution_id AND c.place IN (f.command_id, '') AND c.command_id = f.command_id
  AND c.attempt = f.attempt AND c.turn = f.turn AND NOT c.waiting
RETURNING c.execution_id, c.command_id, c.attempt;

-- name: wake_early
-- What processes died of waits its time, and is given out alone (claim_commands): a report of another system does not shorten that.
WITH woken AS (
    UPDATE noetl.command c SET attempt = c.attempt + 1, owner = :owner, not_before = clock_timestamp()
    FROM unnest(:executions::bigint[], :commands::text[]) AS f (execution_id, command_id)
    WHERE c.execution_id = f.execution_id AND c.place IN (f.command_id, '') AND c.command_id = f.command_id
      AND NOT c.waiting AND c.not_before > clock_timestamp()
      AND c.remote AND (c.lost < 2 OR c.lost_turn <> c.turn)
    RETURNING c.*
)
SELECT w.execution_id, w.command_id, ARRAY[w.run, w.round, w.attempt, w.first, w.past], w.payload::text, w.child::text, l.payload::text
FROM woken w
LEFT JOIN noetl.loop l ON l.execution_id = w.execution_id AND l.run = w.run AND l.round = w.round;
