"""Quoting of texts and names in the SQL of DuckDB."""

from __future__ import annotations


def literal(text: str) -> str:
    """Quote a text for SQL."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def name_of(text: str) -> str:
    """Quote an identifier for SQL."""
    escaped = text.replace('"', '""')
    return f'"{escaped}"'
