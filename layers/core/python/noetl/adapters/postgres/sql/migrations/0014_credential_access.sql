-- Who did what with which secret. Never what is in it.
CREATE TABLE noetl.credential_access (
    id BIGINT PRIMARY KEY CHECK (id > 0),
    namespace TEXT NOT NULL DEFAULT 'default',
    credential_name TEXT COLLATE "C" NOT NULL CHECK (credential_name <> ''),
    action TEXT NOT NULL CHECK (action IN ('kept', 'replaced', 'removed', 'resealed', 'read')),
    principal TEXT NOT NULL,
    execution_id BIGINT,
    step TEXT,
    at TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX credential_access_name ON noetl.credential_access (credential_name, id);
CREATE INDEX credential_access_execution ON noetl.credential_access (execution_id, id) WHERE execution_id IS NOT NULL;
CREATE INDEX credential_access_age ON noetl.credential_access (at);
