-- Large results that live differently from their execution, whose results live as long as it does and have no rows here. ttl: seconds after
-- the tree of the execution is over (NULL: for ever, scope permanent). leaving_at: being removed; the row goes after the object.
CREATE TABLE noetl.result_ref (
    execution_id BIGINT NOT NULL,
    ref TEXT COLLATE "C" NOT NULL CHECK (ref <> ''),
    store TEXT NOT NULL,
    step TEXT NOT NULL DEFAULT '',
    size BIGINT NOT NULL DEFAULT 0 CHECK (size >= 0),
    scope TEXT NOT NULL CHECK (scope IN ('step', 'execution', 'workflow', 'permanent')),
    ttl FLOAT8 CHECK (ttl >= 0),
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    leaving_at TIMESTAMPTZ,
    PRIMARY KEY (execution_id, ref),
    CHECK ((ttl IS NULL) = (scope = 'permanent'))
);
CREATE INDEX result_ref_expiring ON noetl.result_ref (execution_id) WHERE scope <> 'permanent';
CREATE INDEX result_ref_permanent ON noetl.result_ref (created_at) WHERE scope = 'permanent';

-- What an execution knows of results of another tree: nothing of held_id's tree goes while somebody lives who can reach it.
CREATE TABLE noetl.result_hold (
    execution_id BIGINT NOT NULL,
    held_id BIGINT NOT NULL,
    PRIMARY KEY (execution_id, held_id)
);
CREATE INDEX result_hold_held ON noetl.result_hold (held_id);
