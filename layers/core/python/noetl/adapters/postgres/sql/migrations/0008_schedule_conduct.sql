-- What a schedule does about moments it missed and about a start that meets the one before. latest_execution: the newest it started.
ALTER TABLE noetl.schedule
    ADD COLUMN catch_up TEXT NOT NULL DEFAULT 'once' CHECK (catch_up IN ('once', 'all', 'none')),
    ADD COLUMN catch_up_max INTEGER NOT NULL DEFAULT 100 CHECK (catch_up_max BETWEEN 1 AND 1000),
    ADD COLUMN overlap TEXT NOT NULL DEFAULT 'allow' CHECK (overlap IN ('allow', 'skip', 'cancel_previous')),
    ADD COLUMN latest_execution BIGINT;
UPDATE noetl.schedule SET latest_execution = last_execution;

-- What was started for which moment of a schedule, by a firing or by a backfill. It goes with its schedule.
CREATE TABLE noetl.schedule_moment (
    namespace TEXT NOT NULL DEFAULT 'default',
    name TEXT COLLATE "C" NOT NULL,
    at TIMESTAMPTZ NOT NULL,
    execution_id BIGINT NOT NULL,
    PRIMARY KEY (namespace, name, at),
    FOREIGN KEY (namespace, name) REFERENCES noetl.schedule ON DELETE CASCADE
);
