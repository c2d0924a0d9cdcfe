-- Executions: the main lane's reads and writes.

-- name: load_executions
-- Everything that was asked about any number of executions; the clock, and pools with a worker over HTTP that lives. Columns: kind,
-- execution, text, text, number, number, json.
SELECT 'now' AS kind, 0::bigint AS execution,
       (SELECT string_agg(DISTINCT w.pool, ',') FROM noetl.worker w WHERE w.seen_at > now() - interval '60 seconds') AS one, NULL::text AS two, NULL::bigint AS three, NULL::bigint AS four,
       extract(epoch FROM clock_timestamp())::text AS five
UNION ALL
SELECT 'execution', e.execution_id, e.program, e.status, e.version, NULL, e.state::text
FROM unnest(:ids::bigint[]) AS r (id) JOIN noetl.execution e ON e.execution_id = r.id
UNION ALL
SELECT 'slot', s.execution_id, s.scope, s.name, NULL, NULL, s.value::text
FROM unnest(:name_ids::bigint[], :names::text[]) AS r (id, name)
JOIN noetl.slot s ON s.execution_id = r.id AND s.name = r.name
UNION ALL
SELECT 'slot', s.execution_id, s.scope, s.name, NULL, NULL, s.value::text
FROM unnest(:scope_ids::bigint[], :scopes::text[]) AS r (id, scope)
JOIN noetl.slot s ON s.execution_id = r.id AND s.scope = r.scope AND s.scope <> 'args'
UNION ALL
-- Arguments are wanted every time: they have an index, so that many other slots cost nothing here.
SELECT 'slot', s.execution_id, s.scope, s.name, NULL, NULL, s.value::text
FROM unnest(:scope_ids::bigint[], :scopes::text[]) AS r (id, scope)
JOIN noetl.slot s ON s.execution_id = r.id AND s.scope = 'args'
WHERE r.scope = 'args'
UNION ALL
SELECT 'fence', c.execution_id, c.command_id, NULL, c.attempt, c.turn, NULL
FROM unnest(:command_ids::bigint[], :commands::text[]) AS r (id, command)
JOIN noetl.command c ON c.execution_id = r.id AND c.place IN (r.command, '') AND c.command_id = r.command
UNION ALL
-- The bounds are those of the ids: partitions of history outside of them are not opened. OFFSET 0: no plan reads all that lies between them.
SELECT 'applied', r.id, r.event, NULL, NULL, NULL, NULL
FROM unnest(:event_ids::bigint[], :events::text[]) AS r (id, event)
CROSS JOIN LATERAL (
    SELECT FROM noetl.event v WHERE v.execution_id = r.id AND v.event_id = r.event
       AND v.execution_id BETWEEN :least_id::bigint AND :most_id::bigint OFFSET 0) v
UNION ALL
-- What is being removed is moved by nothing: its history, which would show a repeat, may be gone. (A Start is known by its id: it may be
-- that of another execution.)
SELECT 'applied', r.id, r.event, NULL, NULL, NULL, NULL
FROM unnest(:event_ids::bigint[], :events::text[]) AS r (id, event)
JOIN noetl.execution e ON e.execution_id = r.id AND e.leaving_at IS NOT NULL
WHERE NOT starts_with(r.event, 'start');

-- name: commit_changes
-- See sql/functions/30_commit_changes.sql.
SELECT kind, execution_id, id, numbers, body, extra, loop FROM noetl.commit_changes(
    :owner, :x_id, :x_expected, :x_status, :x_program, :x_state, :x_rests,
    :e_execution, :e_id, :e_lane, :e_seq, :e_type, :e_facts, :e_at,
    :s_execution, :s_name, :s_scope, :s_value, :d_execution, :d_name, :d_scope,
    :c_execution, :c_id, :c_attempt, :c_turn,
    :n_execution, :n_id, :n_run, :n_attempt, :n_waiting, :n_delay, :n_payload, :n_remote,
    :o_execution, :o_id, :o_source, :o_payload, :o_awaited_by, :o_program, :o_path, :h_execution, :h_id,
    :created, :dropped, :ended, :loops, :gates, :replaced, :wakes, :timers, :cleared, :variables, :cancels);

