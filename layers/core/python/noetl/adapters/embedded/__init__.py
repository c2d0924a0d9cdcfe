"""Adapters of one machine: an embedded Postgres, and results and credentials in files."""
