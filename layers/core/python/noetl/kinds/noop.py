"""The kind ``noop``: returns its input; a place for routing, rules and ``set``."""

from __future__ import annotations

from typing import Any

from noetl.domain.kinds import KindSpec, TaskContext, TaskResult
from noetl.kinds.support.base import KindParams

SPEC = KindSpec(
    name="noop",
    summary="Does nothing and returns its input; for routing, rules and set.",
    pool="control",
    codes=(),
)

EXAMPLE: dict[str, Any] = {}


class Params(KindParams):
    """None."""


def run(params: Params, context: TaskContext) -> TaskResult:
    """Return the task's input, or None when it has none."""
    return TaskResult(dict(context.input) or None)
