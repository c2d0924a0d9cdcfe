"""The kind ``http``, and what other kinds that call APIs use of it."""
