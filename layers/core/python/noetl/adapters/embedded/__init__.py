"""What makes one machine enough: a Postgres of its own, results and credentials in files."""
