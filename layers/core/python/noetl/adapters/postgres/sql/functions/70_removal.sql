-- How a tree of executions is claimed for removal.
--
-- The row of its root decides between a removal and a redrive of any member: a removal locks it FOR UPDATE and sets leaving_at, a redrive
-- locks it FOR SHARE while it posts its event (queries post_event, post_events). The first to have the lock wins; the other sees what
-- it did, because a claim looks at the tree again, in a statement of its own, after it has the lock. A root that is leaving stays so.

-- Roots of trees that may go: those whose removal has begun, then those that ended before then as a whole, the oldest first. By index, in
-- whose order no more trees are looked at than are wanted: a plan that sorts looks at all of them.
CREATE OR REPLACE FUNCTION noetl.old_roots(p_before TIMESTAMPTZ, p_limit BIGINT) RETURNS SETOF BIGINT
LANGUAGE sql STABLE SET enable_sort = off SET enable_bitmapscan = off AS $$
    SELECT r.execution_id FROM (
        (SELECT e.execution_id, 0 AS rank, e.leaving_at AS since FROM noetl.execution e
         WHERE e.leaving_at IS NOT NULL AND e.parent_execution_id IS NULL
         ORDER BY e.leaving_at LIMIT p_limit)
        UNION ALL
        (SELECT e.execution_id, 1, e.ended_at FROM noetl.execution e
         WHERE e.parent_execution_id IS NULL AND e.ended_at < p_before AND e.leaving_at IS NULL
           AND noetl.tree_is_old(e.execution_id, p_before) AND NOT noetl.tree_is_wanted(e.execution_id)
         ORDER BY e.ended_at LIMIT p_limit)
    ) r ORDER BY r.rank, r.since LIMIT p_limit
$$;

-- The next children of an execution, in the order of their ids. The bounds name parent and id as a pair, and so does the order, because
-- only the index execution_parent has that order. With "parent = … ORDER BY id" the primary key has the right order too: statistics that
-- know a few large families make the planner read every execution behind p_after by it, once for each member.
CREATE OR REPLACE FUNCTION noetl.children_after(p_parent BIGINT, p_after BIGINT, p_limit BIGINT) RETURNS SETOF BIGINT
LANGUAGE sql STABLE SET enable_sort = off SET enable_bitmapscan = off AS $$
    SELECT c.execution_id FROM noetl.execution c
    WHERE (c.parent_execution_id, c.execution_id) > (p_parent, p_after) AND c.parent_execution_id <= p_parent
    ORDER BY c.parent_execution_id, c.execution_id LIMIT p_limit
$$;

-- Members of trees, each after all that it started. The walk ends with the last member that is wanted, so that a batch costs the same in a
-- tree of any size.
CREATE OR REPLACE FUNCTION noetl.leaves_first(p_roots BIGINT[], p_limit BIGINT) RETURNS TABLE (execution_id BIGINT, depth INTEGER)
LANGUAGE plpgsql STABLE AS $$
DECLARE
    -- What is still to be returned, the next one last: its id, how far it is below its root, and the last child that was looked at.
    members BIGINT[];
    depths INTEGER[];
    afters BIGINT[];
    top INTEGER;
    children BIGINT[];
    remaining BIGINT := p_limit;
BEGIN
    SELECT coalesce(array_agg(r.id ORDER BY r.place DESC), '{}') INTO members FROM unnest(p_roots) WITH ORDINALITY AS r (id, place);
    top := cardinality(members);
    depths := array_fill(0, ARRAY[top]);
    afters := array_fill(0::bigint, ARRAY[top]);
    WHILE top > 0 AND remaining > 0 LOOP
        children := ARRAY(SELECT noetl.children_after(members[top], afters[top], remaining));
        execution_id := members[top];
        depth := depths[top];
        IF cardinality(children) = 0 THEN
            RETURN NEXT;
            remaining := remaining - 1;
            top := top - 1;
        ELSE
            afters[top] := children[cardinality(children)];
            FOR place IN REVERSE cardinality(children)..1 LOOP
                top := top + 1;
                members[top] := children[place];
                depths[top] := depth + 1;
                afters[top] := 0;
            END LOOP;
        END IF;
    END LOOP;
END $$;

