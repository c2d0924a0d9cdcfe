"""Caches that any part of a process may use."""
