"""Notices that executions have ended, for modules that keep something for them.

It imports nothing of the sandbox: the engine sends the notices, and need not run tasks itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

_listeners: list[Callable[[Collection[int]], None]] = []


def when_ended(listener: Callable[[Collection[int]], None]) -> None:
    """Call ``listener`` with the ids of ended executions; it must not wait for anything."""
    _listeners.append(listener)


def report_ended(execution_ids: Collection[int]) -> None:
    """These executions have ended, as far as this process knows: they may be redriven."""
    for listener in _listeners:
        listener(execution_ids)
