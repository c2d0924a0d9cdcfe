-- The newest moment of a schedule that started nothing, and why: last_error is forgotten with the next firing.

ALTER TABLE noetl.schedule ADD COLUMN skipped_at TIMESTAMPTZ, ADD COLUMN skipped_reason TEXT NOT NULL DEFAULT '';
