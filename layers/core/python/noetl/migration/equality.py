"""Whether two programs do the same: all of them but positions, names of files, and the hash."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl.dsl.program import Program

_PLACES = frozenset({"pos", "hash", "source_name", "code_pos"})


def same_program(one: Program, other: Program) -> bool:
    """Return whether two programs are equal, wherever their parts were written."""
    return _facts(msgspec.to_builtins(one)) == _facts(msgspec.to_builtins(other))


def _facts(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _facts(item) for key, item in value.items() if key not in _PLACES}
    if isinstance(value, (list, tuple)):
        return [_facts(item) for item in value]
    return value
