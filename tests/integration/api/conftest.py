"""A database of its own for each test."""
