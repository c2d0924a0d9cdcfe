-- Lists of executions that have not ended: they are few among all, and a list of them read all.

CREATE INDEX execution_live ON noetl.execution (status, execution_id) WHERE ended_at IS NULL;
