-- Large results that are kept in this database: the tiers kv and db. An object is there when its row in result_object is; its bytes lie in
-- parts, which are found by the object's content, so that somebody who dies while he writes leaves nothing that could be read.
CREATE TABLE noetl.result_object (
    execution_id BIGINT NOT NULL,
    store TEXT COLLATE "C" NOT NULL CHECK (store IN ('kv', 'db')),
    key TEXT COLLATE "C" NOT NULL CHECK (key ~ '^[0-9a-f]{64}$'),
    content UUID NOT NULL,
    parts INTEGER NOT NULL CHECK (parts >= 0),
    size BIGINT NOT NULL CHECK (size >= 0),
    sha256 TEXT COLLATE "C" NOT NULL CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (execution_id, store, key)
);

CREATE TABLE noetl.result_part (
    execution_id BIGINT NOT NULL,
    store TEXT COLLATE "C" NOT NULL CHECK (store IN ('kv', 'db')),
    content UUID NOT NULL,
    part INTEGER NOT NULL CHECK (part >= 0),
    data BYTEA NOT NULL CHECK (octet_length(data) <= 524288),
    PRIMARY KEY (execution_id, store, content, part)
);
