"""Meaning: references between steps, names in templates, places where a value cannot be read."""

from __future__ import annotations

from noetl.dsl.lowering.context import Lowering
from noetl.dsl.program import Program
from noetl.dsl.tree import Mapping


def check_program(lowering: Lowering, program: Program, root: Mapping) -> None:
    pass
