-- Trees whose removal has begun are found by their roots, so that one that was cut off is taken up again first.
CREATE INDEX execution_leaving ON noetl.execution (leaving_at) WHERE leaving_at IS NOT NULL AND parent_execution_id IS NULL;
