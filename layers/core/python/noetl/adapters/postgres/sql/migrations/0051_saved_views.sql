-- Filters of the web UI's pages that people keep by name, for all who use the server. search: the parameters of the page's address.
CREATE TABLE noetl.saved_view (
    namespace TEXT NOT NULL DEFAULT 'default',
    page TEXT COLLATE "C" NOT NULL CHECK (page IN ('executions', 'sql')),
    name TEXT COLLATE "C" NOT NULL CHECK (name <> ''),
    search JSON NOT NULL,
    principal TEXT NOT NULL DEFAULT '',
    saved_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (namespace, page, name)
);