-- name: commit_limited
-- The same, and then what is rare: what it means to those who share keys (sql/functions/50_limits.sql), what it says of results (60_results.sql).
WITH done AS MATERIALIZED (
    SELECT kind, execution_id, id, numbers, body, extra, loop FROM noetl.commit_changes(
    :owner, :x_id, :x_expected, :x_status, :x_program, :x_state, :x_rests,
    :e_execution, :e_id, :e_lane, :e_seq, :e_type, :e_facts, :e_at,
    :s_execution, :s_name, :s_scope, :s_value, :d_execution, :d_name, :d_scope,
    :c_execution, :c_id, :c_attempt, :c_turn,
    :n_execution, :n_id, :n_run, :n_attempt, :n_waiting, :n_delay, :n_payload, :n_remote,
    :o_execution, :o_id, :o_source, :o_payload, :o_awaited_by, :o_program, :o_path, :h_execution, :h_id,
    :created, :dropped, :ended, :loops, :gates, :replaced, :wakes, :timers, :cleared, :variables, :cancels)
)
SELECT * FROM done
UNION ALL
SELECT s.* FROM (SELECT count(*) AS rows FROM done) d
CROSS JOIN LATERAL noetl.settle_limits(:owner, d.rows, :priorities, :limited, :wanted, NULL) s
UNION ALL
SELECT n.* FROM (SELECT count(*) AS rows FROM done) d CROSS JOIN LATERAL noetl.note_results(d.rows, :results) n;

-- name: create_execution
-- The row in version 0, its Start in the outbox, and the key. Rows: 'fresh' with the id, or 'known' with what the key belongs to already;
-- none when the id is taken, or when another transaction is keeping the same key right now (ask again). When another transaction takes the id
-- meanwhile, the statement fails with all that it wrote (23505): a key that stayed would stand for the other's execution.
WITH key AS (
    INSERT INTO noetl.idempotency (key, fingerprint, execution_id)
    SELECT :key::text, :fingerprint, :execution_id::bigint
    WHERE :key::text <> '' AND NOT EXISTS (SELECT FROM noetl.execution e WHERE e.execution_id = :execution_id::bigint)
    ON CONFLICT DO NOTHING
    RETURNING execution_id
), fresh AS (
    INSERT INTO noetl.execution (
        execution_id, path, name, playbook_version, parent_execution_id, principal, program, started_at, labels)
    SELECT :execution_id::bigint, :path, :name, :playbook_version, :parent::bigint, :principal, :program,
           coalesce(to_timestamp(:starts_at::double precision), now()), :labels::text[]
    WHERE EXISTS (SELECT FROM key)
       OR (:key::text = '' AND NOT EXISTS (SELECT FROM noetl.execution e WHERE e.execution_id = :execution_id::bigint))
    RETURNING execution_id, started_at
), posted AS (
    INSERT INTO noetl.outbox (execution_id, event_id, source, owner, payload, since)
    SELECT f.execution_id, :event_id, f.execution_id, :owner, :payload::json, f.started_at FROM fresh f
), holds AS (
    INSERT INTO noetl.result_hold (execution_id, held_id)
    SELECT f.execution_id, h FROM fresh f CROSS JOIN unnest(:held::bigint[]) h ON CONFLICT DO NOTHING
)
SELECT 'fresh', f.execution_id, '' FROM fresh f
UNION ALL
SELECT 'known', i.execution_id, i.fingerprint
FROM noetl.idempotency i
WHERE i.namespace = 'default' AND i.key = :key::text AND NOT EXISTS (SELECT FROM fresh);

-- name: keyed_execution
SELECT execution_id, fingerprint = :fingerprint::text FROM noetl.idempotency WHERE namespace = 'default' AND key = :key;

-- name: admit_execution
-- See sql/functions/50_limits.sql.
WITH holds AS (
    INSERT INTO noetl.result_hold (execution_id, held_id)
    SELECT :execution_id::bigint, h FROM unnest(:held::bigint[]) h ON CONFLICT DO NOTHING
)
SELECT kind, execution_id, id, numbers, body, extra, loop FROM noetl.admit_execution(
    :owner, :execution_id, :path, :name, :playbook_version, :parent, :principal, :payload::json, :event_id, :key, :concurrent, :on_excess, :priority);

