-- A command that takes over the row of the one before it writes no index: no index has a column that changes then. place: '', so that a
-- command is found among those of its execution (place IN (<id>, '') AND command_id = <id>). Of commands that are many it is the id: those of
-- loops, and those that were issued with many others (keyed), whose successors change the indexes.
-- What stays while commands of a chain take the row over from each other comes first, what changes last: an update on one page is logged
-- without the beginning and the end that both rows share. Rows are few (what is outstanding), so the table is written again.

CREATE TEMPORARY TABLE outstanding ON COMMIT DROP AS SELECT * FROM noetl.command;
DROP TABLE noetl.command;

CREATE TABLE noetl.command (
    execution_id BIGINT NOT NULL,
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    owner TEXT COLLATE "C" NOT NULL DEFAULT '',
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
       round < 0 AND count(*) FILTER (WHERE round < 0) OVER (PARTITION BY execution_id) > 8, child, run, not_before, command_id, payload
FROM outstanding ORDER BY id;
SELECT setval('noetl.command_id_seq', max(id)) FROM outstanding HAVING max(id) IS NOT NULL;

CREATE INDEX command_owner ON noetl.command (owner, priority DESC, id) WHERE NOT waiting;
CREATE INDEX command_lost ON noetl.command (id) WHERE lost > 1;
