-- Starts that were asked for under a key: asking again gives the same execution. fingerprint: what was asked.
CREATE TABLE noetl.idempotency (
    namespace TEXT NOT NULL DEFAULT 'default',
    key TEXT COLLATE "C" NOT NULL CHECK (key <> ''),
    fingerprint TEXT NOT NULL,
    execution_id BIGINT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, key)
);
CREATE INDEX idempotency_age ON noetl.idempotency (created_at);
