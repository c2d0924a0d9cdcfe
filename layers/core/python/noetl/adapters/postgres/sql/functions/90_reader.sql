-- The role that runs queries of people, where this database's server has one (adapters/embedded/roles.py makes it on this machine): it reads
-- the views of history and nothing else.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'noetl_reader') THEN
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO noetl_reader', current_database());
        GRANT USAGE ON SCHEMA noetl_history TO noetl_reader;
        GRANT SELECT ON ALL TABLES IN SCHEMA noetl_history TO noetl_reader;
    END IF;
END $$;
