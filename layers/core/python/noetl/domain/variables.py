"""Variables of an execution as clients see them: rows of the table ``transient``."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

VariableType = Literal["user_defined", "step_result", "computed", "iterator_state"]


class VariableWrite(msgspec.Struct, frozen=True):
    """``deleted``: the row goes; ``value`` means nothing then."""

    name: str
    value: Any = None
    type: VariableType = "user_defined"
    step: str = ""
    deleted: bool = False


class Variable(msgspec.Struct, frozen=True):
    """A row. Moments are epoch seconds; ``access_count`` counts single reads, not lists."""

    name: str
    value: Any
    type: VariableType
    source_step: str | None
    access_count: int
    created_at: float
    accessed_at: float
