-- The tables of an engine: what is to be run (catalog), what runs (execution, slot, event) and what is outstanding
-- (command, loop, timer, outbox, runtime).
--
-- Values of playbooks are json, never jsonb: NUL escapes, lone surrogates, key order and 23-digit integers survive as they are.
-- Only transient holds jsonb, because that is its published shape; what jsonb refuses is replaced by U+FFFD there.
-- '' means no owner (so that one index answers "whose?"). Keys that are paged through are ordered by bytes (COLLATE "C").

CREATE TABLE noetl.catalog (
    namespace TEXT NOT NULL DEFAULT 'default',
    path TEXT COLLATE "C" NOT NULL CHECK (path <> ''),
    version INTEGER NOT NULL CHECK (version > 0),
    name TEXT NOT NULL,
    program TEXT NOT NULL,
    content TEXT NOT NULL,
    source_name TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    rewritten TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (namespace, path, version)
);
CREATE INDEX catalog_program ON noetl.catalog (program);

-- leaving_at: it ended long ago, and is being removed, for good. A tree of executions is being removed when its root is. awaited_by: the run of
-- the parent that waits for this execution; NULL when none does. leads_on: something below it may be live although it has ended.
CREATE TABLE noetl.execution (
    execution_id BIGINT PRIMARY KEY CHECK (execution_id > 0),
    namespace TEXT NOT NULL DEFAULT 'default',
    path TEXT NOT NULL,
    name TEXT NOT NULL,
    playbook_version TEXT NOT NULL DEFAULT '',
    parent_execution_id BIGINT,
    principal TEXT NOT NULL DEFAULT '',
    program TEXT NOT NULL DEFAULT '',
    status TEXT NOT NULL DEFAULT 'running'
        CHECK (status IN ('running', 'paused', 'completed', 'failed', 'cancelled')),
    version BIGINT NOT NULL DEFAULT 0 CHECK (version >= 0),
    state JSON,
    started_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    ended_at TIMESTAMPTZ,
    leaving_at TIMESTAMPTZ,
    awaited_by BIGINT,
    leads_on BOOLEAN NOT NULL DEFAULT false,
    labels TEXT[],
    CHECK ((state IS NULL) = (version = 0)),
    CHECK ((ended_at IS NOT NULL) = (status IN ('completed', 'failed', 'cancelled')))
) WITH (fillfactor = 60);
CREATE INDEX execution_ended ON noetl.execution (ended_at) WHERE ended_at IS NOT NULL AND parent_execution_id IS NULL;
CREATE INDEX execution_leaving ON noetl.execution (leaving_at) WHERE leaving_at IS NOT NULL AND parent_execution_id IS NULL;
CREATE INDEX execution_parent ON noetl.execution (parent_execution_id, execution_id) WHERE parent_execution_id IS NOT NULL;
CREATE INDEX execution_child_live ON noetl.execution (parent_execution_id) WHERE ended_at IS NULL AND parent_execution_id IS NOT NULL;
CREATE INDEX execution_labels ON noetl.execution USING gin (labels) WHERE labels IS NOT NULL;
CREATE INDEX execution_leading ON noetl.execution (parent_execution_id) WHERE leads_on AND parent_execution_id IS NOT NULL;

CREATE TABLE noetl.slot (
    execution_id BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    scope TEXT COLLATE "C" NOT NULL,
    value JSON NOT NULL,
    PRIMARY KEY (execution_id, name, scope)
) WITH (fillfactor = 80);
CREATE INDEX slot_of_run ON noetl.slot (execution_id, scope) WHERE scope IN ('args', 'undo');
CREATE INDEX slot_callback ON noetl.slot (execution_id, name) WHERE scope = 'callback';

