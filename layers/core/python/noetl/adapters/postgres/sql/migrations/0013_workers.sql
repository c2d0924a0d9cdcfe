-- Workers that fetch their commands over HTTP. What each has taken says the owner of a command (domain/workers/lease_owners.py).
CREATE TABLE noetl.worker (
    namespace TEXT NOT NULL DEFAULT 'default',
    name TEXT COLLATE "C" NOT NULL CHECK (name <> ''),
    pool TEXT COLLATE "C" NOT NULL CHECK (pool ~ '^[a-z][a-z0-9_-]{0,31}$'),
    capacity INTEGER NOT NULL CHECK (capacity BETWEEN 1 AND 1000),
    principal TEXT NOT NULL,
    registered_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    seen_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (namespace, name)
);
CREATE INDEX worker_seen ON noetl.worker (seen_at);
