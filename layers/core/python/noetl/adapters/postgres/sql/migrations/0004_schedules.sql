-- What starts by itself. declared: its playbook says so. anchor_at: when its timing was set; rates count from it.
CREATE TABLE noetl.schedule (
    namespace TEXT NOT NULL DEFAULT 'default',
    name TEXT COLLATE "C" NOT NULL CHECK (name ~ '^[A-Za-z0-9_.-]{1,64}$'),
    path TEXT COLLATE "C" NOT NULL CHECK (path <> ''),
    version INTEGER CHECK (version > 0),
    cron TEXT,
    rate TEXT,
    timezone TEXT NOT NULL,
    payload JSON NOT NULL,
    enabled BOOLEAN NOT NULL,
    paused BOOLEAN NOT NULL DEFAULT false,
    declared BOOLEAN NOT NULL,
    anchor_at TIMESTAMPTZ NOT NULL,
    next_at TIMESTAMPTZ,
    last_at TIMESTAMPTZ,
    last_execution BIGINT,
    last_error TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (namespace, name),
    CHECK (num_nonnulls(cron, rate) = 1)
);
CREATE INDEX schedule_due ON noetl.schedule (next_at) WHERE enabled AND NOT paused;
CREATE INDEX schedule_path ON noetl.schedule (namespace, path) WHERE declared;
