-- Since when an event may be delivered: a Start for later has its moment, an event that was held the moment that released it.

ALTER TABLE noetl.outbox ADD COLUMN since TIMESTAMPTZ NOT NULL DEFAULT now();
