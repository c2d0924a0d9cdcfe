-- NaN is greater than every number: it passed "> 0", and no time can be counted with it. A row that has one already keeps its other limits.
UPDATE noetl.limit_key SET rate = NULL, per = 1 WHERE NOT (rate < 'Infinity' AND per < 'Infinity');
UPDATE noetl.limit_use SET rate = NULL, per = 1 WHERE NOT (rate < 'Infinity' AND per < 'Infinity');
ALTER TABLE noetl.limit_key ADD CHECK (rate < 'Infinity' AND per < 'Infinity');
ALTER TABLE noetl.limit_use ADD CHECK (rate < 'Infinity' AND per < 'Infinity');
