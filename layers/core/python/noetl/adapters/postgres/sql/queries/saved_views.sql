-- Filters of the web UI's pages that people keep by name.

-- name: put_saved_view
-- A page that is full keeps what it has: those who save at the same moment may exceed the bound by as many.
INSERT INTO noetl.saved_view AS v (page, name, search, principal)
SELECT :page::text, :name::text, :search::json, :principal::text
WHERE (SELECT count(*) FROM noetl.saved_view WHERE namespace = 'default' AND page = :page::text AND name <> :name::text) < :most::bigint
ON CONFLICT (namespace, page, name) DO UPDATE SET
    search = excluded.search, principal = excluded.principal, saved_at = clock_timestamp()
RETURNING page, name, search, principal, extract(epoch FROM saved_at);

-- name: saved_views
SELECT page, name, search, principal, extract(epoch FROM saved_at)
FROM noetl.saved_view WHERE namespace = 'default' AND page = :page::text
ORDER BY name;

-- name: delete_saved_view
DELETE FROM noetl.saved_view WHERE namespace = 'default' AND page = :page::text AND name = :name::text RETURNING name;
