-- Text by name, for lists and filters: what a start was given, over those of its playbook, each as name=value. An execution without any keeps
-- NULL.
ALTER TABLE noetl.execution ADD COLUMN labels TEXT[];
CREATE INDEX execution_labels ON noetl.execution USING gin (labels) WHERE labels IS NOT NULL;
