"""Checks of a mapping inside a parameter that contains templates.

Its model does not see such a mapping before the task runs.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ValidationError, create_model, field_validator

from noetl.domain.kinds import ParamProblem
from noetl.kinds.support.params import accept_hole, plain_message


def nested_problems(
    model: type[BaseModel], given: Any, path: tuple[str | int, ...], what: str
) -> Iterator[ParamProblem]:
    """Check a mapping against ``model``, where templates fit anything.

    It is for a kind's own ``check``, which is called when the kind's model found nothing.
    """
    if not isinstance(given, Mapping):
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
    if given.keys() <= known.keys():
        yield from _problems_of(model, given, path, what)


def _problems_of(
    model: type[BaseModel], given: Mapping[str, Any], path: tuple[str | int, ...], what: str
) -> Iterator[ParamProblem]:
    try:
        _tolerant(model).model_validate(given)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            if detail["type"] == "missing":
                continue
            place = detail["loc"][:1]
            named = f"{what}: {str(place[0])!r}" if place else what
            yield ParamProblem((*path, *place), f"{named}: {plain_message(detail)}")


@lru_cache(maxsize=32)
def _tolerant(model: type[BaseModel]) -> type[BaseModel]:
    return create_model(
        model.__name__,
        __base__=model,
        __validators__={"accept_holes": field_validator("*", mode="wrap")(accept_hole)},
    )
