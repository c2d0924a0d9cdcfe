"""Rules about writing results elsewhere: ``save``, ``sink``, and tasks of a ``case``."""
