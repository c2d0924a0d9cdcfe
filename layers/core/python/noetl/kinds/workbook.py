"""The kind ``workbook``: a task of the playbook's ``workbook``, put in by the compiler."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from noetl.domain.kinds import KindSpec
from noetl.kinds.support.base import KindParams

SPEC = KindSpec(
    name="workbook",
    summary="Runs a named task of the playbook's workbook, its sinks included.",
    pool="control",
    aliases={"args": "input", "with": "input", "task": "name"},
    lowered=True,
)

EXAMPLE: dict[str, Any] = {"name": "notify", "input": {"text": "done"}}


class Params(KindParams):
    """The name of the task, and its arguments."""

    name: Annotated[str, Field(min_length=1, description="Name of a task in `workbook`.")]
    input: dict[str, Any] = Field(default_factory=dict, description="The task's arguments; win over its own.")