-- name: post_event
-- An event from outside, if its execution is live (and has started, unless unborn is true), or has ended when over is true, once; and
-- the variables that it writes. One that is being removed is not there. What makes an execution live again (over) locks the root of its
-- tree against a removal (see sql/functions/70_removal.sql), and words to its family have to reach it through what has ended above it.
-- Row: status, version, whether it is new.
WITH kept_tree AS (
    SELECT r.execution_id FROM noetl.execution r
    WHERE r.execution_id = CASE WHEN :over::boolean THEN noetl.root_of(:execution_id::bigint) END AND r.leaving_at IS NULL
    FOR SHARE
), found AS (
    SELECT e.execution_id, e.status, e.version FROM noetl.execution e
    WHERE e.execution_id = :execution_id::bigint AND e.leaving_at IS NULL
      AND (NOT :over::boolean OR EXISTS (SELECT FROM kept_tree))
), posted AS (
    INSERT INTO noetl.outbox (execution_id, event_id, source, owner, payload)
    SELECT f.execution_id, :event_id, f.execution_id, :owner, :payload::json FROM found f
    WHERE (f.status IN ('running', 'paused')) <> :over::boolean AND (f.version > 0 OR :unborn::boolean)
          AND NOT EXISTS (SELECT FROM noetl.event v WHERE v.execution_id = f.execution_id AND v.event_id = :event_id)
    ON CONFLICT DO NOTHING
    RETURNING event_id
), holds AS (
    INSERT INTO noetl.result_hold (execution_id, held_id)
    SELECT :execution_id::bigint, h FROM posted CROSS JOIN unnest(:held::bigint[]) h ON CONFLICT DO NOTHING
), above AS MATERIALIZED (
    SELECT e.execution_id FROM noetl.execution e
    WHERE e.execution_id = ANY(ARRAY(SELECT noetl.between_root_and(:execution_id::bigint) WHERE :over::boolean)) AND NOT e.leads_on
      AND EXISTS (SELECT FROM kept_tree)
    ORDER BY e.execution_id FOR UPDATE
), marked AS (
    UPDATE noetl.execution e SET leads_on = true FROM above a WHERE e.execution_id = a.execution_id
), kept AS (
    SELECT noetl.write_variables(:variables::json) AS written FROM posted WHERE :variables IS NOT NULL
)
SELECT f.status, f.version, EXISTS (SELECT FROM posted) FROM found f LEFT JOIN kept k ON k.written > 0;

-- name: post_events
-- One event from outside for each of several executions, as post_event takes it. Rows: those that there are.
WITH asked AS (
    SELECT * FROM unnest(:execution_ids::bigint[], :event_ids::text[], :payloads::text[], :unborn::boolean[], :over::boolean[])
        AS a (execution_id, event_id, payload, unborn, over)
), kept_trees AS (
    SELECT r.execution_id FROM noetl.execution r
    WHERE r.execution_id = ANY(ARRAY(SELECT noetl.root_of(a.execution_id) FROM asked a WHERE a.over)) AND r.leaving_at IS NULL
    ORDER BY r.execution_id FOR SHARE
), found AS (
    SELECT a.*, e.status, e.version FROM asked a JOIN noetl.execution e USING (execution_id)
    WHERE e.leaving_at IS NULL
      AND (NOT a.over OR noetl.root_of(a.execution_id) IN (SELECT k.execution_id FROM kept_trees k))
), posted AS (
    INSERT INTO noetl.outbox (execution_id, event_id, source, owner, payload)
    SELECT f.execution_id, f.event_id, f.execution_id, :owner, f.payload::json FROM found f
    WHERE (f.status IN ('running', 'paused')) <> f.over AND (f.version > 0 OR f.unborn)
          AND NOT EXISTS (SELECT FROM noetl.event v WHERE v.execution_id = f.execution_id AND v.event_id = f.event_id)
    ORDER BY f.execution_id
    ON CONFLICT DO NOTHING
    RETURNING execution_id
), holds AS (
    INSERT INTO noetl.result_hold (execution_id, held_id)
    SELECT h.execution_id, h.held_id FROM posted CROSS JOIN unnest(:holder_ids::bigint[], :held_ids::bigint[]) AS h (execution_id, held_id)
    WHERE h.execution_id = posted.execution_id ON CONFLICT DO NOTHING
), above AS MATERIALIZED (
    SELECT e.execution_id FROM noetl.execution e
    WHERE e.execution_id = ANY(ARRAY(SELECT noetl.between_root_and(a.execution_id) FROM asked a WHERE a.over)) AND NOT e.leads_on
      AND (SELECT count(*) FROM kept_trees) > 0
    ORDER BY e.execution_id FOR UPDATE
), marked AS (
    UPDATE noetl.execution e SET leads_on = true FROM above a WHERE e.execution_id = a.execution_id
)
SELECT f.execution_id, f.status, f.version, EXISTS (SELECT FROM posted p WHERE p.execution_id = f.execution_id) FROM found f;

