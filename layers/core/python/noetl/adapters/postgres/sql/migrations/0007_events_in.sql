-- Events that came in together, kept until they are handled. messages: what each says, as queues carry it; told: what became of each.
CREATE TABLE noetl.event_batch (
    batch_id BIGINT PRIMARY KEY CHECK (batch_id > 0),
    namespace TEXT NOT NULL DEFAULT 'default',
    key TEXT COLLATE "C" CHECK (key <> ''),
    fingerprint TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'accepted' CHECK (status IN ('accepted', 'processing', 'completed', 'failed')),
    total INTEGER NOT NULL CHECK (total > 0),
    principal TEXT NOT NULL DEFAULT '',
    messages JSON,
    told JSON,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    taken_at TIMESTAMPTZ,
    ended_at TIMESTAMPTZ,
    UNIQUE (namespace, key),
    CHECK ((messages IS NULL) = (status IN ('completed', 'failed'))),
    CHECK ((told IS NOT NULL) = (status IN ('completed', 'failed')))
);
CREATE INDEX event_batch_open ON noetl.event_batch (created_at) WHERE status IN ('accepted', 'processing');
CREATE INDEX event_batch_age ON noetl.event_batch (ended_at) WHERE ended_at IS NOT NULL;
