-- An absolute name opens its folder to the tasks of a playbook, and only the command line of this machine may give one. Earlier versions
-- took such names over the API, too, and the rows do not say which way they came: each keeps the last part of its name. The command line
-- names its files again when it registers or runs them.

UPDATE noetl.catalog SET source_name = coalesce(nullif(regexp_replace(source_name, '^.*/', ''), ''), 'playbook')
WHERE source_name LIKE '/%';
