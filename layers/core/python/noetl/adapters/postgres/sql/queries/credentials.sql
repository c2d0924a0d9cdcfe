-- Credentials and their cache.

-- name: put_credential
-- Replacing keeps id and age; copies in the cache are of the old data, so they go. Last column: whether it is new.
WITH gone AS (
    DELETE FROM noetl.auth_cache WHERE credential_name = :name
), kept AS (
    INSERT INTO noetl.credential (name, id, type, data_encrypted, meta, principal)
    VALUES (:name, :id::bigint, :type, decode(:sealed, 'base64'), :meta::json, :principal)
    ON CONFLICT (namespace, name) DO UPDATE
    SET type = excluded.type, data_encrypted = excluded.data_encrypted, meta = excluded.meta, principal = excluded.principal,
        version = credential.version + 1, updated_at = now()
    RETURNING *
)
SELECT id, name, type, encode(data_encrypted, 'base64'), meta, principal, version, extract(epoch FROM created_at),
       extract(epoch FROM updated_at), version = 1
FROM kept;

-- name: credential
SELECT id, name, type, encode(data_encrypted, 'base64'), meta, principal, version, extract(epoch FROM created_at),
       extract(epoch FROM updated_at)
FROM noetl.credential WHERE namespace = 'default' AND name = :name;

-- name: credential_by_id
SELECT id, name, type, encode(data_encrypted, 'base64'), meta, principal, version, extract(epoch FROM created_at),
       extract(epoch FROM updated_at)
FROM noetl.credential WHERE id = :id::bigint;

-- name: list_credentials
SELECT id, name, type, encode(data_encrypted, 'base64'), meta, principal, version, extract(epoch FROM created_at),
       extract(epoch FROM updated_at)
FROM noetl.credential
WHERE namespace = 'default' AND name > :after AND (:type = '' OR type = :type)
ORDER BY name LIMIT :limit::bigint;

-- name: delete_credential
WITH gone AS (
    DELETE FROM noetl.auth_cache WHERE credential_name = :name
)
DELETE FROM noetl.credential WHERE namespace = 'default' AND name = :name RETURNING 1;

-- name: cached_credential
-- A hit is counted; renew moves its expiry unless it is null.
UPDATE noetl.auth_cache
SET access_count = access_count + 1, accessed_at = now(),
    expires_at = coalesce(now() + :renew::double precision * interval '1 second', expires_at)
WHERE cache_key = :key AND expires_at > now()
RETURNING cache_key, credential_name, credential_type, cache_type, scope_type, encode(data_encrypted, 'base64'), execution_id,
          parent_execution_id, extract(epoch FROM expires_at - now()), access_count;

-- name: cache_credential
INSERT INTO noetl.auth_cache (cache_key, credential_name, credential_type, cache_type, scope_type, execution_id, parent_execution_id,
                              data_encrypted, expires_at)
VALUES (:key, :name, :type, :cache_type, :scope, :execution_id::bigint, :parent::bigint, decode(:sealed, 'base64'),
        now() + :seconds::double precision * interval '1 second')
ON CONFLICT (cache_key) DO UPDATE
SET credential_type = excluded.credential_type, cache_type = excluded.cache_type, data_encrypted = excluded.data_encrypted,
    expires_at = excluded.expires_at, accessed_at = now(), access_count = auth_cache.access_count + 1;

-- name: forget_cached_execution
WITH gone AS (DELETE FROM noetl.auth_cache WHERE execution_id = :execution_id::bigint RETURNING 1)
SELECT count(*) FROM gone;

-- name: forget_expired_credentials
WITH old AS (SELECT cache_key FROM noetl.auth_cache WHERE expires_at <= now() ORDER BY expires_at LIMIT :limit::bigint),
     gone AS (DELETE FROM noetl.auth_cache a USING old WHERE a.cache_key = old.cache_key RETURNING 1)
SELECT count(*) FROM gone;
