"""Parameters of a kind: from the playbook's text to the kind's model, and their problems.

Three views of one ``Params`` model: ``parse`` for rendered values (a TaskError names the first bad field),
``check`` for parameters with ``HOLE`` where templates stand (every problem, by the spelling the author used),
``schema`` for editors.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from pydantic import BaseModel, ValidationError, ValidatorFunctionWrapHandler, create_model, field_validator
from pydantic_core import ErrorDetails

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import Hole, KindSpec, ParamProblem
from noetl.domain.text.excerpt import excerpt
from noetl.kinds.support.base import KindParams

SHOWN_CHARACTERS = 80
TEMPLATE_PATTERN = r"\{[\{%]"


class ParamsChecker:
    """The checker of one kind's ``Params``, with the aliases of its spec."""

    def __init__(self, model: type[KindParams], spec: KindSpec) -> None:
        self._model = model
        self._spec = spec
        self._schema = b""

    def canonical(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Replace aliases by the names they are for (a name wins over its alias)."""
        aliases = self._spec.aliases
        renamed = {aliases.get(name, name): value for name, value in params.items() if name in aliases}
        return renamed | {name: value for name, value in params.items() if name not in aliases}

    def parse(self, params: Mapping[str, Any]) -> KindParams:
        """Build the model of rendered parameters.

        Raises TaskError(kind="schema", code="kind_params").
        """
        clash = self._clashes(params)
        if clash:
            raise self._refusal(clash[0])
        try:
            return self._model.model_validate(self.canonical(params))
        except ValidationError as error:
            raise self._refusal(self._problems(error, params)[0]) from None

    def check(self, params: Mapping[str, Any]) -> list[ParamProblem]:
        """Find unknown, missing and clashing fields, and literal values that do not fit."""
        problems = self._clashes(params)
        try:
            _tolerant(self._model).model_validate(self.canonical(params))
        except ValidationError as error:
            problems += self._problems(error, params)
        return problems

    def schema(self) -> dict[str, Any]:
        """Build the JSON Schema (2020-12): aliases beside names, a template wherever allowed."""
        if not self._schema:  # asked for with every task of every playbook that is compiled
            self._schema = codec.encode(self._made_schema())
        found: dict[str, Any] = codec.decode(self._schema)
        return found

    def _made_schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = codec.decode(_model_schema(self._model))
        own: dict[str, Any] = schema.get("properties", {})
        properties = {
            name: value if name in self._spec.raw_fields else _or_template(value)
            for name, value in own.items()
        }
        required = set(schema.pop("required", []))
        either: list[dict[str, Any]] = []
        for name in sorted(required):
            spellings = [name, *self._spellings(name)]
            if len(spellings) > 1:
                required.discard(name)
                either.append({"anyOf": [{"required": [spelling]} for spelling in spellings]})
        for alias, name in self._spec.aliases.items():
            if name in properties:
                properties[alias] = {**properties[name], "description": f"Another spelling of `{name}`."}
        schema["properties"] = properties
        if required:
            schema["required"] = sorted(required)
        if either:
            schema["allOf"] = [*schema.get("allOf", []), *either]
        schema["title"] = self._spec.name
        schema["description"] = self._spec.summary
        return schema

    def _spellings(self, name: str) -> list[str]:
        return [alias for alias, target in self._spec.aliases.items() if target == name]

    def _clashes(self, params: Mapping[str, Any]) -> list[ParamProblem]:
        """Report two spellings of one parameter.

        An author should not have to know which of them wins.
        """
        seen: dict[str, str] = {}
        problems = []
        for given in params:
            name = self._spec.aliases.get(given, given)
            if name in seen:
                problems.append(
                    ParamProblem(
                        (given,), f"{given!r} and {seen[name]!r} mean the same parameter", "keep one of them"
                    )
                )
            seen.setdefault(name, given)
        return problems

    def _problems(self, error: ValidationError, params: Mapping[str, Any]) -> list[ParamProblem]:
        """Return one problem for each place; of a union, what each of its types wanted."""
        given = self.canonical(params)
        places: dict[tuple[str | int, ...], list[ErrorDetails]] = {}
        for detail in error.errors(include_url=False):
            places.setdefault(_place(detail, given), []).append(detail)
        return [self._problem(place, details, params) for place, details in places.items()]

    def _problem(
        self, place: tuple[str | int, ...], details: list[ErrorDetails], params: Mapping[str, Any]
    ) -> ParamProblem:
        first = details[0]
        wanted = " or ".join(dict.fromkeys(plain_message(detail) for detail in details))
        if not place:
            return ParamProblem((), wanted)
        path = (self._as_written(str(place[0]), params), *place[1:])
        dotted = ".".join(str(part) for part in path)
        if first["type"] == "missing":
            return ParamProblem(path[:-1], f"{self._spec.name} needs {dotted!r}")
        if first["type"] == "extra_forbidden":
            return self._unknown(path, dotted, len(place) == 1)
        shown = "" if place[0] in self._model.sensitive else _shown(first["input"])
        return ParamProblem(path, f"{dotted!r}{shown}: {wanted}")

    def _unknown(self, path: tuple[str | int, ...], dotted: str, at_top: bool) -> ParamProblem:
        name = str(path[0])
        if at_top and name in self._model.refused:
            return ParamProblem(
                path, f"{self._spec.name} does not take {dotted!r}", self._model.refused[name]
            )
        known = [*self._names(), *self._spec.aliases]
        near = difflib.get_close_matches(name, known, n=1) if at_top else []
        if near:
            hint = f"did you mean {near[0]!r}?"
        elif at_top:
            hint = f"it takes {', '.join(sorted(self._names()))}" if known else "it takes no parameters"
        else:
            hint = None
        return ParamProblem(path, f"{self._spec.name} has no parameter {dotted!r}", hint)

    def _names(self) -> list[str]:
        """Parameters as playbooks write them."""
        return [field.alias or name for name, field in self._model.model_fields.items()]

    def _as_written(self, name: str, params: Mapping[str, Any]) -> str:
        if name in params:
            return name
        return next((alias for alias in self._spellings(name) if alias in params), name)

    def _refusal(self, problem: ParamProblem) -> TaskError:
        return TaskError(
            f"{self._spec.name}: {problem.message}",
            kind="schema",
            code="kind_params",
            hint=problem.hint or f"see the parameters of the kind {self._spec.name}",
            details={"field": ".".join(str(part) for part in problem.path)} if problem.path else None,
        )


@lru_cache(128)
def _model_schema(model: type[KindParams]) -> bytes:
    """Made once for all registries of a process."""
    return codec.encode(model.model_json_schema())


@lru_cache(128)
def _tolerant(model: type[KindParams]) -> type[KindParams]:
    """Make a model that takes ``HOLE`` everywhere."""
    return create_model(
        model.__name__,
        __base__=model,
        __validators__={"accept_holes": field_validator("*", mode="wrap")(accept_hole)},
    )


def has_hole(value: Any) -> bool:
    """Return whether a template is anywhere inside ``value``."""
    if isinstance(value, Hole):
        return True
    if isinstance(value, Mapping):
        return any(has_hole(item) for item in value.values())
    return isinstance(value, (list, tuple)) and any(has_hole(item) for item in value)


def accept_hole(cls: type[BaseModel], value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """Validate a field, and take a template as it is."""
    return value if has_hole(value) else validate(value)


def _or_template(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Allow ``schema`` or a string with a template in it.

    Annotations stay on the outside, where editors look.
    """
    outside = {key: schema[key] for key in ("title", "description", "default") if key in schema}
    inside = {key: value for key, value in schema.items() if key not in outside}
    if not inside or inside == {"type": "string"}:
        return dict(schema)
    return {**outside, "anyOf": [inside, {"type": "string", "pattern": TEMPLATE_PATTERN}]}


def _shown(value: Any) -> str:
    if isinstance(value, (Mapping, list, tuple)):
        return f" is a {'mapping' if isinstance(value, Mapping) else 'list'} of {len(value)}"
    text = repr(value)
    return f" is {excerpt(text, SHOWN_CHARACTERS)}"


def _place(detail: ErrorDetails, given: Mapping[str, Any]) -> tuple[str | int, ...]:
    """Return the error's location without the parts that name a branch of a union."""
    absent = detail["type"] in ("missing", "extra_forbidden")
    value: Any = given
    place: list[str | int] = []
    for index, part in enumerate(detail["loc"]):
        if part in value if isinstance(value, Mapping) else _is_index(value, part):
            value = value[part]
        elif not (absent and index == len(detail["loc"]) - 1):
            continue
        place.append(part)
    return tuple(place)


def _is_index(value: Any, part: str | int) -> bool:
    return isinstance(value, (list, tuple)) and isinstance(part, int) and part < len(value)


def plain_message(detail: ErrorDetails) -> str:
    """Describe what is wrong, in the words of a playbook's author."""
    if detail["type"] == "model_type":
        return "input should be a mapping"
    if detail["type"] == "union_tag_invalid":
        context = detail["ctx"]
        kinds = str(context["expected_tags"]).replace("'", "")
        return f"its {context['discriminator']} is {context['tag']!r}, which is none of {kinds}".replace(
            "'kind'", "kind"
        )
    if detail["type"] == "union_tag_not_found":
        return "it needs a `kind`"
    text = detail["msg"].removeprefix("Value error, ").replace("valid dictionary", "mapping")
    return text[:1].lower() + text[1:]
