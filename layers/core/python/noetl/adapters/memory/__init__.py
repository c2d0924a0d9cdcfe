"""Stores that live and die with the process.

Each is loaded when it is asked for: commands on a laptop use the results alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noetl.adapters.memory.catalog import MemoryCatalog
    from noetl.adapters.memory.execution_store import MemoryExecutionStore
    from noetl.adapters.memory.results import MemoryResultStore

__all__ = ["MemoryCatalog", "MemoryExecutionStore", "MemoryResultStore"]
_MODULES = {
    "MemoryCatalog": "catalog",
    "MemoryExecutionStore": "execution_store",
    "MemoryResultStore": "results",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
