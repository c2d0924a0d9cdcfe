-- leaving_at: it ended long ago, and is being removed: nobody redrives it any more.
ALTER TABLE noetl.execution ADD COLUMN leaving_at TIMESTAMPTZ;
CREATE INDEX execution_ended ON noetl.execution (ended_at) WHERE ended_at IS NOT NULL AND parent_execution_id IS NULL;
CREATE INDEX idempotency_execution ON noetl.idempotency (execution_id);
CREATE INDEX schedule_moment_age ON noetl.schedule_moment (at);

-- What starts a playbook when something happens, made while the system runs. source: what is watched. payload: what the workload is made
-- of (null: the event). event_key: a template that tells one happening from another. generation: of the address of a webhook.
CREATE TABLE noetl.trigger (
    namespace TEXT NOT NULL DEFAULT 'default',
    name TEXT COLLATE "C" NOT NULL CHECK (name ~ '^[A-Za-z0-9_.-]{1,48}$'),
    kind TEXT NOT NULL CHECK (kind IN ('s3', 'eventbridge', 'sqs', 'webhook', 'file')),
    path TEXT COLLATE "C" NOT NULL CHECK (path <> ''),
    version INTEGER CHECK (version > 0),
    source JSON NOT NULL,
    payload JSON,
    event_key TEXT NOT NULL DEFAULT '',
    enabled BOOLEAN NOT NULL,
    generation INTEGER NOT NULL DEFAULT 1 CHECK (generation > 0),
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    last_at TIMESTAMPTZ,
    last_execution BIGINT,
    last_error TEXT NOT NULL DEFAULT '',
    fired BIGINT NOT NULL DEFAULT 0,
    failed BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (namespace, name)
);
