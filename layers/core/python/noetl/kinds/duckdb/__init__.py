"""The kind ``duckdb``: sessions, the files and sources that they read."""
