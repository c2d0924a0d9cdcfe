"""The kind ``snowflake``: its SQL API, and values of it."""
