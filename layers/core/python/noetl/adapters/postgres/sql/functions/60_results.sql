-- Results that live differently from their execution, and who can reach those of others.

-- The root execution above this one.
CREATE OR REPLACE FUNCTION noetl.root_of(id BIGINT) RETURNS BIGINT
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE up AS (
        SELECT e.execution_id, e.parent_execution_id, 0 AS height FROM noetl.execution e WHERE e.execution_id = id
        UNION ALL
        SELECT e.execution_id, e.parent_execution_id, u.height + 1 FROM up u JOIN noetl.execution e ON e.execution_id = u.parent_execution_id
    )
    SELECT u.execution_id FROM up u ORDER BY u.height DESC LIMIT 1
$$;

-- An execution and everything it started, directly or not.
CREATE OR REPLACE FUNCTION noetl.tree_of(root BIGINT) RETURNS TABLE (execution_id BIGINT, ended_at TIMESTAMPTZ)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE tree AS (
        SELECT e.execution_id, e.ended_at FROM noetl.execution e WHERE e.execution_id = root
        UNION ALL
        SELECT c.execution_id, c.ended_at FROM tree t CROSS JOIN LATERAL (
            SELECT c.execution_id, c.ended_at FROM noetl.execution c WHERE c.parent_execution_id = t.execution_id OFFSET 0) c
    )
    SELECT t.execution_id, t.ended_at FROM tree t
$$;

-- Roots of trees of which a member got a reference to a result of these trees, some of them more than once.
CREATE OR REPLACE FUNCTION noetl.told_of(p_roots BIGINT[]) RETURNS SETOF BIGINT
LANGUAGE sql STABLE AS $$
    SELECT noetl.root_of(h.execution_id)
    FROM unnest(p_roots) AS r (id) CROSS JOIN LATERAL noetl.tree_of(r.id) t CROSS JOIN LATERAL (
        SELECT h.execution_id FROM noetl.result_hold h WHERE h.held_id = t.execution_id OFFSET 0) h
$$;

-- Whether a member of one of these trees lives, or is about to: an event waits for it.
CREATE OR REPLACE FUNCTION noetl.any_lives(p_roots BIGINT[]) RETURNS BOOLEAN
LANGUAGE sql STABLE AS $$
    SELECT EXISTS (
        SELECT FROM unnest(p_roots) AS r (id) CROSS JOIN LATERAL noetl.tree_of(r.id) t
        WHERE t.ended_at IS NULL OR EXISTS (SELECT FROM noetl.outbox o WHERE o.execution_id = t.execution_id))
$$;

-- Whether an execution of another tree, which lives or is about to, can reach results of this one: it got one, or one of a tree
-- that got one. Step by step: as one recursive query, this made room for as many trees as the planner expected, which was 60 MB and a
-- tenth of a second for each root, although hardly any is held.
CREATE OR REPLACE FUNCTION noetl.tree_is_wanted(root BIGINT) RETURNS BOOLEAN
LANGUAGE plpgsql STABLE AS $$
DECLARE
    looked BIGINT[] := '{}';
    fresh BIGINT[] := ARRAY[root];
BEGIN
    LOOP
        looked := looked || fresh;
        fresh := ARRAY(SELECT noetl.told_of(fresh) EXCEPT SELECT unnest(looked));
        IF cardinality(fresh) = 0 THEN
            RETURN false;
        ELSIF noetl.any_lives(fresh) THEN
            RETURN true;
        END IF;
    END LOOP;
END $$;

-- When a tree of executions was over; NULL while a member runs, something is on its way to one, or another tree can reach its results.
CREATE OR REPLACE FUNCTION noetl.tree_over_at(root BIGINT) RETURNS TIMESTAMPTZ
LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN noetl.tree_is_old(root, 'infinity') AND NOT noetl.tree_is_wanted(root)
        THEN (SELECT max(t.ended_at) FROM noetl.tree_of(root) t) END
$$;

-- What a commit says of results: those that were kept for another time than their execution's ('ref'), and executions whose results an
-- execution got references to ('held'). Parents and children are of one tree and need no row.
CREATE OR REPLACE FUNCTION noetl.note_results(p_after BIGINT, p_results JSON) RETURNS SETOF noetl.answer
LANGUAGE plpgsql AS $$
BEGIN
    IF p_results IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO noetl.result_ref (execution_id, ref, store, step, size, scope, ttl)
    SELECT r.execution, r.ref, r.store, r.step, r.size, r.scope, r.ttl
    FROM json_to_recordset(p_results) AS r (execution BIGINT, ref TEXT, store TEXT, step TEXT, size BIGINT, scope TEXT, ttl FLOAT8)
    WHERE r.ref IS NOT NULL
    ON CONFLICT DO NOTHING;
    INSERT INTO noetl.result_hold (execution_id, held_id)
    SELECT r.execution, r.held FROM json_to_recordset(p_results) AS r (execution BIGINT, held BIGINT)
    WHERE r.held IS NOT NULL
      AND NOT EXISTS (SELECT FROM noetl.execution e WHERE e.execution_id = r.held AND e.parent_execution_id = r.execution)
      AND NOT EXISTS (SELECT FROM noetl.execution e WHERE e.execution_id = r.execution AND e.parent_execution_id = r.held)
    ON CONFLICT DO NOTHING;
END $$;
