-- Priorities, and slots and moments that executions share by key.

ALTER TABLE noetl.command ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
DROP INDEX noetl.command_owner;
CREATE INDEX command_owner ON noetl.command (owner, priority DESC, id) WHERE NOT waiting;
ALTER TABLE noetl.loop ADD COLUMN limits JSON, ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;

CREATE TABLE noetl.limit_key (
    namespace TEXT NOT NULL DEFAULT 'default',
    key TEXT COLLATE "C" NOT NULL CHECK (key <> ''),
    concurrent INTEGER CHECK (concurrent >= 0),
    rate FLOAT8 CHECK (rate > 0),
    per FLOAT8 NOT NULL DEFAULT 1 CHECK (per > 0),
    burst INTEGER NOT NULL DEFAULT 1 CHECK (burst > 0),
    declared BOOLEAN NOT NULL,
    tat TIMESTAMPTZ,
    principal TEXT NOT NULL DEFAULT '',
    updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, key)
);

CREATE TABLE noetl.limit_use (
    execution_id BIGINT NOT NULL,
    command_id TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL CHECK (key <> ''),
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    step TEXT NOT NULL DEFAULT '',
    concurrent INTEGER CHECK (concurrent > 0),
    rate FLOAT8 CHECK (rate > 0),
    per FLOAT8 NOT NULL DEFAULT 1 CHECK (per > 0),
    burst INTEGER NOT NULL DEFAULT 1 CHECK (burst > 0),
    priority INTEGER NOT NULL DEFAULT 0,
    held BOOLEAN NOT NULL DEFAULT false,
    queued BOOLEAN NOT NULL DEFAULT false,
    since TIMESTAMPTZ NOT NULL,
    PRIMARY KEY (execution_id, command_id, key),
    CHECK (NOT (held AND queued))
);
CREATE INDEX limit_use_held ON noetl.limit_use (key, since) WHERE held;
CREATE INDEX limit_use_queued ON noetl.limit_use (key, priority DESC, id) WHERE queued;
