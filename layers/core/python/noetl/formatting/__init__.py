"""Playbooks rewritten in one layout and in the newest spellings and forms.

Text in, text out; no I/O.

``reading`` makes a tree that knows its comments, ``order`` sorts keys, ``spelling`` and ``canonical`` rewrite, ``writing`` prints.
"""
