"""The kind ``playbook``: runs another playbook as a sub-execution.

The engine starts it and, by default, waits for its result.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from noetl.domain.kinds import KindSpec, TaskContext
from noetl.domain.outcomes.outcomes import ChildRequest
from noetl.kinds.support.base import KindParams

SPEC = KindSpec(
    name="playbook",
    summary="Runs another playbook as a sub-execution and returns its result.",
    pool="control",
    default_timeout=86_400.0,
    aliases={"args": "payload", "input": "payload", "with": "payload"},
)

EXAMPLE: dict[str, Any] = {
    "path": "examples/enrich_customer",
    "version": 3,
    "payload": {"customer": 17},
    "return_step": "summary",
}


class Params(KindParams):
    """``path`` is the catalog path; without ``version`` the latest one runs."""

    path: Annotated[str, Field(min_length=1, description="Catalog path of the playbook.")]
    version: Annotated[
        Annotated[int, Field(ge=1)] | Literal["latest"] | None,
        Field(description="A version number of the catalog, or `latest` (the default)."),
    ] = None
    payload: dict[str, Any] = Field(default_factory=dict, description="Merged over the playbook's workload.")
    return_step: Annotated[
        str | None, Field(min_length=1, description="Give this step's result instead of the execution's.")
    ] = None
    wait: Annotated[bool, Field(description="False: continue at once; the result is the execution's id.")] = (
        True
    )


def run(params: Params, context: TaskContext) -> ChildRequest:
    """Return what to start; the task's input is part of the payload and wins over ``payload``."""
    return ChildRequest(
        path=params.path,
        version=params.version if isinstance(params.version, int) else None,
        payload={**params.payload, **context.input},
        return_step=params.return_step,
        wait=params.wait,
    )
