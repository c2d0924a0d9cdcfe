"""Rules about writing results to other systems.

They are about ``save``, ``sink``, and tasks of a ``case``.
"""
