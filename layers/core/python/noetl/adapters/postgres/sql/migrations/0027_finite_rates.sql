-- NaN is greater than every number: it passed "> 0", and no time can be counted with it.
ALTER TABLE noetl.limit_key ADD CHECK (rate < 'Infinity' AND per < 'Infinity');
ALTER TABLE noetl.limit_use ADD CHECK (rate < 'Infinity' AND per < 'Infinity');