-- name: steering_events
-- Pauses and resumes that are on their way, in the order in which they were accepted. A payload is compared as text: events of others
-- may hold what Postgres cannot read of a document (a NUL).
SELECT o.execution_id, o.event_id, starts_with(o.payload::text, '{"type":"pause"') FROM noetl.outbox o
WHERE o.execution_id = ANY(:execution_ids::bigint[])
  AND (starts_with(o.payload::text, '{"type":"pause"') OR starts_with(o.payload::text, '{"type":"resume"'))
ORDER BY o.execution_id, o.id;

-- name: are_related
SELECT coalesce(noetl.root_of(:one::bigint) = noetl.root_of(:other::bigint), false);

-- name: execution_info
SELECT @listed_columns
FROM noetl.execution WHERE execution_id = :execution_id;

-- name: endings
-- Executions and, of those that completed, the facts of the last row of their history, with what the steps left that it names. The names
-- of steps are identifiers, which stand in the text of a document as they are: nothing has to be looked up inside it.
SELECT e.execution_id, e.path, e.name, e.status, e.program, e.version, extract(epoch FROM e.started_at), extract(epoch FROM e.ended_at),
       e.parent_execution_id, e.state, e.version = 0 AND e.started_at > now(), e.playbook_version, e.principal, array_to_json(e.labels), noetl.rested(e),
       r.facts, r.slots
FROM unnest(:execution_ids::bigint[]) AS asked (id)
JOIN noetl.execution e ON e.execution_id = asked.id
LEFT JOIN LATERAL (
    SELECT last.facts, (
        SELECT json_agg(json_build_array(s.name, s.value)) FROM noetl.slot s
        WHERE s.execution_id = e.execution_id AND s.scope = 'step'
            AND strpos(last.facts::text, '"' || s.name || '"') > 0) AS slots
    FROM (
        SELECT h.facts FROM noetl.event h
        WHERE h.execution_id = e.execution_id AND h.lane = 0 ORDER BY h.seq DESC LIMIT 1) last
) r ON e.status = 'completed';

-- name: pulses
-- What of these executions a watcher sees change, and (as execution 0) a number that represents the newest executions and the last end.
SELECT e.execution_id, e.version, e.status, (
    SELECT h.seq FROM noetl.event h WHERE h.execution_id = e.execution_id AND h.lane = 0 ORDER BY h.seq DESC LIMIT 1), (
    SELECT json_agg(json_build_array(l.run, l.round, l.step, l.done, l.failed, l.total)) FROM (
        SELECT * FROM noetl.loop o WHERE o.execution_id = e.execution_id ORDER BY o.run DESC, o.round DESC LIMIT :loops::bigint) l)
FROM unnest(:execution_ids::bigint[]) AS asked (id)
JOIN noetl.execution e ON e.execution_id = asked.id
UNION ALL
SELECT 0, hashtextextended(coalesce(string_agg(n.execution_id::text || n.status, ',' ORDER BY n.execution_id), '')
    || coalesce((SELECT max(ended_at)::text FROM noetl.execution WHERE ended_at IS NOT NULL AND parent_execution_id IS NULL), ''), 0)
    & 9007199254740991, 'running', 0, NULL
FROM (SELECT execution_id, status FROM noetl.execution WHERE :newest::boolean ORDER BY execution_id DESC LIMIT 200) n
WHERE :newest::boolean;

-- part: execution_fits
-- An empty status means any; what is NULL is not asked for.
namespace = 'default'
  -- IS NOT NULL, which the planner expects to be true: with an estimate for each of these it would expect few rows, and read and sort
  -- all executions or a whole family for one page.
  AND CASE WHEN (:status = '' OR status = :status) AND (:path::text IS NULL OR path = :path)
      AND (:since::float8 IS NULL OR started_at >= to_timestamp(:since))
      AND (:until::float8 IS NULL OR started_at < to_timestamp(:until))
      AND (:program::text IS NULL OR program = :program)
      AND (NOT :roots::boolean OR parent_execution_id IS NULL)
      AND (:labels::text[] IS NULL OR :labels <@ labels)
      AND (:principal::text IS NULL OR principal = :principal)
      AND (:words::text IS NULL OR strpos(lower(path), :words) > 0 OR strpos(lower(name), :words) > 0
           OR EXISTS (SELECT FROM unnest(labels) AS l (label) WHERE strpos(lower(label), :words) > 0))
      AND (:error_code::text IS NULL OR CASE WHEN status = 'failed' THEN noetl.failure_code(state) = :error_code ELSE false END)
      AND (:statuses::text[] IS NULL OR status = ANY(:statuses) OR (:pausing::boolean AND status = 'running' AND EXISTS (
          SELECT FROM noetl.outbox o WHERE o.execution_id = execution.execution_id AND starts_with(o.payload::text, '{"type":"pause"')
          OFFSET 0)))  -- looked up for each execution: without OFFSET the planner may read the whole outbox first, into a hash table
      THEN true END IS NOT NULL

