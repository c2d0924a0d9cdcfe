"""The pydantic base of every kind's ``Params``.

Values are accepted in the lenient mode of pydantic (``"5"`` fits an int), because a rendered template may
give text; unknown fields never are. A rule over several fields (``model_validator``) also runs when a
playbook is checked before rendering: it then meets ``HOLE`` in the place of templates and must only look at
whether a field is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class KindParams(BaseModel):
    """Parameters of one kind. Subclasses declare fields and, where it helps, the two tables below."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    refused: ClassVar[Mapping[str, str]] = {}
    """Fields people try that this kind refuses on purpose: name → what to do instead."""

    sensitive: ClassVar[frozenset[str]] = frozenset({"auth", "headers", "env"})
    """Fields whose offending value is never repeated in a message."""
