"""Rules about writing results to other systems: ``save``, ``sink``, and tasks of a ``case``."""
