-- Credentials and their cache.

-- name: put_credential
-- Replacing keeps id and age; copies in the cache are of the old data, so they go (cached_credential passes over one that is written
-- at this moment: it is older). Last column: whether it is new.
WITH gone AS (
    DELETE FROM noetl.auth_cache WHERE credential_name = :name
), kept AS (
    INSERT INTO noetl.credential (name, id, type, data_encrypted, meta, principal)
    VALUES (:name, :id::bigint, :type, decode(:sealed, 'base64'), :meta::json, :principal)
    ON CONFLICT (namespace, name) DO UPDATE
    SET type = excluded.type, data_encrypted = excluded.data_encrypted, meta = excluded.meta, principal = excluded.principal,
        version = credential.version + 1, updated_at = clock_timestamp()
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
-- A hit is counted; renew moves the expiry of a secret, unless it is null. A copy of data that was replaced or removed since is none.
UPDATE noetl.auth_cache a
SET access_count = a.access_count + 1, accessed_at = now(),
    expires_at = CASE WHEN a.cache_type = 'secret' THEN coalesce(now() + :renew::double precision * interval '1 second', a.expires_at)
                      ELSE a.expires_at END
FROM noetl.credential c
WHERE a.cache_key = :key AND a.expires_at > now()
  AND c.namespace = 'default' AND c.name = a.credential_name AND c.updated_at <= a.created_at
RETURNING a.cache_key, a.credential_name, a.credential_type, a.cache_type, a.scope_type, encode(a.data_encrypted, 'base64'),
          a.execution_id, a.parent_execution_id, extract(epoch FROM a.expires_at - now()), a.access_count;

-- name: cache_credential
-- Only while the credential is what was copied. A replacement waits for this, and is later than created_at then.
WITH copied AS (
    SELECT c.name FROM noetl.credential c
    WHERE c.namespace = 'default' AND c.name = :name AND c.version = :version::integer FOR SHARE
)
INSERT INTO noetl.auth_cache (cache_key, credential_name, credential_type, cache_type, scope_type, execution_id, parent_execution_id,
                              data_encrypted, expires_at)
SELECT :key, copied.name, :type, :cache_type, :scope, :execution_id::bigint, :parent::bigint, decode(:sealed, 'base64'),
       now() + :seconds::double precision * interval '1 second'
FROM copied
ON CONFLICT (cache_key) DO UPDATE
SET credential_type = excluded.credential_type, cache_type = excluded.cache_type, data_encrypted = excluded.data_encrypted,
    expires_at = excluded.expires_at, created_at = now(), accessed_at = now(), access_count = auth_cache.access_count + 1;

-- name: credential_types
SELECT c.name, c.type FROM noetl.credential c
WHERE c.namespace = 'default' AND c.name = ANY(:names::text[]);

-- name: forget_cached_execution
WITH gone AS (DELETE FROM noetl.auth_cache WHERE execution_id = :execution_id::bigint RETURNING 1)
SELECT count(*) FROM gone;

-- name: record_credential_access
INSERT INTO noetl.credential_access (id, credential_name, action, principal, execution_id, step)
VALUES (:id::bigint, :name, :action, :principal, :execution_id::bigint, :step);

-- name: credential_accesses
-- Newest first; before is an id.
SELECT id, credential_name, action, principal, execution_id, step, extract(epoch FROM at)
FROM noetl.credential_access
WHERE (:before::bigint = 0 OR id < :before::bigint) AND (:name = '' OR credential_name = :name)
  AND (:execution_id::bigint IS NULL OR execution_id = :execution_id::bigint)
ORDER BY id DESC LIMIT :limit::bigint;

-- name: forget_credential_accesses
WITH old AS (SELECT id FROM noetl.credential_access WHERE at < now() - :seconds::double precision * interval '1 second'
             ORDER BY at LIMIT :limit::bigint),
     gone AS (DELETE FROM noetl.credential_access a USING old WHERE a.id = old.id RETURNING 1)
SELECT count(*) FROM gone;

-- name: forget_expired_credentials
WITH old AS (SELECT cache_key FROM noetl.auth_cache WHERE expires_at <= now() ORDER BY expires_at LIMIT :limit::bigint),
     gone AS (DELETE FROM noetl.auth_cache a USING old WHERE a.cache_key = old.cache_key RETURNING 1)
SELECT count(*) FROM gone;

-- name: reseal_credential
UPDATE noetl.credential SET data_encrypted = decode(:sealed, 'base64')
WHERE namespace = 'default' AND name = :name AND version = :version::integer
RETURNING 1;