CREATE OR REPLACE FUNCTION noetl.claim_old_trees(p_before TIMESTAMPTZ, p_limit BIGINT) RETURNS SETOF BIGINT
LANGUAGE plpgsql AS $$
DECLARE
    roots BIGINT[];
BEGIN
    -- What is redriven at this moment is locked, and left out.
    SELECT coalesce(array_agg(l.execution_id), '{}') INTO roots FROM (
        SELECT e.execution_id FROM noetl.execution e
        WHERE e.execution_id = ANY(ARRAY(SELECT noetl.old_roots(p_before, p_limit)))
        ORDER BY e.execution_id FOR UPDATE SKIP LOCKED
    ) l;
    UPDATE noetl.execution e SET leaving_at = clock_timestamp()
    WHERE e.execution_id = ANY(roots) AND e.leaving_at IS NULL
      AND noetl.tree_is_old(e.execution_id, p_before) AND NOT noetl.tree_is_wanted(e.execution_id);
    SELECT coalesce(array_agg(e.execution_id), '{}') INTO roots FROM noetl.execution e
    WHERE e.execution_id = ANY(roots) AND e.leaving_at IS NOT NULL;
    RETURN QUERY WITH picked AS MATERIALIZED (
        SELECT m.execution_id, m.depth FROM noetl.leaves_first(roots, p_limit) m
    ), marked AS (
        UPDATE noetl.execution e SET leaving_at = clock_timestamp()
        FROM picked p WHERE e.execution_id = p.execution_id AND e.leaving_at IS NULL
    )
    SELECT p.execution_id FROM picked p ORDER BY p.depth DESC, p.execution_id;
END $$;

-- Of the next executions (in the order of their ids) that have results with a time of their own: those results whose time is over are
-- marked, and returned, together with those that were marked before. Rows: the last execution looked at (returned first), then execution,
-- reference and store. The roots are locked, so that no member is redriven while its results are marked.
CREATE OR REPLACE FUNCTION noetl.claim_expired_results(p_now TIMESTAMPTZ, p_after BIGINT, p_limit BIGINT)
RETURNS TABLE (execution_id BIGINT, ref TEXT, store TEXT)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    owners BIGINT[];
    roots BIGINT[];
BEGIN
    WITH RECURSIVE walk AS (
        (SELECT r.execution_id AS id, 1 AS place FROM noetl.result_ref r
         WHERE r.scope <> 'permanent' AND r.execution_id > p_after ORDER BY r.execution_id LIMIT 1)
        UNION ALL
        SELECT (SELECT r.execution_id FROM noetl.result_ref r
                WHERE r.scope <> 'permanent' AND r.execution_id > w.id ORDER BY r.execution_id LIMIT 1), w.place + 1
        FROM walk w WHERE w.id IS NOT NULL AND w.place < p_limit
    ) SELECT coalesce(array_agg(w.id), '{}') INTO owners FROM walk w WHERE w.id IS NOT NULL;
    RETURN QUERY SELECT max(o.id), NULL::text, NULL::text FROM unnest(owners) AS o (id);
    SELECT coalesce(array_agg(l.execution_id), '{}') INTO roots FROM (
        SELECT e.execution_id FROM noetl.execution e
        WHERE e.execution_id = ANY(ARRAY(SELECT noetl.root_of(o.id) FROM unnest(owners) AS o (id))) AND e.ended_at IS NOT NULL
        ORDER BY e.execution_id FOR UPDATE SKIP LOCKED
    ) l;
    RETURN QUERY WITH over AS MATERIALIZED (
        SELECT o.id, CASE WHEN r.root = ANY(roots) THEN noetl.tree_over_at(r.root) END AS at
        FROM unnest(owners) AS o (id) CROSS JOIN LATERAL (SELECT noetl.root_of(o.id) AS root) r
        JOIN noetl.execution e ON e.execution_id = o.id AND e.ended_at IS NOT NULL
    )
    UPDATE noetl.result_ref r SET leaving_at = coalesce(r.leaving_at, clock_timestamp())
    FROM over v
    WHERE r.execution_id = v.id AND r.scope <> 'permanent'
      AND (r.leaving_at IS NOT NULL OR v.at + make_interval(secs => r.ttl) <= p_now)
    RETURNING r.execution_id, r.ref, r.store;
END $$;
