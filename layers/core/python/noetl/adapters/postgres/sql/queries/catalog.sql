-- Playbooks by path and version.

-- name: register_playbook
-- The latest version when nothing changed (under the name its source has now), else a new one. Of two that register at once, one
-- violates the key and asks again. With if_version, a new one follows that version alone (0: none); the latest one is the answer otherwise.
WITH latest AS MATERIALIZED (
    SELECT * FROM noetl.catalog WHERE namespace = 'default' AND path = :path ORDER BY version DESC LIMIT 1
), made AS (
    INSERT INTO noetl.catalog (path, version, name, program, content, source_name, rewritten)
    SELECT :path, coalesce((SELECT version FROM latest), 0) + 1, :name, :program, :content, :source_name, :rewritten
    WHERE NOT EXISTS (SELECT FROM latest WHERE content = :content AND program = :program)
      AND :if_version::bigint IS NOT DISTINCT FROM CASE WHEN :if_version::bigint IS NOT NULL THEN coalesce((SELECT version FROM latest), 0) END
    RETURNING *
), moved AS (
    UPDATE noetl.catalog c SET source_name = :source_name FROM latest
    WHERE c.namespace = 'default' AND c.path = latest.path AND c.version = latest.version
      AND latest.content = :content AND latest.program = :program AND latest.source_name <> :source_name
    RETURNING c.*
), entry AS (
    SELECT * FROM made UNION ALL SELECT * FROM moved
)
SELECT path, version, name, program, content, source_name, extract(epoch FROM created_at), rewritten FROM entry
UNION ALL
SELECT path, version, name, program, content, source_name, extract(epoch FROM created_at), rewritten FROM latest
WHERE NOT EXISTS (SELECT FROM entry);

-- name: playbook
-- A version, or (0) the latest.
SELECT path, version, name, program, content, source_name, extract(epoch FROM created_at), rewritten FROM noetl.catalog
WHERE namespace = 'default' AND path = :path AND (:version::bigint = 0 OR version = :version::bigint)
ORDER BY version DESC LIMIT 1;

-- name: playbook_programs
-- Of each path a version, or (0) the latest, without its text; a row of NULLs where there is none.
SELECT c.path, c.version, c.program
FROM unnest(:paths::text[], :versions::bigint[]) WITH ORDINALITY AS asked (path, version, place)
LEFT JOIN LATERAL (
    SELECT k.path, k.version, k.program FROM noetl.catalog k
    WHERE k.namespace = 'default' AND k.path = asked.path AND (asked.version = 0 OR k.version = asked.version)
    ORDER BY k.version DESC LIMIT 1
) c ON true
ORDER BY asked.place;

-- name: playbook_versions
-- Newest first.
SELECT path, version, name, program, content, source_name, extract(epoch FROM created_at), rewritten FROM noetl.catalog
WHERE namespace = 'default' AND path = :path AND version < :before::bigint
ORDER BY version DESC LIMIT :limit::bigint;

-- name: playbook_by_program
-- Of several with the same text the one whose file is on this machine, and of those the newest.
SELECT path, version, name, program, content, source_name, extract(epoch FROM created_at), rewritten FROM noetl.catalog
WHERE program = :program ORDER BY source_name LIKE '/%' DESC, created_at DESC, path, version DESC LIMIT 1;

-- part: paths
-- Paths after a path, found by skipping from path to path; the last one is NULL.
    (SELECT path FROM noetl.catalog WHERE namespace = 'default' AND path > :after ORDER BY path LIMIT 1)
    UNION ALL
    SELECT (SELECT c.path FROM noetl.catalog c WHERE namespace = 'default' AND c.path > p.path
            ORDER BY c.path LIMIT 1)
    FROM paths p WHERE p.path IS NOT NULL

-- name: list_playbooks
-- Latest version of each path after a path.
WITH RECURSIVE paths AS (
    @paths
)
SELECT c.path, c.version, c.name, c.program, c.content, c.source_name, extract(epoch FROM c.created_at), c.rewritten
FROM (SELECT path FROM paths WHERE path IS NOT NULL LIMIT :limit::bigint) p
CROSS JOIN LATERAL (
    SELECT * FROM noetl.catalog c WHERE c.namespace = 'default' AND c.path = p.path ORDER BY c.version DESC LIMIT 1
) c;

-- name: playbooks_calling
-- Latest versions whose text may call playbooks, without it, those that have a path in it first. The work is that of one look at the
-- latest text of each playbook.
WITH RECURSIVE paths AS (
    @paths
)
SELECT c.path, c.version, c.program FROM paths p
CROSS JOIN LATERAL (
    SELECT * FROM noetl.catalog c WHERE c.namespace = 'default' AND c.path = p.path ORDER BY c.version DESC LIMIT 1
) c
WHERE p.path IS NOT NULL AND (c.content LIKE '%playbook%' OR c.rewritten LIKE '%playbook%')
ORDER BY position(:path IN c.content) = 0 AND position(:path IN c.rewritten) = 0, c.path LIMIT :limit::bigint;
