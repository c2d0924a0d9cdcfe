-- Objects of the tiers kv and db, and their parts.

-- name: put_result
-- An object that fits into one statement, and whether this made it.
WITH made AS (
    INSERT INTO noetl.result_object (execution_id, store, key, content, parts, size, sha256)
    VALUES (:execution_id::bigint, :store::text, :key::text, :content::uuid, cardinality(:data::bytea[]), :size::bigint, :sha::text)
    ON CONFLICT DO NOTHING RETURNING 1
), parts AS (
    INSERT INTO noetl.result_part (execution_id, store, content, part, data)
    SELECT :execution_id::bigint, :store::text, :content::uuid, d.part - 1, d.data
    FROM unnest(:data::bytea[]) WITH ORDINALITY AS d (data, part) WHERE EXISTS (SELECT FROM made)
)
SELECT count(*) FROM made;

-- name: put_result_part
INSERT INTO noetl.result_part (execution_id, store, content, part, data)
VALUES (:execution_id::bigint, :store::text, :content::uuid, :part::integer, :data::bytea);

-- name: put_result_object
-- What its parts become when all of them are there.
INSERT INTO noetl.result_object (execution_id, store, key, content, parts, size, sha256)
VALUES (:execution_id::bigint, :store::text, :key::text, :content::uuid, :parts::integer, :size::bigint, :sha::text)
ON CONFLICT DO NOTHING RETURNING 1;

-- name: drop_result_parts
DELETE FROM noetl.result_part
WHERE execution_id = :execution_id::bigint AND store = :store::text AND content = :content::uuid;

-- name: read_result
-- An object, and its first part.
SELECT o.content, o.parts, o.size, o.sha256, p.data
FROM noetl.result_object o
LEFT JOIN noetl.result_part p
    ON p.execution_id = o.execution_id AND p.store = o.store AND p.content = o.content AND p.part = 0
WHERE o.execution_id = :execution_id::bigint AND o.store = :store::text AND o.key = :key::text;

-- name: read_result_part
SELECT p.data FROM noetl.result_part p
WHERE p.execution_id = :execution_id::bigint AND p.store = :store::text AND p.content = :content::uuid
  AND p.part = :part::integer;

-- name: remove_result
WITH object AS (
    DELETE FROM noetl.result_object o
    WHERE o.execution_id = :execution_id::bigint AND o.store = :store::text AND o.key = :key::text RETURNING o.content
), parts AS (
    DELETE FROM noetl.result_part p USING object o
    WHERE p.execution_id = :execution_id::bigint AND p.store = :store::text AND p.content = o.content
)
SELECT count(*) FROM object;

-- name: remove_results
WITH objects AS (
    DELETE FROM noetl.result_object o
    WHERE o.execution_id = :execution_id::bigint AND o.store = :store::text RETURNING 1
), parts AS (
    DELETE FROM noetl.result_part p WHERE p.execution_id = :execution_id::bigint AND p.store = :store::text
)
SELECT count(*) FROM objects;
