-- Secrets, sealed: data_encrypted is opaque to the database.
CREATE TABLE noetl.credential (
    namespace TEXT NOT NULL DEFAULT 'default',
    name TEXT COLLATE "C" NOT NULL CHECK (name <> ''),
    id BIGINT NOT NULL UNIQUE CHECK (id > 0),
    type TEXT NOT NULL CHECK (type <> ''),
    data_encrypted BYTEA NOT NULL,
    meta JSON NOT NULL,
    principal TEXT NOT NULL DEFAULT '',
    version INTEGER NOT NULL DEFAULT 1 CHECK (version > 0),
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, name)
);

CREATE TABLE noetl.auth_cache (
    cache_key TEXT PRIMARY KEY,
    credential_name TEXT NOT NULL,
    credential_type TEXT NOT NULL,
    cache_type TEXT NOT NULL CHECK (cache_type IN ('secret', 'token')),
    scope_type TEXT NOT NULL CHECK (scope_type IN ('execution', 'global')),
    execution_id BIGINT,
    parent_execution_id BIGINT,
    data_encrypted BYTEA NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    accessed_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    access_count INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX auth_cache_name ON noetl.auth_cache (credential_name);
CREATE INDEX auth_cache_execution ON noetl.auth_cache (execution_id) WHERE execution_id IS NOT NULL;
CREATE INDEX auth_cache_expiry ON noetl.auth_cache (expires_at);
