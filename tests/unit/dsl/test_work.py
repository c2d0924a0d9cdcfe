"""Finding the tasks of a program."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

import msgspec

from noetl.dsl.program import Program
from noetl.dsl.work import Task


def _below(annotation: Any) -> Iterator[Any]:
    """Yield what a value of a type is made of, each once."""
    seen, left = set(), [annotation]
    while left:
        one = left.pop()
        if one not in seen:
            seen.add(one)
            yield one
            left += get_args(one)
            if isinstance(one, type) and issubclass(one, msgspec.Struct):
                left += [field.type for field in msgspec.structs.fields(one)]


def test_each_struct_names_the_fields_below_which_a_task_can_be():
    structs = [one for one in _below(Program) if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    named = {struct: getattr(struct, "with_tasks", ()) for struct in structs}
    assert named == {
        struct: tuple(
            field.name for field in msgspec.structs.fields(struct) if Task in set(_below(field.type))
        )
        for struct in structs
    }
    assert named[Task] == ("rules", "sinks", "nested", "choices")
