"""The pydantic base of every kind's ``Params``.

Values are accepted in the lenient mode of pydantic (``"5"`` fits an int), because a rendered template may
give text; unknown fields never are. A rule over several fields (``model_validator``) also runs when a
playbook is checked before rendering: it then meets ``HOLE`` in the place of templates and must only look at
whether a field is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, WithJsonSchema

from noetl.domain.durations import HINT, PATTERN, seconds_of


def _seconds(value: Any) -> Any:
    """Read a duration's text; anything but text is left to the type."""
    if not isinstance(value, str):
        return value
    found = seconds_of(value)
    if found is None:
        raise ValueError(f"input should be a duration: {HINT}")
    return found


READ_SECONDS = BeforeValidator(_seconds)
"""Lets a parameter that is a number of seconds be written as ``10m``, too."""


def seconds_schema(at_least: float, at_most: float) -> WithJsonSchema:
    """Return the JSON schema of a parameter with ``READ_SECONDS``."""
    number = {"type": "number", "minimum": at_least, "maximum": at_most}
    return WithJsonSchema({"anyOf": [number, {"type": "string", "pattern": PATTERN}]})


class KindParams(BaseModel):
    """Parameters of one kind. Subclasses declare fields and, if needed, the two tables below."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    refused: ClassVar[Mapping[str, str]] = {}
    """Fields people try that this kind refuses on purpose: name → what to do instead."""

    sensitive: ClassVar[frozenset[str]] = frozenset({"auth", "headers", "env"})
    """Fields whose offending value is never repeated in a message."""
