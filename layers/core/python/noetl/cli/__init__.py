"""The ``noetl`` command.

Nothing below this package imports it; its own modules import heavy things when a command needs them.
"""
