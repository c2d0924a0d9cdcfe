-- Leases share an entry of the index of owners. A request of a worker has a lease of its own, so that the owner of a command changes with
-- every step; owner_group does not: it is 'until:http:<pool>' for every lease of a pool, and the owner itself for all others. Within the
-- group, is_alive says of each command whether its lease is over. See docs/adr/0104-leases-share-a-group.md.
-- The owner lies before what changes with every step, too: what changes is one piece of the row. Rows are few (what is outstanding), so the
-- table is written again.

CREATE TEMPORARY TABLE commands ON COMMIT DROP AS SELECT * FROM noetl.command;
DROP TABLE noetl.command;

CREATE TABLE noetl.command (
    execution_id BIGINT NOT NULL,
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    owner_group TEXT COLLATE "C" NOT NULL GENERATED ALWAYS AS (
        CASE WHEN starts_with(owner, 'until:') AND split_part(owner, ':', 3) = 'http' THEN 'until:http:' || split_part(owner, ':', 4)
             ELSE owner END) STORED,
    place TEXT COLLATE "C" NOT NULL GENERATED ALWAYS AS (CASE WHEN round >= 0 OR keyed THEN command_id ELSE '' END) STORED,
    part BIGINT NOT NULL GENERATED ALWAYS AS (CASE WHEN round >= 0 OR keyed THEN 0 ELSE id END) STORED,
    round INTEGER NOT NULL DEFAULT -1 CHECK (round >= -1),
    attempt INTEGER NOT NULL DEFAULT 1 CHECK (attempt > 0),
    turn INTEGER NOT NULL DEFAULT 0 CHECK (turn >= 0),
    first INTEGER NOT NULL DEFAULT 0,
    past INTEGER NOT NULL DEFAULT 0,
    remaining INTEGER NOT NULL DEFAULT 0,
    priority INTEGER NOT NULL DEFAULT 0,
    lost INTEGER NOT NULL DEFAULT 0 CHECK (lost >= 0),
    lost_turn INTEGER NOT NULL DEFAULT 0,
    waiting BOOLEAN NOT NULL DEFAULT false,
    remote BOOLEAN NOT NULL DEFAULT false,
    keyed BOOLEAN NOT NULL DEFAULT false,
    child JSON,
    owner TEXT COLLATE "C" NOT NULL DEFAULT '',
    run BIGINT NOT NULL,
    not_before TIMESTAMPTZ NOT NULL,
    command_id TEXT COLLATE "C" NOT NULL CHECK (command_id <> ''),
    payload JSON,
    PRIMARY KEY (execution_id, place, part),
    CHECK (payload IS NOT NULL OR round >= 0),
    CHECK (0 <= first AND first <= past),
    CHECK (remaining BETWEEN 0 AND past - first),
    CHECK (NOT waiting OR owner = '')
) WITH (fillfactor = 50);

INSERT INTO noetl.command (execution_id, id, owner, round, attempt, turn, first, past, remaining, priority, lost, lost_turn, waiting, remote,
                           keyed, child, run, not_before, command_id, payload)
OVERRIDING SYSTEM VALUE
SELECT execution_id, id, owner, round, attempt, turn, first, past, remaining, priority, lost, lost_turn, waiting, remote,
       keyed, child, run, not_before, command_id, payload
FROM commands ORDER BY id;
SELECT setval('noetl.command_id_seq', max(id)) FROM commands HAVING max(id) IS NOT NULL;

CREATE INDEX command_owner ON noetl.command (owner_group, priority DESC, id) WHERE NOT waiting;
CREATE INDEX command_lost ON noetl.command (id) WHERE lost > 1;