-- lane 0: the main lane, where seq is the place. lane > 0: the run number of a loop, where seq is the item. lane -1: too late.
-- Maintenance makes partitions ahead where executions are kept for a time, and drops them (functions/80_history.sql).
CREATE TABLE noetl.event (
    execution_id BIGINT NOT NULL,
    event_id TEXT COLLATE "C" NOT NULL CHECK (event_id <> ''),
    lane BIGINT NOT NULL CHECK (lane >= -1),
    seq BIGINT NOT NULL CHECK (seq >= 0),
    type TEXT NOT NULL,
    at TIMESTAMPTZ NOT NULL,
    facts JSON NOT NULL,
    PRIMARY KEY (execution_id, event_id)
) PARTITION BY RANGE (execution_id);
CREATE TABLE noetl.event_0 PARTITION OF noetl.event FOR VALUES FROM (MINVALUE) TO (MAXVALUE) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE UNIQUE INDEX event_main ON noetl.event (execution_id, seq) WHERE lane = 0;
CREATE INDEX event_item ON noetl.event (execution_id, lane, seq) WHERE lane <> 0;
CREATE INDEX event_failed_item ON noetl.event (execution_id, lane, seq) WHERE lane > 0 AND type = 'call.error';

-- round >= 0: a command of a loop. It answers for items first <= i < past; remaining of them are not accounted for yet. Collection and
-- scope are the loop's, and a fresh chunk has no payload at all. remote: its work is in another system.
CREATE TABLE noetl.command (
    execution_id BIGINT NOT NULL,
    command_id TEXT COLLATE "C" NOT NULL CHECK (command_id <> ''),
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    run BIGINT NOT NULL,
    round INTEGER NOT NULL DEFAULT -1 CHECK (round >= -1),
    attempt INTEGER NOT NULL DEFAULT 1 CHECK (attempt > 0),
    turn INTEGER NOT NULL DEFAULT 0 CHECK (turn >= 0),
    waiting BOOLEAN NOT NULL DEFAULT false,
    owner TEXT COLLATE "C" NOT NULL DEFAULT '',
    not_before TIMESTAMPTZ NOT NULL,
    first INTEGER NOT NULL DEFAULT 0,
    past INTEGER NOT NULL DEFAULT 0,
    remaining INTEGER NOT NULL DEFAULT 0,
    payload JSON,
    child JSON,
    priority INTEGER NOT NULL DEFAULT 0,
    remote BOOLEAN NOT NULL DEFAULT false,
    lost INTEGER NOT NULL DEFAULT 0 CHECK (lost >= 0),
    lost_turn INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (execution_id, command_id),
    CHECK (payload IS NOT NULL OR round >= 0),
    CHECK (0 <= first AND first <= past),
    CHECK (remaining BETWEEN 0 AND past - first),
    CHECK (NOT waiting OR owner = '')
) WITH (fillfactor = 50);
CREATE INDEX command_owner ON noetl.command (owner, priority DESC, id) WHERE NOT waiting;
CREATE INDEX command_lost ON noetl.command (id) WHERE lost > 1;

-- payload: the loop as it started. cursor: next item to issue; issued: items that are out or came back (those that were handed back
-- undone are not). A gate is open, closing (nothing more is issued, what is in flight drains) or closed (its loop.done exists).
CREATE TABLE noetl.loop (
    execution_id BIGINT NOT NULL REFERENCES noetl.execution ON DELETE CASCADE,
    run BIGINT NOT NULL,
    round INTEGER NOT NULL CHECK (round >= 0),
    step TEXT NOT NULL,
    program TEXT NOT NULL,
    total INTEGER NOT NULL CHECK (total >= 0),
    places INTEGER NOT NULL CHECK (places > 0),
    cursor INTEGER NOT NULL,
    issued INTEGER NOT NULL,
    done INTEGER NOT NULL DEFAULT 0 CHECK (done >= 0),
    failed INTEGER NOT NULL DEFAULT 0 CHECK (failed >= 0),
    size BIGINT NOT NULL DEFAULT 0,
    patched INTEGER NOT NULL DEFAULT 0,
    gate TEXT NOT NULL DEFAULT 'open' CHECK (gate IN ('open', 'closing', 'closed')),
    alerted BOOLEAN NOT NULL DEFAULT false,
    payload JSON NOT NULL,
    limits JSON,
    priority INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (execution_id, run, round),
    CHECK (done + failed <= issued AND issued <= cursor AND cursor <= total)
) WITH (fillfactor = 60);

