-- For each cause the newest moment of a schedule that started nothing: skipped_at of a schedule alone forgets one cause for another.

CREATE TABLE noetl.schedule_skip (
    namespace TEXT NOT NULL DEFAULT 'default',
    name TEXT COLLATE "C" NOT NULL,
    cause TEXT NOT NULL CHECK (cause IN ('catch_up', 'overlap', 'refused')),
    at TIMESTAMPTZ NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (namespace, name, cause),
    FOREIGN KEY (namespace, name) REFERENCES noetl.schedule ON DELETE CASCADE
);
INSERT INTO noetl.schedule_skip (namespace, name, cause, at, reason)
SELECT namespace, name,
       CASE WHEN skipped_reason LIKE 'overlap: %' THEN 'overlap'
            WHEN skipped_reason LIKE 'it was missed%' OR skipped_reason LIKE '% later moments were missed, too: %' THEN 'catch_up'
            ELSE 'refused' END,
       skipped_at, skipped_reason
FROM noetl.schedule WHERE skipped_at IS NOT NULL;
