-- What a playbook of an older dialect was compiled as: a program is made of it again after the rules have changed.
ALTER TABLE noetl.catalog ADD COLUMN rewritten TEXT NOT NULL DEFAULT '';
