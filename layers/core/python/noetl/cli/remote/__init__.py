"""Executions elsewhere: contexts (which server, and as whom), the client of its REST API, and the commands' view of it."""
