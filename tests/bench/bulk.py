"""A tool kind of the cost model: its result is too large for a message."""

from typing import Any

from noetl.domain.kinds import KindSpec, TaskContext, TaskResult
from noetl.domain.results.references import INLINE_LIMIT
from noetl.kinds.support.base import KindParams

SPEC = KindSpec(name="bulk", summary="returns more than a message takes", pool="io")
EXAMPLE: dict[str, Any] = {}


class Params(KindParams):
    """No parameters."""


def run(params: Params, context: TaskContext) -> TaskResult:
    return TaskResult({"rows": "x" * (4 * INLINE_LIMIT)})
