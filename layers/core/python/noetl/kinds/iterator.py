"""The kind ``iterator``: calls its task for every element of a list.

As a step's whole tool it is that step's loop; in a pipeline, a loop inside one run.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from noetl.domain.kinds import KindSpec
from noetl.kinds.support.base import KindParams

SPEC = KindSpec(
    name="iterator",
    summary="Calls its task for every element of a list; as a step's whole tool it is that step's loop.",
    pool="control",
    aliases={"in": "collection", "iterator": "element"},
    lowered=True,
)

EXAMPLE: dict[str, Any] = {
    "collection": ["oslo", "lima"],
    "element": "city",
    "mode": "parallel",
    "task": {"kind": "noop"},
}


class Params(KindParams):
    """The list, the name of its element, and the task."""

    collection: Annotated[
        list[Any] | dict[str, Any], Field(description="A list, or a reference to a large one.")
    ]
    element: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$", description="Name of the current element.")]
    mode: Annotated[
        Literal["sequential", "parallel", "async"], Field(description="`async` means `parallel`.")
    ] = "sequential"
    max_in_flight: Annotated[int | None, Field(ge=1, description="Elements worked on at the same time.")] = (
        None
    )
    task: Annotated[
        dict[str, Any] | list[Any],
        Field(description="The task: `kind` and its parameters; or a list of labelled tasks."),
    ]
