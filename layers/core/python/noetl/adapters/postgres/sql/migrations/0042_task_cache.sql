-- Where results of earlier calls are, for tasks with a cache. Only the reference is here: the result belongs to its execution.
CREATE TABLE noetl.task_cache (
    key TEXT COLLATE "C" PRIMARY KEY,
    entry JSON NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX task_cache_expires ON noetl.task_cache (expires_at);
