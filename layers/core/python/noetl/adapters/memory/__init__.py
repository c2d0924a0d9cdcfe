"""Stores that live and die with the process."""

from noetl.adapters.memory.catalog import MemoryCatalog
from noetl.adapters.memory.execution_store import MemoryExecutionStore
from noetl.adapters.memory.results import MemoryResultStore

__all__ = ["MemoryCatalog", "MemoryExecutionStore", "MemoryResultStore"]