CREATE TABLE noetl.timer (
    execution_id BIGINT NOT NULL REFERENCES noetl.execution ON DELETE CASCADE,
    timer TEXT NOT NULL,
    generation BIGINT NOT NULL CHECK (generation >= 0),
    fire_at TIMESTAMPTZ NOT NULL,
    owner TEXT COLLATE "C" NOT NULL DEFAULT '',
    PRIMARY KEY (execution_id, timer)
);
CREATE INDEX timer_due ON noetl.timer (fire_at);
CREATE INDEX timer_owner ON noetl.timer (owner) WHERE owner <> '';

-- Events on their way to the execution they are for. source: the execution whose commit wrote them. awaited_by, program: of a Start.
CREATE TABLE noetl.outbox (
    execution_id BIGINT NOT NULL,
    event_id TEXT COLLATE "C" NOT NULL,
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    source BIGINT NOT NULL,
    owner TEXT COLLATE "C" NOT NULL DEFAULT '',
    payload JSON NOT NULL,
    awaited_by BIGINT,
    program TEXT NOT NULL DEFAULT '',
    path TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (execution_id, event_id)
);
CREATE INDEX outbox_owner ON noetl.outbox (owner, id);
CREATE INDEX outbox_source ON noetl.outbox (source) WHERE starts_with(event_id, 'start');
CREATE UNIQUE INDEX outbox_start ON noetl.outbox (execution_id) WHERE starts_with(event_id, 'start');

CREATE TABLE noetl.runtime (
    owner TEXT COLLATE "C" PRIMARY KEY CHECK (owner <> ''),
    heartbeat_at TIMESTAMPTZ NOT NULL,
    lease_until TIMESTAMPTZ NOT NULL
);

CREATE TABLE noetl.transient (
    execution_id BIGINT NOT NULL,
    var_name TEXT NOT NULL,
    var_type TEXT NOT NULL DEFAULT 'user_defined'
        CHECK (var_type IN ('user_defined', 'step_result', 'computed', 'iterator_state')),
    var_value JSONB NOT NULL,
    source_step TEXT,
    access_count INTEGER NOT NULL DEFAULT 0,
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    accessed_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    PRIMARY KEY (execution_id, var_name)
);
CREATE INDEX transient_execution ON noetl.transient (execution_id);
CREATE INDEX transient_source_step ON noetl.transient (source_step);
CREATE INDEX transient_var_type ON noetl.transient (var_type);

-- Starts that were asked for under a key: asking again returns the same execution. fingerprint: what was asked.
CREATE TABLE noetl.idempotency (
    namespace TEXT NOT NULL DEFAULT 'default',
    key TEXT COLLATE "C" NOT NULL CHECK (key <> ''),
    fingerprint TEXT NOT NULL,
    execution_id BIGINT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, key)
);
CREATE INDEX idempotency_execution ON noetl.idempotency (execution_id);
CREATE INDEX idempotency_age ON noetl.idempotency (created_at);

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
    catch_up TEXT NOT NULL DEFAULT 'once' CHECK (catch_up IN ('once', 'all', 'none')),
    catch_up_max INTEGER NOT NULL DEFAULT 100 CHECK (catch_up_max BETWEEN 1 AND 1000),
    overlap TEXT NOT NULL DEFAULT 'allow' CHECK (overlap IN ('allow', 'skip', 'cancel_previous')),
    latest_execution BIGINT,
    PRIMARY KEY (namespace, name),
    CHECK (num_nonnulls(cron, rate) = 1)
);
CREATE INDEX schedule_due ON noetl.schedule (next_at) WHERE enabled AND NOT paused;
CREATE INDEX schedule_path ON noetl.schedule (namespace, path) WHERE declared;

-- What was started for which moment of a schedule, by a firing or by a backfill. It goes with its schedule.
CREATE TABLE noetl.schedule_moment (
    namespace TEXT NOT NULL DEFAULT 'default',
    name TEXT COLLATE "C" NOT NULL,
    at TIMESTAMPTZ NOT NULL,
    execution_id BIGINT NOT NULL,
    PRIMARY KEY (namespace, name, at),
    FOREIGN KEY (namespace, name) REFERENCES noetl.schedule ON DELETE CASCADE
);
CREATE INDEX schedule_moment_age ON noetl.schedule_moment (at);

