"""The tool kind of the benchmarks: does nothing, in a worker."""

from typing import Any

from noetl.domain.kinds import KindSpec, TaskContext, TaskResult
from noetl.kinds.support.base import KindParams

SPEC = KindSpec(name="tick", summary="does nothing, in a worker", pool="cpu")
EXAMPLE: dict[str, Any] = {}


class Params(KindParams):
    """No parameters."""


def run(params: Params, context: TaskContext) -> TaskResult:
    return TaskResult(context.input.get("value"))
