"""Playbooks under test: the engine in one thread with virtual time, and scripted tools.

It also records what is seen of a run.

Nothing below imports this package, and functions do not carry it.
"""
