-- Where results of earlier calls are.

-- name: cached_result
SELECT entry::text FROM noetl.task_cache WHERE key = :key;

-- name: keep_cached_result
-- The latest entry of a key wins. A few of those whose time is over go with it, so that the table holds what may be used.
WITH over AS (
    DELETE FROM noetl.task_cache c USING (
        SELECT key FROM noetl.task_cache WHERE expires_at < to_timestamp(:at::float8) AND key <> :key
        ORDER BY expires_at LIMIT 20 FOR UPDATE SKIP LOCKED
    ) old WHERE c.key = old.key
)
INSERT INTO noetl.task_cache AS c (key, entry, expires_at)
VALUES (:key, :entry::json, to_timestamp(:until::float8))
ON CONFLICT (key) DO UPDATE SET entry = excluded.entry, expires_at = excluded.expires_at;
