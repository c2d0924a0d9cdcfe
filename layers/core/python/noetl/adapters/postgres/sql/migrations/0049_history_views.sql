-- Views that people query (POST /api/sql): history with documented columns, and nothing of secrets, queues or leases. A role of its own reads
-- them (adapters/postgres/reader_role.py), with the rights of their owner. Escapes that text of this database cannot hold (NUL, halves of
-- surrogate pairs) become U+FFFD there.
CREATE SCHEMA IF NOT EXISTS noetl_history;

CREATE VIEW noetl_history.executions AS
SELECT e.execution_id, e.path, e.name, e.program, e.parent_execution_id, e.principal, e.status, e.started_at, e.ended_at,
       COALESCE(e.ended_at, now()) - e.started_at AS duration,
       s.error ->> 'code' AS error_code, s.error ->> 'message' AS error_message
FROM noetl.execution e
CROSS JOIN LATERAL (
    SELECT CASE WHEN e.state IS NULL THEN NULL::json
                ELSE regexp_replace(e.state::text, '\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\\ufffd', 'g')::json -> 'error' END AS error
) s;

CREATE VIEW noetl_history.facts AS
SELECT e.execution_id, e.seq, f.number, f.fact ->> 'name' AS name, f.fact ->> 'step' AS step,
       CASE WHEN f.fact ->> 'run' ~ '^[0-9]{1,18}$' THEN (f.fact ->> 'run')::bigint END AS run, e.at, f.fact
FROM noetl.event e
CROSS JOIN LATERAL json_array_elements(
    CASE WHEN json_typeof(e.facts) = 'array'
         THEN regexp_replace(e.facts::text, '\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\\ufffd', 'g')::json ELSE '[]'::json END
) WITH ORDINALITY AS f (fact, number)
WHERE e.lane = 0;

CREATE VIEW noetl_history.steps AS
SELECT execution_id, run, min(step) AS step,
       CASE WHEN bool_or(name = 'step.failed') THEN 'failed' WHEN bool_or(name = 'step.skipped') THEN 'skipped'
            WHEN bool_or(name = 'step.exit') THEN 'done' ELSE 'open' END AS status,
       min(at) FILTER (WHERE name = 'step.enter') AS entered_at,
       max(at) FILTER (WHERE name IN ('step.exit', 'step.failed', 'step.skipped')) AS ended_at,
       max(at) FILTER (WHERE name IN ('step.exit', 'step.failed', 'step.skipped')) - min(at) FILTER (WHERE name = 'step.enter') AS duration,
       count(*) FILTER (WHERE name = 'retry.scheduled') AS retries
FROM noetl_history.facts
WHERE run IS NOT NULL AND name IN ('step.enter', 'step.exit', 'step.failed', 'step.skipped', 'retry.scheduled')
GROUP BY execution_id, run;

CREATE VIEW noetl_history.items AS
SELECT e.execution_id, e.lane AS run, e.seq AS index, o.outcome ->> 'status' AS status, e.at, o.outcome
FROM noetl.event e
CROSS JOIN LATERAL (
    SELECT regexp_replace(e.facts::text, '\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\\ufffd', 'g')::json AS outcome
) o
WHERE e.lane > 0 AND json_typeof(e.facts) = 'object';

CREATE VIEW noetl_history.values AS
SELECT execution_id, scope, name,
       regexp_replace(value::text, '\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\\ufffd', 'g')::json AS value
FROM noetl.slot
WHERE scope IN ('workload', 'ctx', 'vars', 'step', 'args');

CREATE VIEW noetl_history.playbooks AS
SELECT path, version, name, program, content, created_at FROM noetl.catalog;
