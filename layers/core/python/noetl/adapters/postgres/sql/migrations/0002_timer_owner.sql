-- An owner that ends gives its timers back: they are found without reading the others.
CREATE INDEX timer_owner ON noetl.timer (owner) WHERE owner <> '';
