-- Events that came in together.

-- name: accept_batch
-- The row and whether it was made now; else that of this key, or of this id when it holds the same and has no key. None when the id is
-- another batch's, or when another transaction is keeping a batch under the key right now (ask again).
WITH made AS (
    INSERT INTO noetl.event_batch (batch_id, key, fingerprint, total, principal, messages)
    VALUES (:batch_id, nullif(:key, ''), :fingerprint, :total, :principal, :messages)
    ON CONFLICT DO NOTHING
    RETURNING *
)
SELECT b.batch_id, b.fingerprint, b.status, b.total, b.messages::text, b.told::text, extract(epoch FROM b.created_at),
       extract(epoch FROM b.ended_at), b.fresh
FROM (SELECT m.*, true AS fresh FROM made m
      UNION ALL
      SELECT o.*, false FROM noetl.event_batch o
      WHERE (o.batch_id = :batch_id::bigint AND o.key IS NULL AND :key = '' AND o.fingerprint = :fingerprint AND o.principal = :principal
             OR o.namespace = 'default' AND o.key = nullif(:key, ''))
        AND NOT EXISTS (SELECT FROM made)) b
LIMIT 1;

-- name: begin_batch
-- Take one without a handler; one whose handler gave no sign for a while is taken over.
UPDATE noetl.event_batch b SET status = 'processing', taken_at = clock_timestamp()
WHERE b.batch_id = :batch_id
  AND (b.status = 'accepted'
       OR (b.status = 'processing' AND b.taken_at < clock_timestamp() - make_interval(secs => :stale::float8)))
RETURNING b.batch_id, b.fingerprint, b.status, b.total, b.messages::text, b.told::text, extract(epoch FROM b.created_at),
          extract(epoch FROM b.ended_at), false;

-- name: end_batch
UPDATE noetl.event_batch SET status = :status, told = :told, messages = NULL, ended_at = clock_timestamp()
WHERE batch_id = :batch_id AND status = 'processing';

-- name: batch
SELECT b.batch_id, b.fingerprint, b.status, b.total, b.messages::text, b.told::text, extract(epoch FROM b.created_at),
       extract(epoch FROM b.ended_at), false
FROM noetl.event_batch b WHERE b.batch_id = :batch_id;

-- name: open_batches
SELECT batch_id FROM noetl.event_batch
WHERE (status = 'accepted' AND created_at < clock_timestamp() - make_interval(secs => :left::float8))
   OR (status = 'processing' AND taken_at < clock_timestamp() - make_interval(secs => :stale::float8))
ORDER BY created_at LIMIT :limit::bigint;

-- name: forget_batches
DELETE FROM noetl.event_batch WHERE batch_id IN (
    SELECT batch_id FROM noetl.event_batch
    WHERE ended_at < clock_timestamp() - make_interval(secs => :seconds::float8) ORDER BY ended_at LIMIT :limit::bigint);
