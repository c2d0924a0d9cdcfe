-- Rows of history whose last facts follow from the first one keep what no other fact says, as a list at their end
-- (adapters/postgres/executions/fact_rows.py). The view shows all facts of both forms.

CREATE OR REPLACE VIEW noetl_history.facts AS
SELECT e.execution_id, e.seq, f.number, f.fact ->> 'name' AS name, f.fact ->> 'step' AS step,
       CASE WHEN f.fact ->> 'run' ~ '^[0-9]{1,18}$' THEN (f.fact ->> 'run')::bigint END AS run, e.at, f.fact
FROM noetl.event e
CROSS JOIN LATERAL (SELECT regexp_replace(e.facts::text, '\\u(0000|[dD][89a-fA-F][0-9a-fA-F]{2})', '\\ufffd', 'g') AS kept OFFSET 0) k
CROSS JOIN LATERAL (
    SELECT s.first[1] AS run, s.first[2] AS step
    FROM (SELECT regexp_match(k.kept, '^\[\{"name":"[a-z.]+","run":([0-9]+),"step":("[^"\\]+")') AS first) s
) i
CROSS JOIN LATERAL json_array_elements(CASE
    WHEN json_typeof(e.facts) <> 'array' THEN '[]'::json
    WHEN right(k.kept, 2) <> ']]' THEN k.kept::json
    ELSE regexp_replace(
        k.kept, ',\[([0-9]+),("[^"]+"),([0-9]+),("[^"]+")\]\]$',
        concat(',{"name":"step.exit","run":', i.run, ',"step":', i.step,
               '},{"name":"next.evaluated","run":', i.run, ',"step":', i.step, ',"targets":[{"run":\1,"step":\2,"arc":\3}]}',
               ',{"name":"step.enter","run":\1,"step":\2},{"name":"command.issued","run":\1,"step":\2,"command_id":"\1","pool":\4}]'))::json
    END) WITH ORDINALITY AS f (fact, number)
WHERE e.lane = 0;
