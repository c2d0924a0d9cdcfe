-- Variables of executions, read from outside.

-- name: variables
SELECT var_name, var_value, var_type, source_step, access_count, extract(epoch FROM created_at), extract(epoch FROM accessed_at)
FROM noetl.transient WHERE execution_id = :execution_id ORDER BY var_name COLLATE "C";

-- name: read_variable
-- Counted: the row is as it is after this read.
UPDATE noetl.transient SET access_count = access_count + 1, accessed_at = now()
WHERE execution_id = :execution_id AND var_name = :name
RETURNING var_name, var_value, var_type, source_step, access_count, extract(epoch FROM created_at), extract(epoch FROM accessed_at);