-- part: listed_columns
execution_id, path, name, status, program, version, extract(epoch FROM started_at), extract(epoch FROM ended_at),
       parent_execution_id, state, version = 0 AND started_at > now(), playbook_version, principal, array_to_json(labels), noetl.rested(execution)

-- name: list_executions
-- Newest first.
SELECT @listed_columns
FROM noetl.execution WHERE execution_id < :before::bigint AND @execution_fits
ORDER BY execution_id DESC LIMIT :limit::bigint;

-- name: list_live
-- Those with one status that is no end, newest first: by the index execution_live, however many have ended.
SELECT @listed_columns
FROM noetl.execution WHERE ended_at IS NULL AND status = :status AND execution_id < :before::bigint AND @execution_fits
ORDER BY execution_id DESC LIMIT :limit::bigint;

-- name: list_children
-- Children of one execution, newest first. A plan serves every call, so a parent that may be NULL would have to be looked for in all
-- executions. The bounds and the order name parent and id as a pair, because only the index execution_parent has that order.
SELECT @listed_columns
FROM noetl.execution
WHERE (parent_execution_id, execution_id) < (:parent::bigint, :before::bigint) AND parent_execution_id >= :parent AND @execution_fits
ORDER BY parent_execution_id DESC, execution_id DESC LIMIT :limit::bigint;

-- name: list_named
-- Those of these executions that fit, newest first.
SELECT @listed_columns
FROM noetl.execution
WHERE execution_id = ANY(:ids::bigint[]) AND execution_id < :before::bigint
  AND (:parent::bigint IS NULL OR parent_execution_id = :parent) AND @execution_fits
ORDER BY execution_id DESC LIMIT :limit::bigint;

-- name: execution_slots
SELECT scope, name, value FROM noetl.slot WHERE execution_id = :execution_id;

-- name: callback_slots
-- What runs wait for from outside, at most so many places of each: its own place, and those of its loop's items (<run>.…).
SELECT s.name, s.value FROM unnest(:runs::bigint[]) AS r (run)
CROSS JOIN LATERAL (
    SELECT s.name, s.value FROM noetl.slot s
    WHERE s.execution_id = :execution_id AND s.name = r.run::text AND s.scope = 'callback'
    UNION ALL
    (SELECT s.name, s.value FROM noetl.slot s
     WHERE s.execution_id = :execution_id AND s.name > r.run || '.' AND s.name < r.run || '/' AND s.scope = 'callback'
     ORDER BY s.name LIMIT :limit::bigint)
) s;

-- name: start_of
SELECT payload::text FROM noetl.outbox WHERE execution_id = :execution_id::bigint AND starts_with(event_id, 'start');

-- name: left_steps
SELECT name FROM noetl.slot WHERE execution_id = :execution_id AND scope = 'step' AND name = ANY(:names::text[]);

-- name: status_counts
SELECT status, count(*) FROM (SELECT status FROM noetl.execution ORDER BY execution_id DESC LIMIT :limit::bigint) e GROUP BY status;

-- name: open_work
-- Commands are counted in one scan: a second one by their owner would read those of every execution.
SELECT c.commands, (SELECT count(*) FROM noetl.timer WHERE execution_id = :execution_id), o.events, c.lost, o.oldest
FROM (SELECT count(*) AS events, coalesce(extract(epoch FROM clock_timestamp()) - extract(epoch FROM min(since)), 0) AS oldest
      FROM noetl.outbox WHERE execution_id = :execution_id) o,
     (SELECT count(*) AS commands, count(*) FILTER (WHERE lost > 0 AND lost_turn = turn AND NOT waiting) AS lost
      FROM noetl.command WHERE execution_id = :execution_id) c;
