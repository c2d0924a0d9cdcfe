"""Playbooks under test: the engine in one thread with virtual time, tools that answer from a script, and what is seen of a run.

Nothing below imports this package, and functions do not carry it.
"""
