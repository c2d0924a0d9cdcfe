"""The kind ``resolve``: loads the values behind references, one result or several by name."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, model_validator

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import KindSpec, TaskContext, TaskResult
from noetl.domain.results.references import is_ref, plain_loop, select
from noetl.kinds.support.base import KindParams

SPEC = KindSpec(
    name="resolve",
    summary="Loads what references stand for: one result, or several by name.",
    pool="io",
    default_timeout=300.0,
    aliases={"reference": "ref", "references": "refs", "select": "path"},
    ref_fields=("ref", "refs"),
)

EXAMPLE: dict[str, Any] = {
    "refs": {"orders": "{{ orders }}", "stock": "{{ stock }}"},
    "path": "$.rows",
    "limit": 100,
}


class Params(KindParams):
    """``ref``, or ``refs``. A result may be inline or large enough for a reference."""

    ref: Annotated[Any, Field(description="One result: `{{ step }}`.")] = None
    refs: Annotated[
        dict[str, Any] | list[Any] | None,
        Field(description="Several: a mapping or a list of results. `path` and `limit` are applied to each."),
    ] = None
    path: Annotated[
        str | None,
        Field(min_length=1, max_length=500, description="The part that is wanted, as `$.rows[0].id`."),
    ] = None
    limit: Annotated[int | None, Field(ge=1, description="At most so many elements of a list.")] = None

    @model_validator(mode="after")
    def _one_of_them(self) -> Params:
        if len({"ref", "refs"} & self.model_fields_set) != 1:
            raise ValueError("give `ref` (one result) or `refs` (a mapping or a list of them)")
        return self


def run(params: Params, context: TaskContext) -> TaskResult:
    """Load the value of ``ref``, or each value of ``refs``.

    References inside a value that is no reference itself are loaded too.

    Raises TaskError: code ``REFERENCE_NOT_AVAILABLE`` (which one: ``details.ref``), ``result_too_large_to_load``.
    """
    resolver = _Resolver(params, context)
    if params.refs is None:
        return TaskResult(resolver.result(params.ref))
    if isinstance(params.refs, list):
        return TaskResult([resolver.result(one) for one in params.refs])
    return TaskResult({name: resolver.result(one) for name, one in params.refs.items()})


class _Resolver:
    def __init__(self, params: Params, context: TaskContext) -> None:
        self._params = params
        self._context = context
        self._left = context.settings.output_max_bytes

    def result(self, given: Any) -> Any:
        """Load one of the results that were asked for."""
        from noetl.kinds.support.artifact_values import Slice

        given = plain_loop(given)
        path, part = self._params.path, Slice(0, self._params.limit)
        if is_ref(given):
            return self._inside(self._loaded(given, path, part))
        found = plain_loop(select(given, path)) if path else given
        return self._inside(part.of(found))

    def _inside(self, value: Any) -> Any:
        """Load the references in ``value``: its own, not those of the loaded values."""
        from noetl.kinds.support.artifact_values import Slice

        value = plain_loop(value)
        if is_ref(value):
            return self._loaded(value, None, Slice())
        if isinstance(value, dict):
            return {name: self._inside(entry) for name, entry in value.items()}
        return [self._inside(entry) for entry in value] if isinstance(value, list) else value

    def _loaded(self, ref: Any, path: str | None, part: Any) -> Any:
        from noetl.kinds.support.artifact_values import load

        try:
            value = load(ref, self._context, path=path, part=part)
        except TaskError as error:
            error.details.setdefault("ref", ref["ref"])
            raise
        self._left -= len(codec.encode(value))
        if self._left < 0:
            raise TaskError(
                f"the results together are more than the {self._context.settings.output_max_bytes} bytes that a task may load",
                kind="storage_quota",
                code="result_too_large_to_load",
                hint="take fewer of them, a part (`path`) or fewer elements (`limit`)",
            )
        return value
