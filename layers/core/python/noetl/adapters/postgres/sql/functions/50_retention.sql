-- What retention asks about.

-- Whether an execution and everything it started, directly or not, ended before then, with nothing on its way to any of them.
CREATE OR REPLACE FUNCTION noetl.tree_is_old(root BIGINT, before TIMESTAMPTZ) RETURNS BOOLEAN
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE tree AS (
        SELECT e.execution_id, e.ended_at FROM noetl.execution e WHERE e.execution_id = root
        UNION ALL
        SELECT c.execution_id, c.ended_at FROM tree t CROSS JOIN LATERAL (
            SELECT c.execution_id, c.ended_at FROM noetl.execution c WHERE c.parent_execution_id = t.execution_id OFFSET 0) c
    )
    SELECT NOT EXISTS (
        SELECT FROM tree t
        WHERE t.ended_at IS NULL OR t.ended_at >= before
           OR EXISTS (SELECT FROM noetl.outbox o WHERE o.execution_id = t.execution_id)
           OR EXISTS (SELECT FROM noetl.outbox o WHERE o.source = t.execution_id AND starts_with(o.event_id, 'start'))
    )
$$;
