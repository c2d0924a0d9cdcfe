"""Keys of a mapping inside a parameter, checked where templates stand in it: then its model does not see it before the task runs."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from noetl.domain.kinds import ParamProblem
from noetl.kinds.params import has_hole


def key_problems(
    model: type[BaseModel], given: Any, path: tuple[str | int, ...], what: str
) -> Iterator[ParamProblem]:
    """Keys that ``model`` does not have, and those that it needs. Nothing for what holds no template: the model says it better."""
    if not isinstance(given, Mapping) or not has_hole(given):
        return
    known = {field.alias or name: field.is_required() for name, field in model.model_fields.items()}
    for key in given:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(sorted(known))}"
            yield ParamProblem((*path, key), f"{what} has no key {key!r}", hint)
    for name, required in known.items():
        if required and name not in given:
            yield ParamProblem(path, f"{what} needs {name!r}")
