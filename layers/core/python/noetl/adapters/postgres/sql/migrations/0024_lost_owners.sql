-- How many processes have died while they ran this turn of a command. The count of an earlier turn counts for nothing.
ALTER TABLE noetl.command ADD COLUMN lost INTEGER NOT NULL DEFAULT 0 CHECK (lost >= 0), ADD COLUMN lost_turn INTEGER NOT NULL DEFAULT 0;
CREATE INDEX command_lost ON noetl.command (id) WHERE lost > 1;
