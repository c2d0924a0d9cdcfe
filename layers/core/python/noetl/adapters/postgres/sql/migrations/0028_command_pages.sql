-- A command's row becomes that of its successor (functions/30_commit_changes.sql): room on its page keeps it there.
ALTER TABLE noetl.command SET (fillfactor = 50);
