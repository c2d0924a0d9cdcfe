"""A command's row: its payload, and the row it takes over.

See sql/functions/30_commit_changes.sql.
"""

from __future__ import annotations

from collections import deque
from operator import attrgetter
from typing import Any

import msgspec

from noetl.domain import codec
from noetl.domain.commands import Command


def payload(command: Command) -> bytes:
    """A command as its row keeps it: the delay is a time of its own there.

    What commands of one execution have in common comes last: the database logs a row that takes over another one's place up to where its
    old end begins, and the payload is the last column.
    """
    if command.delay:
        command = msgspec.structs.replace(command, delay=0.0)
    return codec.encode(_STORED(*_VALUES(command)))


_COMMON = ("scope", "program", "execution_id")
_FIELDS = (*(name for name in Command.__struct_fields__ if name not in _COMMON), *_COMMON)
_VALUES = attrgetter(*_FIELDS)


def _optional(field: msgspec.structs.FieldInfo) -> Any:
    """Return the default of a field.

    Required ones, which are never None, stand behind others: they have None.
    """
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    return None if field.default is msgspec.NODEFAULT else field.default


_DEFAULTS = {field.name: _optional(field) for field in msgspec.structs.fields(Command)}
_STORED = msgspec.defstruct(
    "StoredCommand",
    [(name, Any, _DEFAULTS[name]) for name in _FIELDS],
    omit_defaults=True,
    frozen=True,
)
"""A command with its fields in the order of a row."""


def side_by_side(
    closed: list[tuple[int, str, int, int]], fresh: list[tuple[Command, bool]]
) -> tuple[list[tuple[int, str, int, int]], list[tuple[Command, bool]]]:
    """Sort closed and fresh commands, so that two of one execution share a place.

    Such two share a row. What is left over is behind them; fresh commands of one execution keep their order.
    """
    if not closed or not fresh:
        return closed, fresh
    coming: dict[int, deque[tuple[Command, bool]]] = {}
    for one in fresh:
        coming.setdefault(one[0].execution_id, deque()).append(one)
    pairs = [(row, coming[row[0]].popleft()) for row in closed if coming.get(row[0])]
    going = {row for row, _ in pairs}
    rest = [row for row in closed if row not in going]
    left = [one for queue in coming.values() for one in queue]
    return [row for row, _ in pairs] + rest, [one for _, one in pairs] + left
