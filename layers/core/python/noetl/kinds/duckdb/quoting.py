"""Texts and names in the SQL of DuckDB."""

from __future__ import annotations


def literal(text: str) -> str:
    """A text in SQL."""
    escaped = text.replace("'", "''")
    return f"'{escaped}'"


def name_of(text: str) -> str:
    """An identifier in SQL."""
    escaped = text.replace('"', '""')
    return f'"{escaped}"'
