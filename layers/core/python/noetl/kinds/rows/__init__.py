"""Rows, as every kind reads and writes them: of databases, in files, in results."""
