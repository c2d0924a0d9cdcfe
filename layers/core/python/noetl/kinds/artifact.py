"""The kind ``artifact``: reads a large result, whole or in part, and writes results."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from noetl.domain.errors import TaskError
from noetl.domain.kinds import (
    HOLE,
    ArtifactWriter,
    KindSpec,
    ParamProblem,
    ResultOptions,
    TaskContext,
    TaskResult,
)
from noetl.domain.results.references import format_of, is_ref, plain_loop, select
from noetl.kinds.support.base import KindParams

SPEC = KindSpec(
    name="artifact",
    summary="Reads a large result by its reference, whole or in part; writes one; shows what a reference says.",
    pool="io",
    default_timeout=300.0,
    aliases={
        "operation": "action",
        "reference": "ref",
        "path": "select",
        "data": "body",
        "value": "body",
        "rows": "body",
    },
    ref_fields=("ref",),
    other_names=("result",),
)

EXAMPLE: dict[str, Any] = {"action": "get", "ref": "{{ crawl }}", "offset": 1000, "limit": 100}

Action = Literal["get", "put", "head"]
Format = Literal["json", "jsonl", "csv", "parquet", "text", "bytes"]
_ROWS = frozenset({"jsonl", "csv", "parquet"})


class Params(KindParams):
    """``get`` and ``head`` take ``ref``; ``put`` takes ``body``."""

    refused: ClassVar[Mapping[str, str]] = {
        "uri": 'give the whole reference: `ref: "{{ step }}"`; its checksum and format belong to it',
        "key": 'give the reference of a result: `ref: "{{ step }}"`',
    }

    action: Annotated[Action, Field(description="What to do.")] = "get"
    ref: Annotated[
        Any,
        Field(
            description="`get`, `head`: the result, as `{{ step }}`. One that is no reference is taken as it is."
        ),
    ] = None
    shown_as: Annotated[
        Literal["value", "rows", "text", "base64"],
        Field(alias="as", description="`get`: the value, a list of rows, the text, or the bytes."),
    ] = "value"
    select: Annotated[
        str | None,
        Field(min_length=1, max_length=500, description="`get`: a part of the value, as `$.paging.next`."),
    ] = None
    offset: Annotated[
        int, Field(ge=0, description="`get`: so many elements, rows, characters or bytes are left out first.")
    ] = 0
    limit: Annotated[int | None, Field(ge=1, description="`get`: at most so many of them.")] = None
    body: Annotated[
        Any, Field(description="`put`: text, base64 (`format: bytes`), a list of rows, or any value.")
    ] = None
    format: Annotated[
        Format | None,
        Field(
            description="`put`: what is written; by the body unless given. `get`: instead of what the reference says."
        ),
    ] = None
    content_type: Annotated[
        str | None,
        Field(max_length=256, pattern=r"^[\x20-\x7e]*$", description="`put`: the media type kept with it."),
    ] = None
    store: Annotated[str | None, Field(description="`put`: the tier, as for `spec.result.store`.")] = None
    scope: Annotated[
        str | None, Field(description="`put`: how long it lives, as for `spec.result.store`.")
    ] = None
    ttl: Annotated[str | None, Field(description="`put`: as for `spec.result.store`.")] = None
    compression: Annotated[str | None, Field(description="`put`: as for `spec.result.store`.")] = None

    @model_validator(mode="after")
    def _fits(self) -> Params:
        action: Any = self.action
        given = self.model_fields_set
        if action is HOLE:
            return self
        if action == "put" and "body" not in given:
            raise ValueError("put needs a `body`")
        if action != "put" and "ref" not in given:
            raise ValueError(f'{action} needs a `ref`, the result of a step: `ref: "{{{{ step }}}}"`')
        return self


def check(params: Mapping[str, Any]) -> list[ParamProblem]:
    """Check what one action takes and another does not."""
    action = params.get("action", "get")
    own = {"get": {"ref", "as", "select", "offset", "limit", "format"}, "head": {"ref"}}.get(str(action))
    own = (
        {"body", "format", "content_type", "store", "scope", "ttl", "compression"} if action == "put" else own
    )
    extra = sorted(params.keys() - own - {"action"}) if own is not None else []
    return [
        ParamProblem((name,), f"{action} takes no {name!r}", f"it takes {', '.join(sorted(own or ()))}")
        for name in extra
    ]


def run(params: Params, context: TaskContext) -> TaskResult:
    """Run the action. ``get``: the value, or a part of it. ``put``: the reference.

    ``head``: ``{ref, available, format, size, …}``.

    Raises TaskError: code ``REFERENCE_NOT_AVAILABLE``, ``result_too_large_to_load``, ``result_not_a_value``, ``object_format``,
    ``result_too_large``.
    """
    if params.action == "put":
        return TaskResult(_put(params, context))
    ref = plain_loop(params.ref)
    return TaskResult(_head(ref, context) if params.action == "head" else _get(ref, params, context))


def _get(ref: Any, params: Params, context: TaskContext) -> Any:
    from noetl.kinds.support.artifact_values import Slice, load

    part = Slice(params.offset, params.limit)
    if is_ref(ref):
        return load(
            ref, context, shown_as=params.shown_as, format=params.format, path=params.select, part=part
        )
    value = plain_loop(select(ref, params.select)) if params.select else ref
    return part.of(_small(value, params))


def _small(value: Any, params: Params) -> Any:
    """Shape a result that travels with its message as a stored one."""
    if params.shown_as == "rows":
        rows = value.get("rows") if isinstance(value, dict) else value
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise TaskError(
                "the value has no rows: it is no list of mappings", kind="parse", code="object_format"
            )
        return rows
    if params.shown_as == "value":
        return value
    from noetl.domain import codec

    text = value if isinstance(value, str) else codec.encode(value).decode()
    return text if params.shown_as == "text" else base64.b64encode(text.encode()).decode()


def _head(ref: Any, context: TaskContext) -> dict[str, Any]:
    if not is_ref(ref):
        raise TaskError(
            "`ref` is no reference: this result is small and travels by itself",
            kind="schema",
            code="not_a_reference",
            hint="use its value, or write it with `action: put`",
        )
    try:
        with context.artifacts.open(ref) as stream:
            stream.read(1)
        available = True
    except TaskError as error:
        if error.code != "REFERENCE_NOT_AVAILABLE":
            raise
        available = False
    meta = ref.get("meta") or {}
    return {
        "ref": ref["ref"],
        "available": available,
        "format": format_of(ref),
        "content_type": meta.get("content_type"),
        **{
            name: ref.get(name)
            for name in ("store", "size", "sha256", "scope", "expires_at", "extracted", "keys", "preview")
        },
    }


def _put(params: Params, context: TaskContext) -> dict[str, Any]:
    form = params.format or _guessed(params.body)
    chosen = (params.store, params.scope, params.ttl, params.compression)
    options = ResultOptions(*chosen) if any(chosen) else None
    with context.artifacts.create(form, params.content_type or "", options) as writer:
        counts = _write(params.body, form, writer, context)
        return writer.close(counts)


def _guessed(body: Any) -> Format:
    return "text" if isinstance(body, str) else "json"


def _write(body: Any, form: Format, writer: ArtifactWriter, context: TaskContext) -> dict[str, Any]:
    """Write ``body`` as ``form``; return the row count that the reference states, if any."""
    from noetl.domain import codec

    if form == "json":
        writer.write(codec.encode(body))
        return {"count": len(body)} if isinstance(body, list) else {}
    if form in _ROWS:
        from noetl.kinds.rows.writing import row_writer

        rows = body.get("rows") if isinstance(body, dict) else body
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise _unfit(form, "a list of mappings, one for each row")
        folder, redaction = context.settings.work_dir, context.artifacts.redaction()
        out = row_writer(form, writer.write, folder=folder, redaction=redaction)  # type: ignore[arg-type]
        out.write(rows)
        out.close()
        return {"row_count": len(rows)}
    if not isinstance(body, str):
        raise _unfit(form, "a text" if form == "text" else "base64 text")
    try:
        writer.write(body.encode() if form == "text" else base64.b64decode(body, validate=True))
    except (UnicodeEncodeError, binascii.Error) as error:
        raise _unfit(form, f"what it can hold ({error})") from None
    return {}


def _unfit(form: str, wanted: str) -> TaskError:
    return TaskError(
        f"artifact: `body` is not {wanted}",
        kind="schema",
        code="object_format",
        hint=f"`format: {form}` asks for it",
    )
