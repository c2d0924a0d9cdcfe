-- Keys of starts say more than a name, which may be given again: those of a schedule its playbook, those of a trigger when it was made. What
-- was started under a key of before stays known to the schedule or trigger that started it.
UPDATE noetl.idempotency i SET key = i.key || ':' || e.path
FROM noetl.execution e
WHERE e.execution_id = i.execution_id AND i.namespace = 'default' AND starts_with(i.key, 'schedule:');

UPDATE noetl.idempotency i SET key = i.key || ':' || (extract(epoch FROM t.created_at) * 1000000)::bigint
FROM noetl.execution e JOIN noetl.trigger t ON t.namespace = 'default' AND t.name = e.principal AND t.created_at <= e.started_at
WHERE e.execution_id = i.execution_id AND i.namespace = 'default' AND starts_with(i.key, 'trigger:');
