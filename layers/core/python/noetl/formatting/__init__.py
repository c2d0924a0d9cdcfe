"""Playbooks rewritten: one layout for all of them, and older spellings and forms in the newest ones. Text in, text out; no I/O.

``reading`` makes a tree that knows its comments, ``order`` sorts keys, ``spelling`` and ``canonical`` rewrite, ``writing`` prints.
"""