-- What starts a playbook when something happens, made while the system runs. source: what is watched. payload: what the workload is made
-- of (null: the event). queue: the one that a trigger of the kind sqs watches. event_key: a template that identifies a happening. generation: of the address of a webhook.
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
    queue TEXT,
    PRIMARY KEY (namespace, name)
);

-- Secrets, sealed: data_encrypted is opaque to the database.
CREATE TABLE noetl.credential (
    namespace TEXT NOT NULL DEFAULT 'default',
    name TEXT COLLATE "C" NOT NULL CHECK (name <> ''),
    id BIGINT NOT NULL UNIQUE CHECK (id > 0),
    type TEXT NOT NULL CHECK (type <> ''),
    data_encrypted BYTEA NOT NULL,
    meta JSON NOT NULL,
    principal TEXT NOT NULL DEFAULT '',
    version INTEGER NOT NULL DEFAULT 1 CHECK (version > 0),
    created_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT now(),
    PRIMARY KEY (namespace, name)
);

CREATE TABLE noetl.auth_cache (
    cache_key TEXT PRIMARY KEY,
    credential_name TEXT NOT NULL,
    credential_type TEXT NOT NULL,
    cache_type TEXT NOT NULL CHECK (cache_type IN ('secret', 'token')),
    scope_type TEXT NOT NULL CHECK (scope_type IN ('execution', 'global')),
    execution_id BIGINT,
    parent_execution_id BIGINT,
    data_encrypted BYTEA NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    accessed_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    access_count INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX auth_cache_name ON noetl.auth_cache (credential_name);
CREATE INDEX auth_cache_execution ON noetl.auth_cache (execution_id) WHERE execution_id IS NOT NULL;
CREATE INDEX auth_cache_expiry ON noetl.auth_cache (expires_at);

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

-- Events that came in together, kept until they are handled. messages: what each says, as queues carry it; told: the outcome of each.
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

-- What holds for a key that executions share: an operator's numbers, or (declared) what a playbook last asked for. concurrent: holders
-- at once; rate: beginnings every per seconds, burst of them at the same moment. tat: when the rate is free again (GCRA).
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
    PRIMARY KEY (namespace, key),
    CHECK (rate < 'Infinity' AND per < 'Infinity')
);

-- A key that a command needs (command_id '': the execution itself, until it ends). A slot is in use while its row is held and its command
-- exists, so that nothing has to be counted down. A command that waits is queued at one key, the first that has no room for it.
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
    CHECK (NOT (held AND queued)),
    CHECK (rate < 'Infinity' AND per < 'Infinity')
);
CREATE INDEX limit_use_held ON noetl.limit_use (key, since) WHERE held;
CREATE INDEX limit_use_queued ON noetl.limit_use (key, priority DESC, id) WHERE queued;

-- Large results that are kept in this database: the tiers kv and db. An object is there when its row in result_object is; its bytes lie in
-- parts, which are found by the object's content, so that a writer that dies leaves nothing that could be read.
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

-- What an execution knows of results of another tree: nothing of held_id's tree is removed while a live execution can reach it.
CREATE TABLE noetl.result_hold (
    execution_id BIGINT NOT NULL,
    held_id BIGINT NOT NULL,
    PRIMARY KEY (execution_id, held_id)
);
CREATE INDEX result_hold_held ON noetl.result_hold (held_id);

-- Where results of earlier calls are, for tasks with a cache. Only the reference is here: the result belongs to its execution.
CREATE TABLE noetl.task_cache (
    key TEXT COLLATE "C" PRIMARY KEY,
    entry JSON NOT NULL,
    expires_at TIMESTAMPTZ NOT NULL
);
CREATE INDEX task_cache_expires ON noetl.task_cache (expires_at);

-- One row of what a writing function returns to its caller.
CREATE TYPE noetl.answer AS (
    kind TEXT,
    execution_id BIGINT,
    id TEXT,
    numbers BIGINT[],
    body TEXT,
    extra TEXT,
    loop TEXT
);
