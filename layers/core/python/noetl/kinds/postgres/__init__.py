"""The kind ``postgres``: connections, statements, COPY, and rows as a stream."""
